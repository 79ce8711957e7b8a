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

}  // namespace

std::string opaque_meaning(const Graph& graph, const Node& node) {
  onnx::NodeProto proto;
  if (!node.origin || !proto.ParseFromString(node.origin->node_proto))
    throw Error(ErrorCode::kUnsupported, "a node without an ONNX form");
  const std::string domain = canonical_domain(proto.domain());
  static const std::map<std::string, int> kNone;
  const std::shared_ptr<const ImportedModel>& model = graph.model();
  const std::map<std::string, int>& opsets = node.origin->opsets ? *node.origin->opsets : model ? model->opsets : kNone;
  const auto found = opsets.find(domain);
  const int opset = found == opsets.end() ? 0 : found->second;
  std::uint64_t computation = node.origin->computation_hash;
  if (!has_subgraphs(proto)) {  // captured values are in the order of the attributes
    add_default_attributes(proto, domain, opset);
    std::sort(proto.mutable_attribute()->begin(), proto.mutable_attribute()->end(),
              [](const onnx::AttributeProto& a, const onnx::AttributeProto& b) { return a.name() < b.name(); });
    for (onnx::AttributeProto& attribute : *proto.mutable_attribute()) attribute.clear_doc_string();
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

bool is_random(const Node& node) {
  onnx::NodeProto proto;
  return node.origin && proto.ParseFromString(node.origin->node_proto) && is_random(proto);
}

}  // namespace rewright::graph
