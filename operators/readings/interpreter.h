// The reference interpreter: evaluates denotations. Slow, plain, and the judge of every backend.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "expressions/tensor.h"
#include "operators/operator.h"

namespace rewright::operators {

// Evaluates one operator on tensors (reals in double, rounded to the output's type; integers in 64 bits, wrapped to the
// output's type). An absent optional input is an empty Tensor. Throws Error on ill-typed input. Operators without a denotation
// are executed by their own execute().
std::vector<Tensor> interpret(const Operator& op, const Attributes& attributes, std::span<const Tensor> inputs);

// A tensor over the field of integers modulo 2^61 - 1 (real element types) or over 64-bit integers (all others).
struct FieldTensor {
  DataType type = DataType::kUndefined;
  Sizes sizes;
  std::vector<std::uint64_t> elements;  // residues, or integers as two's complement
};
inline constexpr std::uint64_t kFieldPrime = (std::uint64_t{1} << 61) - 1;

// The fingerprint's arithmetic: the same denotations over the prime field; functions are keyed hashes. Maxima and minima are
// taken in a keyed order. Reals that are not integers (and named unknowns) become residues fixed by `key`.
// Throws Error(kUnsupported) for operators without a denotation.
std::vector<FieldTensor> interpret_in_field(const Operator& op, const Attributes& attributes,
                                            std::span<const FieldTensor> inputs, std::uint64_t key);

// The elements of an operator's integer outputs as index expressions, computed from the known contents of its inputs
// (nothing for an input whose contents are unknown). nullopt for an output whose elements cannot be known, or that has more
// than `limit` elements. This is how shapes that a model computes (Shape, Gather, Concat, ...) are followed.
std::vector<std::optional<Indices>> known_contents(const Operator& op, const Attributes& attributes,
                                                   std::span<const TensorType> input_types,
                                                   std::span<const std::optional<Indices>> input_contents,
                                                   std::int64_t limit = 1024);

}  // namespace rewright::operators
