// Single elements of a graph's values by the reference, at any size: each from the elements that its denotation reads, without
// computing whole tensors.
//
//   ElementSampler sampler(graph, [&](ValueId v) { return stored(v); });   // elements that are in memory
//   Sample s = sampler.element(result, 12345);                            // computed from those
//   bool right = s.certain && std::abs(found - s.real) <= s.error;
//
// Beside each element stands a bound on what a float computation of it may be off by: the rounding of every operation carried
// through all that follow; sums of n terms by the square root of n times their terms' magnitudes, as errors of either sign add
// up (N. Higham, T. Mary: A new approach to probabilistic rounding error analysis, 2019).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// Elements in memory, by their row-major place.
class StoredElements {
 public:
  virtual ~StoredElements() = default;
  virtual double real(std::int64_t at) const = 0;           // of real types
  virtual std::int64_t integer(std::int64_t at) const = 0;  // of the others
};

// The stored elements of a tensor; `place` says where an element lies in its bytes, in elements (null: row-major).
std::unique_ptr<StoredElements> stored_elements_of(DataType type, std::int64_t stored_count, const std::byte* bytes,
                                                   std::function<std::int64_t(std::int64_t)> place = {});

struct Sample {
  bool is_real = true;
  double real = 0, error = 0;
  std::int64_t integer = 0;
  // False where rounding decides a comparison or a conversion, so that a right computation may have another result.
  bool certain = true;
};

class ElementSampler {
 public:
  // Null where a value's elements are to be computed from its producer's operands.
  using Find = std::function<const StoredElements*(ValueId)>;
  // The graph's sizes are known; it has to stay as long as the sampler.
  ElementSampler(const Graph& graph, Find find);
  ~ElementSampler();

  // The element of a node's result at a row-major place, from the node's operands, even if the value itself is stored. Nothing
  // if it would take more than `most_reads` reads, or the definitions do not say it (procedures, random numbers, unknown
  // sizes).
  std::optional<Sample> element(ValueId value, std::int64_t at, std::int64_t most_reads);

  // Another set of elements is in memory now.
  void forget();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rewright::graph
