// The OnnxSink of export: names values, and collects the nodes that mappings write and the constants that these read.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/onnx/model.h"
#include "graph/onnx/naming.h"
#include "operators/onnx.h"

namespace rewright::graph {

// An attribute of a node: integers as int or ints, reals as float or floats, ...
onnx::AttributeProto to_attribute(const std::string& name, const AttributeValue& value);

class NodeSink final : public OnnxSink {
 public:
  NodeSink(const Graph& graph, int opset, NameTable& names, std::vector<std::string> value_names);

  // ---- For the exporter
  void add_bytes(std::string node_proto) { nodes_.push_back(std::move(node_proto)); }
  void use(ValueId id);  // notes that something that was written reads this value
  bool is_used(ValueId id) const { return used_.at(id); }
  // Starts the nodes for one node of the graph; names of fresh values are derived from `hint`.
  void begin(const std::string& hint) { hint_ = hint; }
  void set_available(ValueId id) { available_.push_back(id); }
  const std::string& name_of(OnnxValue value) const { return value_names_.at(static_cast<std::size_t>(value)); }
  const std::vector<std::string>& nodes() const { return nodes_; }
  const std::vector<std::pair<std::string, Tensor>>& constants() const { return constants_; }
  const std::unordered_set<std::string>& domains() const { return domains_; }

  // ---- For mappings
  int opset() const override { return opset_; }
  const TensorType& type_of(OnnxValue value) const override;
  std::optional<Tensor> constant_value(OnnxValue value) const override;
  void node(const std::string& type, NamedAttributes attributes, std::vector<OnnxValue> inputs, std::vector<OnnxValue> outputs,
            const std::string& domain = {}) override;
  OnnxValue fresh(const TensorType& type) override;
  OnnxValue constant(Tensor tensor) override;
  OnnxValue index_tensor(const Indices& elements) override;

 private:
  OnnxValue add_value(const std::string& name, TensorType type);
  OnnxValue binary(const std::string& type, OnnxValue a, OnnxValue b);
  OnnxValue number(std::int64_t value);
  // One element, as an int64 tensor of shape [1].
  OnnxValue index_value(const Index& index);
  OnnxValue atom_value(const Atom& atom);
  OnnxValue size_value(const std::string& name);

  const Graph& graph_;
  int opset_;
  NameTable& names_;
  std::vector<std::string> value_names_;  // of graph values, then of fresh ones
  std::vector<TensorType> fresh_types_;
  std::vector<bool> used_;
  std::vector<ValueId> available_;  // the values whose sizes may be read by nodes
  std::vector<std::string> nodes_;
  std::vector<std::pair<std::string, Tensor>> constants_;
  std::unordered_multimap<std::uint64_t, OnnxValue> constant_values_;
  std::unordered_map<OnnxValue, std::size_t> constant_numbers_;
  std::unordered_map<std::string, OnnxValue> sizes_;
  std::map<Index, OnnxValue, IndexOrder> index_values_;
  std::unordered_set<std::string> domains_;
  std::string hint_;
};

}  // namespace rewright::graph
