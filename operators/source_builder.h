// A GraphBuilder that adds the nodes that an ONNX node is imported as.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

static_assert(static_cast<OnnxValue>(kNoGradient) == kAbsent);

class SourceBuilder final : public GraphBuilder {
 public:
  explicit SourceBuilder(OnnxSource& source) : source_(source) {}

  // The node's input; kNoGradient if it is absent.
  ValueId input(std::size_t i) const { return static_cast<ValueId>(source_.input(i)); }
  const TensorType& type_of(ValueId value) const override { return source_.type_of(static_cast<OnnxValue>(value)); }
  std::vector<ValueId> node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs) override {
    const std::vector<OnnxValue> given(inputs.begin(), inputs.end());
    const std::vector<OnnxValue> made = source_.node(op, std::move(attributes), given);
    return {made.begin(), made.end()};
  }
  ValueId constant(Tensor tensor) override { return static_cast<ValueId>(source_.constant(std::move(tensor))); }

  static std::vector<OnnxValue> results(const std::vector<ValueId>& values) { return {values.begin(), values.end()}; }

 private:
  OnnxSource& source_;
};

}  // namespace rewright::operators
