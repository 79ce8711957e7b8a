// Helpers of the operators' unit tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "operators/operator.h"
#include "operators/readings/interpreter.h"

namespace rewright::testing {

using Named = std::vector<std::pair<std::string, AttributeValue>>;

inline Attributes attributes(const Operator& op, const Named& named) {
  Attributes result = op.defaults();
  for (const auto& [name, value] : named) result.at(op.field(name).value()) = value;
  return result;
}

// The definition for inputs of these types, with normalized attributes.
inline Definition define(const std::string& name, const std::vector<TensorType>& types, const Named& named = {}) {
  const Operator& op = registry().get(name);
  const Inputs inputs = Inputs::of(types);
  return op.define(op.normalized(attributes(op, named), inputs), inputs);
}

// The shape of the first output as text, or the message of the error.
inline std::string shape_of(const std::string& name, const std::vector<TensorType>& types, const Named& named = {}) {
  try {
    return to_string(define(name, types, named).outputs()[0].type.shape);
  } catch (const Error& e) {
    return e.text();
  }
}

// The outputs by the interpreter; an empty Tensor is an absent input.
inline std::vector<Tensor> evaluate(const std::string& name, const std::vector<Tensor>& tensors, const Named& named = {}) {
  const Operator& op = registry().get(name);
  std::vector<std::optional<TensorType>> types;
  for (const Tensor& t : tensors)
    types.push_back(t ? std::optional(TensorType{t.type(), to_indices(t.sizes())}) : std::nullopt);
  return interpret(op, op.normalized(attributes(op, named), Inputs::of(types)), tensors);
}

inline TensorType reals(Indices shape) { return {DataType::kFloat, std::move(shape)}; }
inline TensorType integers(Indices shape) { return {DataType::kInt64, std::move(shape)}; }

inline Tensor tensor(Sizes sizes, const std::vector<double>& values, DataType type = DataType::kDouble) {
  return Tensor::from_reals(type, std::move(sizes), values);
}

inline Tensor random_tensor(Sizes sizes, std::mt19937& random, DataType type = DataType::kDouble) {
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<double> values(static_cast<std::size_t>(element_count(sizes)));
  for (double& v : values) v = uniform(random);
  return Tensor::from_reals(type, std::move(sizes), values);
}

}  // namespace rewright::testing
