// A value during the execution of a model: a tensor, a sequence, a map, or nothing (an absent input, an empty optional). An
// optional that is not empty is represented by its content.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "expressions/tensor.h"

namespace rewright {

class Datum {
 public:
  Datum() = default;
  Datum(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT: a tensor is a value
  static Datum sequence(std::vector<Datum> elements) {
    Datum d;
    d.sequence_ = std::make_shared<const std::vector<Datum>>(std::move(elements));
    return d;
  }
  // ONNX's map: a list of integers or strings, each once, and the value of each. Maps of one table share their keys. Throws
  // Error(kBadInput) if the keys are neither, or their number is not that of the values.
  static Datum map(std::shared_ptr<const Tensor> keys, Tensor values) {
    const bool fit = (is_integer(keys->type()) || keys->type() == DataType::kString) && keys->size() == values.size();
    if (!fit) throw Error(ErrorCode::kBadInput, "a map needs integers or strings as keys, and a value for each");
    Datum d(std::move(values));
    d.keys_ = std::move(keys);
    return d;
  }

  bool empty() const { return !sequence_ && !tensor_; }
  bool is_sequence() const { return sequence_ != nullptr; }
  bool is_map() const { return keys_ != nullptr; }
  bool is_tensor() const { return static_cast<bool>(tensor_) && !is_map(); }
  // Throw Error(kBadInput) if it is not a tensor, not a sequence, or not a map.
  const Tensor& tensor() const { return is_tensor() ? tensor_ : throw is_not("a tensor"); }
  const std::vector<Datum>& elements() const { return sequence_ ? *sequence_ : throw is_not("a sequence"); }
  const std::shared_ptr<const Tensor>& keys() const { return keys_ ? keys_ : throw is_not("a map"); }
  const Tensor& values() const { return keys_ ? tensor_ : throw is_not("a map"); }

 private:
  Error is_not(const char* wanted) const {
    if (empty()) return {ErrorCode::kBadInput, "is empty"};
    const char* const is = is_sequence() ? "is a sequence" : is_map() ? "is a map" : "is a tensor";
    return {ErrorCode::kBadInput, std::string(is) + ", " + wanted + " is needed"};
  }

  Tensor tensor_;  // of a map, its values
  std::shared_ptr<const Tensor> keys_;
  std::shared_ptr<const std::vector<Datum>> sequence_;
};

}  // namespace rewright
