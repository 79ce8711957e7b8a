// The reference interpreter: evaluates denotations. It is slow and simple; every backend is tested against it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "expressions/tensor.h"
#include "operators/operator.h"

namespace rewright::operators {

// Evaluates one operator on tensors: reals in double, rounded to the output's type; integers in 64 bits, wrapped to the
// output's type. An absent optional input is an empty Tensor. Throws Error(kBadInput) for ill-typed input. Operators without a
// denotation run their execute().
//
//   const Operator& add = registry().get("Add");
//   const Tensor inputs[] = {a, b};
//   const Tensor sum = interpret(add, add.defaults(), inputs).at(0);
std::vector<Tensor> interpret(const Operator& op, const Attributes& attributes, std::span<const Tensor> inputs);

// A tensor over the integers modulo 2^61 - 1 (for real element types) or over 64-bit integers (for all others).
struct FieldTensor {
  DataType type = DataType::kUndefined;
  Sizes sizes;
  std::vector<std::uint64_t> elements;  // residues, or integers in two's complement
};
inline constexpr std::uint64_t kFieldPrime = (std::uint64_t{1} << 61) - 1;

// Evaluates an operator in the fingerprint's arithmetic: its denotation over the prime field, with functions as keyed hashes
// and maxima and minima in a keyed order. Dyadic fractions are exact; other reals, and named unknowns, become residues given by
// `key`. Throws Error(kUnsupported) for operators without a denotation.
std::vector<FieldTensor> interpret_in_field(const Operator& op, const Attributes& attributes,
                                            std::span<const FieldTensor> inputs, std::uint64_t key);

// The elements of an operator's integer outputs as index expressions, computed from the known contents of its inputs (nullopt:
// unknown). nullopt for an output whose elements are not known, or that has more than `limit`. Import uses this to follow the
// shapes that a model computes (Shape, Gather, Concat, ...).
std::vector<std::optional<Indices>> known_contents(const Operator& op, const Attributes& attributes,
                                                   std::span<const TensorType> input_types,
                                                   std::span<const std::optional<Indices>> input_contents,
                                                   std::int64_t limit = 1024);

}  // namespace rewright::operators
