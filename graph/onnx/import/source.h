// The OnnxSource of import: a node of an ONNX model for the operators' mappings.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/onnx/attributes.h"
#include "graph/onnx/model.h"
#include "operators/onnx.h"

namespace rewright::graph {

// Tensors that the importer computed from constants.
using KnownTensors = std::unordered_map<ValueId, Tensor>;

// OnnxValues are the graph's ValueIds.
class NodeSource final : public NodeAttributes<OnnxSource> {
 public:
  // `is_of_input`: is a symbol a size of the model's inputs?
  NodeSource(Graph& graph, KnownTensors& known, const onnx::NodeProto& proto, int opset, std::vector<ValueId> inputs,
             std::function<bool(const std::string& symbol)> is_of_input);

  int opset() const override { return opset_; }
  std::size_t input_count() const override { return inputs_.size(); }
  std::size_t output_count() const override { return output_count_; }
  OnnxValue input(std::size_t i) const override { return i < inputs_.size() ? to_onnx(inputs_[i]) : kAbsent; }

  const TensorType& type_of(OnnxValue value) const override;
  std::optional<Indices> contents(OnnxValue value) const override;
  std::optional<Tensor> constant_value(OnnxValue value) const override;
  bool never_empty(const Index& size) const override;

  std::vector<OnnxValue> node(const Operator& op, Attributes attributes, std::vector<OnnxValue> inputs) override;
  OnnxValue constant(Tensor tensor) override;

  // Pairs of sizes that the added nodes assume to be equal, although one may turn out to be 1 and be broadcast.
  const std::vector<Condition>& assumed() const { return assumed_; }

  static OnnxValue to_onnx(ValueId id) { return id == kNoValue ? kAbsent : static_cast<OnnxValue>(id); }
  static ValueId to_id(OnnxValue value) { return value == kAbsent ? kNoValue : static_cast<ValueId>(value); }

 private:
  void evaluate(const Operator& op, const Node& node);
  void note_assumed(const Operator& op, const Attributes& attributes, const std::vector<ValueId>& inputs);

  Graph& graph_;
  KnownTensors& known_;
  int opset_;
  std::vector<ValueId> inputs_;
  std::function<bool(const std::string&)> is_of_input_;
  std::size_t output_count_ = 0;
  std::vector<Condition> assumed_;
};

}  // namespace rewright::graph
