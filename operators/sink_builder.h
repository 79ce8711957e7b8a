// A GraphBuilder that writes ONNX nodes: for the export of operators that ONNX expresses by several nodes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

static_assert(static_cast<OnnxValue>(kNoGradient) == kAbsent);

// Throws Error(kUnsupported) for operators that cannot be written in the model's opset.
class SinkBuilder final : public GraphBuilder {
 public:
  explicit SinkBuilder(OnnxSink& sink) : sink_(sink) {}

  const TensorType& type_of(ValueId value) const override { return sink_.type_of(static_cast<OnnxValue>(value)); }
  std::vector<ValueId> node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs) override {
    std::vector<std::optional<TensorType>> types;
    for (const ValueId id : inputs) types.push_back(id == kNoGradient ? std::nullopt : std::optional(type_of(id)));
    const Inputs typed = Inputs::of(std::span<const std::optional<TensorType>>(types)).types_only();
    attributes = op.normalized(std::move(attributes), typed);
    std::vector<OnnxValue> outputs;
    const Definition definition = op.define(attributes, typed);
    for (const Output& output : definition.outputs()) outputs.push_back(sink_.fresh(output.type));
    const std::vector<OnnxValue> given(inputs.begin(), inputs.end());
    const OnnxMapping& mapping = op.onnx();
    if (!(mapping.write ? mapping.write(sink_, attributes, given, outputs)
                        : write_default(op, sink_, attributes, given, outputs)))
      throw Error(ErrorCode::kUnsupported, op.name() + " cannot be written in opset " + std::to_string(sink_.opset()));
    return {outputs.begin(), outputs.end()};
  }
  ValueId constant(Tensor tensor) override { return static_cast<ValueId>(sink_.constant(std::move(tensor))); }

 private:
  OnnxSink& sink_;
};

}  // namespace rewright::operators
