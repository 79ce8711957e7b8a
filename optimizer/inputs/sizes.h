// Chooses sizes for models that leave some open, for measuring and comparing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/devices/device.h"

namespace rewright::optimizer {

using NamedSizes = std::map<std::string, std::int64_t>;

std::string to_string(const NamedSizes& sizes);  // "batch 1, length 16"

// Sizes that a model is to be fast at, and how much its time at them counts.
struct WeightedSizes {
  NamedSizes sizes;
  double weight = 1;
};

// The named sizes of the graph's inputs, those that `given` says left out.
std::vector<std::string> open_sizes(const Graph& graph, const NamedSizes& given);

// `given`, with a size for every other named size of the graph's inputs, such that every operator is well-typed. The operators'
// demands (rows of a product's weights, sizes that are split or joined, windows that must fit) are solved; remaining first axes
// get 1 unless inputs are positions on them, and others 16 or another usual size. The first result is preferred; the others are
// for models that do not run at it. Only `given` if nothing was found.
std::vector<NamedSizes> fitting_sizes(const Graph& graph, const NamedSizes& given);

// The first of these at which the device executes the graph on random inputs (or does not finish); the first one if there is
// none, or if the device does not execute graphs. Seed and cancellation come from `timing`.
NamedSizes executable_sizes(const Graph& graph, const std::vector<NamedSizes>& choices, Device& device, TimingOptions timing);

// The sizes that were chosen where `given` says none, with many rows in place of one on first axes: as many as take a device
// some milliseconds, at most 1,000. What is fast for one row may be slow for many. nullopt if no first axis is open, or the
// device does not execute the graph with 4 rows, or that takes longer.
std::optional<NamedSizes> with_more_rows(const Graph& graph, const NamedSizes& given, const NamedSizes& chosen, Device& device,
                                         TimingOptions timing);

// These sizes, and 1 for all others: for predicting costs.
Substitution sizes_or_one(NamedSizes sizes);
std::vector<CostedSizes> sizes_or_one(std::span<const WeightedSizes> all);

// The graph with these sizes, and 1 for other named sizes of its inputs. Sizes that only execution determines stay open.
Graph with_named_sizes(const Graph& graph, NamedSizes sizes);

}  // namespace rewright::optimizer
