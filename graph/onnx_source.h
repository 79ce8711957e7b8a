// A node of an ONNX model as the operators' mappings see it.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/onnx_model.h"
#include "operators/onnx.h"

namespace rewright {

// Tensors that the importer computed from constants, beyond the leaves themselves.
using KnownTensors = std::unordered_map<ValueId, Tensor>;

// Numbers values as the graph does.
class NodeSource final : public OnnxSource {
 public:
  NodeSource(Graph& graph, KnownTensors& known, const onnx::NodeProto& proto, int opset, std::vector<ValueId> inputs);

  const std::string& type() const override { return proto_.op_type(); }
  int opset() const override { return opset_; }
  std::size_t input_count() const override { return inputs_.size(); }
  std::size_t output_count() const override { return output_count_; }
  OnnxValue input(std::size_t i) const override { return i < inputs_.size() ? to_onnx(inputs_[i]) : kAbsent; }

  bool has(std::string_view attribute) const override { return find(attribute) != nullptr; }
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const override;
  std::vector<std::int64_t> integers(std::string_view attribute) const override;
  double real(std::string_view attribute, double otherwise) const override;
  std::vector<double> reals(std::string_view attribute) const override;
  std::string text(std::string_view attribute, std::string_view otherwise) const override;
  std::optional<Tensor> tensor(std::string_view attribute) const override;

  const TensorType& type_of(OnnxValue value) const override;
  std::optional<Indices> contents(OnnxValue value) const override;
  std::optional<Tensor> constant_value(OnnxValue value) const override;

  std::vector<OnnxValue> node(const Operator& op, Attributes attributes, std::vector<OnnxValue> inputs) override;
  OnnxValue constant(Tensor tensor) override;

  static OnnxValue to_onnx(ValueId id) { return id == kNoValue ? kAbsent : static_cast<OnnxValue>(id); }
  static ValueId to_id(OnnxValue value) { return value == kAbsent ? kNoValue : static_cast<ValueId>(value); }

 private:
  const onnx::AttributeProto* find(std::string_view name) const;
  const onnx::AttributeProto* find(std::string_view name, onnx::AttributeProto::AttributeType type) const;
  void evaluate(const Operator& op, const Node& node);

  Graph& graph_;
  KnownTensors& known_;
  const onnx::NodeProto& proto_;
  int opset_;
  std::vector<ValueId> inputs_;
  std::size_t output_count_ = 0;
};

}  // namespace rewright
