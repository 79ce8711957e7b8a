// Computes single elements of a graph's values, at any size: each from the elements that its denotation reads, without
// computing whole tensors. Used to check kernels.
//
//   ElementSampler sampler(graph, [&](ValueId v) { return stored(v); });     // elements that are in memory
//   if (const auto s = sampler.element(result, 12345, 1 << 20))              // nullopt: too expensive, or no denotation
//     right = !s->certain || std::abs(found - s->real) <= s->error;
//
// Each element comes with a bound on the error of a computation in float: the rounding error of every operation is propagated
// through all that follow; a sum of n terms contributes the square root of n times its terms' magnitudes, since errors of
// either sign cancel (N. Higham, T. Mary: A new approach to probabilistic rounding error analysis, 2019).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// Elements in memory by their row-major place.
class StoredElements {
 public:
  virtual ~StoredElements() = default;
  virtual double real(std::int64_t at) const = 0;           // of real types
  virtual std::int64_t integer(std::int64_t at) const = 0;  // of all others
};

// The stored elements of a tensor. `place` maps a row-major place to the element's position in `bytes`, in elements; null: the
// tensor is row-major.
std::unique_ptr<StoredElements> stored_elements_of(DataType type, std::int64_t stored_count, const std::byte* bytes,
                                                   std::function<std::int64_t(std::int64_t)> place = {});

struct Sample {
  bool is_real = true;
  double real = 0, error = 0;
  std::int64_t integer = 0;
  // False if rounding decides a comparison or conversion, so that a correct computation may have another result.
  bool certain = true;
};

class ElementSampler {
 public:
  // Returns null if a value's elements are to be computed from its producer's operands.
  using Find = std::function<const StoredElements*(ValueId)>;
  // The graph's sizes must be known; the graph must outlive the sampler.
  ElementSampler(const Graph& graph, Find find);
  ~ElementSampler();

  // The element of a node's result at a row-major place, computed from the node's operands even if the value itself is stored.
  // nullopt if that takes more than `most_reads` reads, or has no denotation (procedures, random numbers, unknown sizes).
  std::optional<Sample> element(ValueId value, std::int64_t at, std::int64_t most_reads);

  // Drops what was computed, after the elements in memory have changed.
  void forget();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rewright::graph
