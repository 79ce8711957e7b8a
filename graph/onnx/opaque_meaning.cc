#include "graph/onnx/opaque_meaning.h"

#include <onnx/defs/schema.h>

#include <algorithm>

#include "graph/onnx/function.h"
#include "graph/onnx/model.h"
#include "graph/onnx/parts.h"
#include "operators/procedure.h"

namespace rewright::graph {

namespace {

bool is_random(const onnx::NodeProto& node) {
  const Procedure* procedure = operators::find_procedure(canonical_domain(node.domain()), node.op_type());
  if (procedure != nullptr && procedure->is_random) return true;
  if (const Operator* op = registry().find(node.op_type()); op != nullptr && op->random()) return true;
  const auto in_graph = [](const onnx::GraphProto& body) {
    return std::any_of(body.node().begin(), body.node().end(), [](const onnx::NodeProto& inner) { return is_random(inner); });
  };
  return std::any_of(node.attribute().begin(), node.attribute().end(), [&](const onnx::AttributeProto& a) {
    return (a.has_g() && in_graph(a.g())) || std::any_of(a.graphs().begin(), a.graphs().end(), in_graph);
  });
}

// The version in which the operator got its present meaning; that of its domain if it is not ONNX's.
int version_of(const onnx::NodeProto& node, const std::string& domain, int opset) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), opset, domain);
  return schema != nullptr ? schema->since_version() : opset;
}

const std::map<std::string, int>& opsets_of(const Graph& graph, const Node& node) {
  static const std::map<std::string, int> kNone;
  return node.origin->opsets ? *node.origin->opsets : graph.model() ? graph.model()->opsets : kNone;
}

int opset_of(const Graph& graph, const Node& node, const std::string& domain) {
  const std::map<std::string, int>& opsets = opsets_of(graph, node);
  const auto found = opsets.find(domain);
  return found == opsets.end() ? 0 : found->second;
}

onnx::NodeProto read_node(const Node& node) {
  onnx::NodeProto proto;
  if (!node.origin || !proto.ParseFromString(node.origin->node_proto))
    throw Error(ErrorCode::kUnsupported, "a node without an ONNX form");
  return proto;
}

// Adds the defaults of absent attributes, and removes the order and descriptions of all.
void make_attributes_comparable(onnx::NodeProto& proto, const std::string& domain, int opset) {
  add_default_attributes(proto, domain, opset);
  std::sort(proto.mutable_attribute()->begin(), proto.mutable_attribute()->end(),
            [](const onnx::AttributeProto& a, const onnx::AttributeProto& b) { return a.name() < b.name(); });
  for (onnx::AttributeProto& attribute : *proto.mutable_attribute()) attribute.clear_doc_string();
}

}  // namespace

std::string opaque_meaning(const Graph& graph, const Node& node) {
  onnx::NodeProto proto = read_node(node);
  const std::string domain = canonical_domain(proto.domain());
  const std::shared_ptr<const ImportedModel>& model = graph.model();
  const std::map<std::string, int>& opsets = opsets_of(graph, node);
  const int opset = opset_of(graph, node, domain);
  std::uint64_t computation = node.origin->computation_hash;
  if (!has_subgraphs(proto)) {  // captured values are in the order of the attributes
    make_attributes_comparable(proto, domain, opset);
    proto.clear_input();
    proto.clear_output();
    computation = computation_hash(proto);
  }
  std::string text = domain + ":" + proto.op_type() + " " + std::to_string(computation) + " " +
                     std::to_string(version_of(proto, domain, opset));
  const bool may_call = model && model->skeleton.functions_size() > 0;
  // Nodes inside have operators of any domain.
  if (has_subgraphs(proto) || may_call)
    for (const auto& [name, version] : opsets) text += " " + name + "=" + std::to_string(version);
  if (may_call)
    for (const onnx::FunctionProto& function : model->skeleton.functions()) text += serialize(function);
  for (const onnx::AttributeProto& attribute : proto.attribute()) text += " " + attribute.name();
  return text;
}

std::size_t own_inputs(const Node& node) {
  onnx::NodeProto proto;
  const bool is_read = node.origin && proto.ParseFromString(node.origin->node_proto);
  return is_read ? static_cast<std::size_t>(proto.input_size()) : node.inputs.size();
}

std::string meaning_without_bodies(const Graph& graph, const Node& node) {
  onnx::NodeProto proto = read_node(node);
  const std::string domain = canonical_domain(proto.domain());
  const int opset = opset_of(graph, node, domain);
  std::string text = domain + ":" + proto.op_type() + " " + std::to_string(version_of(proto, domain, opset));
  make_attributes_comparable(proto, domain, opset);
  for (const onnx::AttributeProto& attribute : proto.attribute())
    if (!attribute.has_g() && attribute.graphs_size() == 0) text += " " + serialize(attribute);
  return text;
}

std::vector<ImplicitZeros> implicit_zeros(const Graph& graph, const Node& node) {
  onnx::NodeProto proto;
  if (node.op || !node.origin || node.inputs.size() < 3 || !proto.ParseFromString(node.origin->node_proto)) return {};
  const std::string& type = proto.op_type();
  if (!canonical_domain(proto.domain()).empty() || (type != "RNN" && type != "GRU" && type != "LSTM")) return {};
  const auto absent = [&](std::size_t i) { return i >= node.inputs.size() || node.inputs[i] == kNoValue; };
  if (absent(0) || absent(2)) return {};
  const Value &x = graph.value(node.inputs[0]), &r = graph.value(node.inputs[2]);  // [T, N, I], [directions, gates H, H]
  if (!x.shape_known || !r.shape_known || x.type.rank() != 3 || r.type.rank() != 3) return {};
  const bool batch_first = std::any_of(proto.attribute().begin(), proto.attribute().end(),
                                       [](const onnx::AttributeProto& a) { return a.name() == "layout" && a.i() != 0; });
  const Index &directions = r.type.shape[0], &hidden = r.type.shape[2], &batch = x.type.shape[batch_first ? 0 : 1];
  const Indices state = batch_first ? Indices{batch, directions, hidden} : Indices{directions, batch, hidden};
  std::vector<ImplicitZeros> result;
  const auto offer = [&](std::size_t input, const Indices& shape) {
    if (absent(input)) result.push_back({input, {x.type.type, shape}});
  };
  offer(3, {directions, r.type.shape[1] * 2});
  offer(5, state);
  if (type == "LSTM") {
    offer(6, state);
    offer(7, {directions, hidden * 3});
  }
  return result;
}

bool is_random(const Node& node) {
  onnx::NodeProto proto;
  return node.origin && proto.ParseFromString(node.origin->node_proto) && is_random(proto);
}

}  // namespace rewright::graph
