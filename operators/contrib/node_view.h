// A contrib node seen as a node of ONNX's own operator.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operators/onnx.h"
#include "operators/procedure.h"

namespace rewright::operators {

// The node's attributes with other inputs, type and opset.
//
//   NodeView conv(source, "Conv", 11, {x, w, bias});
//   find_onnx("", "Conv")->onnx().import(conv, reason);
class NodeView final : public OnnxSource {
 public:
  NodeView(OnnxSource& source, std::string type, int opset, std::vector<OnnxValue> inputs)
      : source_(source), type_(std::move(type)), opset_(opset), inputs_(std::move(inputs)) {}

  // One attribute that the node gives in another way.
  void set(std::string attribute, std::vector<std::int64_t> values) {
    other_ = std::move(attribute), values_ = std::move(values);
  }

  const std::string& type() const override { return type_; }
  bool has(std::string_view attribute) const override { return attribute == other_ || source_.has(attribute); }
  std::int64_t integer(std::string_view a, std::int64_t otherwise) const override { return source_.integer(a, otherwise); }
  std::vector<std::int64_t> integers(std::string_view a) const override { return a == other_ ? values_ : source_.integers(a); }
  double real(std::string_view a, double otherwise) const override { return source_.real(a, otherwise); }
  std::vector<double> reals(std::string_view a) const override { return source_.reals(a); }
  std::string text(std::string_view a, std::string_view otherwise) const override { return source_.text(a, otherwise); }
  std::vector<std::string> texts(std::string_view a) const override { return source_.texts(a); }
  std::optional<Tensor> tensor(std::string_view a) const override { return source_.tensor(a); }

  int opset() const override { return opset_; }
  std::size_t input_count() const override { return inputs_.size(); }
  std::size_t output_count() const override { return 1; }
  OnnxValue input(std::size_t i) const override { return i < inputs_.size() ? inputs_[i] : kAbsent; }
  const TensorType& type_of(OnnxValue value) const override { return source_.type_of(value); }
  std::optional<Indices> contents(OnnxValue value) const override { return source_.contents(value); }
  std::optional<Tensor> constant_value(OnnxValue value) const override { return source_.constant_value(value); }
  bool never_empty(const Index& size) const override { return source_.never_empty(size); }
  std::vector<OnnxValue> node(const Operator& op, Attributes attributes, std::vector<OnnxValue> inputs) override {
    return source_.node(op, std::move(attributes), std::move(inputs));
  }
  OnnxValue constant(Tensor tensor) override { return source_.constant(std::move(tensor)); }

  // Imports the node by the operator's own mapping, or by the graph of its procedure. nullopt, with a reason, where these do.
  std::optional<std::vector<OnnxValue>> import(std::string& reason) {
    if (const Operator* op = find_onnx("", type_))
      return op->onnx().import ? op->onnx().import(*this, reason) : import_default(*op, *this, reason);
    if (const Procedure* procedure = find_procedure("", type_); procedure && procedure->graph)
      return procedure->graph(*this, reason);
    reason = "ONNX's " + type_ + " has no graph";
    return std::nullopt;
  }

 private:
  OnnxSource& source_;
  std::string type_;
  int opset_;
  std::vector<OnnxValue> inputs_;
  std::string other_;  // the attribute that was set
  std::vector<std::int64_t> values_;
};

}  // namespace rewright::operators
