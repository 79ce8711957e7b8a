// A value during the execution of a model: a tensor, a sequence, or nothing (an absent input, an empty optional). An optional
// that is not empty is represented by its content.
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

  bool empty() const { return !sequence_ && !tensor_; }
  bool is_sequence() const { return sequence_ != nullptr; }
  // Throw Error(kBadInput) if it is not a tensor, or not a sequence.
  const Tensor& tensor() const {
    if (!tensor_) throw Error(ErrorCode::kBadInput, sequence_ ? "is a sequence, a tensor is needed" : "is empty");
    return tensor_;
  }
  const std::vector<Datum>& elements() const {
    if (!sequence_) throw Error(ErrorCode::kBadInput, tensor_ ? "is a tensor, a sequence is needed" : "is empty");
    return *sequence_;
  }

 private:
  Tensor tensor_;
  std::shared_ptr<const std::vector<Datum>> sequence_;
};

}  // namespace rewright
