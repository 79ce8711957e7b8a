// Sizes for a model that leaves some open, to measure and to compare it at.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/devices/device.h"

namespace rewright::optimizer {

using NamedSizes = std::map<std::string, std::int64_t>;

std::string to_string(const NamedSizes& sizes);  // "batch 1, length 16"

// The named sizes of the graph's inputs, those that `given` says left out.
std::vector<std::string> open_sizes(const Graph& graph, const NamedSizes& given);

// `given`, and a size for every other named size of the graph's inputs, chosen so that every operator is well-typed: what the
// operators demand (the rows of a product's weights, sizes that are split or joined, windows that must fit) is solved for, and
// the rest is 1 for first axes and for all others 16, or another usual size if that does not fit. The first is to be taken; the
// others are for models that do not run at it. `given` alone if nothing was found.
std::vector<NamedSizes> fitting_sizes(const Graph& graph, const NamedSizes& given);

// The first of them at which the device executes the graph on random inputs, or does not end; the first of all if there is
// none, or the device does not execute graphs. Seed and cancellation are those of `timing`.
NamedSizes executable_sizes(const Graph& graph, const std::vector<NamedSizes>& choices, Device& device, TimingOptions timing);

// These sizes, and 1 for every other: to predict costs with.
Substitution sizes_or_one(NamedSizes sizes);

// The graph with these sizes, and 1 for the other named sizes of its inputs. What only an execution tells stays open.
Graph with_named_sizes(const Graph& graph, NamedSizes sizes);

}  // namespace rewright::optimizer
