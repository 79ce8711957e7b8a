// Bodies of nodes as graphs, and back.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "graph/onnx/attributes.h"
#include "graph/onnx/body.h"
#include "graph/onnx/kept_calls.h"
#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/parts.h"
#include "operators/procedure.h"

namespace rewright::graph {

namespace {

onnx::NodeProto proto_of(const Node& node) {
  onnx::NodeProto proto;
  if (!node.origin || !proto.ParseFromString(node.origin->node_proto))
    throw Error(ErrorCode::kBadInput, "a node's ONNX form is broken");
  return proto;
}

onnx::GraphProto& graph_in(onnx::NodeProto& proto, const std::string& attribute) {
  for (onnx::AttributeProto& a : *proto.mutable_attribute())
    if (a.name() == attribute && a.has_g()) return *a.mutable_g();
  throw Error(ErrorCode::kBadInput, "has no graph in an attribute \"" + attribute + "\"");
}

// The values that one of a node's bodies captures.
std::vector<std::string> captured_by(const onnx::NodeProto& proto, const std::string& attribute) {
  onnx::NodeProto alone;
  for (const onnx::AttributeProto& a : proto.attribute())
    if (a.name() == attribute) *alone.add_attribute() = a;
  return captured_names(alone);
}

std::unordered_map<std::string, ValueId> captured_values(const onnx::NodeProto& proto, const Node& node) {
  std::unordered_map<std::string, ValueId> values;
  auto next = static_cast<std::size_t>(proto.input_size());
  for (const std::string& name : captured_names(proto)) values.emplace(name, node.inputs.at(next++));
  return values;
}

// Removes names of sizes. They would mean sizes of the outer graph, but names that the body declares itself may mean others.
void forget_names(onnx::ValueInfoProto& info) {
  if (info.has_type()) forget_size_names(*info.mutable_type());
}

// The prefix of the names of a body's own sizes, which no size of an enclosing graph or of another body has.
std::string scope_of_body(const Graph& outer, const Node& node, const std::string& attribute) {
  std::string name;
  for (const ValueId id : node.outputs)
    if (name.empty() && id != kNoValue) name = outer.value(id).name.empty() ? std::to_string(id) : outer.value(id).name;
  return outer.model()->size_scope + name + "." + attribute + ".";
}

// The types of a body's own inputs.
class InputTypes {
 public:
  InputTypes(const Graph& outer, const Node& node, const onnx::NodeProto& proto, const onnx::GraphProto& body, int opset)
      : declared_(body.input().begin(), body.input().end()) {
    for (onnx::ValueInfoProto& info : declared_) forget_names(info);
    types_ = declared_;
    const Procedure* procedure = operators::find_procedure(canonical_domain(proto.domain()), proto.op_type());
    if (procedure == nullptr || !procedure->body_inputs) return;
    inputs_ =
        procedure->body_inputs(PlainAttributes(proto), opset, static_cast<std::size_t>(proto.input_size()), types_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) begin(outer, node, proto, i);
  }

  const std::vector<onnx::ValueInfoProto>& types() const { return types_; }

  // Does the body, imported with these types, return values of the same types? If not, keeps only those that agree.
  bool hold(const Graph& body) {
    bool same = true;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].kind == BodyInput::Kind::kCarried && followed_[i] && !holds(body, i)) same = false;
    return same;
  }

  void forget() {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].kind == BodyInput::Kind::kCarried) types_[i] = without_shape(types_[i]);
    followed_.assign(inputs_.size(), false);
  }

 private:
  static onnx::ValueInfoProto without_shape(onnx::ValueInfoProto info) {
    if (info.type().has_tensor_type()) info.mutable_type()->mutable_tensor_type()->clear_shape();
    return info;
  }

  void begin(const Graph& outer, const Node& node, const onnx::NodeProto& proto, std::size_t i) {
    followed_.resize(inputs_.size());
    const BodyInput& input = inputs_[i];
    const std::string& name = declared_[i].name();
    if (input.kind == BodyInput::Kind::kUnknown) return;
    if (input.kind == BodyInput::Kind::kScalar) {
      types_[i] = value_info(name, {input.type, {}}, true);
      return;
    }
    if (input.input >= static_cast<std::size_t>(proto.input_size()) || node.inputs[input.input] == kNoValue) return;
    const Value& value = outer.value(node.inputs[input.input]);
    if (value.type.type == DataType::kUndefined || !value.shape_known) return;
    TensorType type = value.type;
    if (input.kind == BodyInput::Kind::kEntry) {
      const auto rank = static_cast<std::int64_t>(type.rank());
      const std::int64_t axis = input.axis < 0 ? input.axis + rank : input.axis;
      if (axis < 0 || axis >= rank) return;
      type.shape.erase(type.shape.begin() + axis);
    }
    types_[i] = value_info(name, type, true);
    followed_[i] = input.kind == BodyInput::Kind::kCarried;
  }

  bool holds(const Graph& body, std::size_t i) {
    const auto& outputs = body.outputs();
    const std::size_t from = inputs_[i].output;
    const auto input = std::find_if(body.inputs().begin(), body.inputs().end(),
                                    [&](ValueId id) { return body.value(id).name == declared_[i].name(); });
    if (from >= outputs.size() || input == body.inputs().end()) return true;  // execution will refuse it
    const Value& given = body.value(*input);
    const Value& back = body.value(outputs[from].value);
    if (!given.shape_known) return true;
    if (!back.shape_known || back.type.type == DataType::kUndefined || back.type.rank() != given.type.rank()) {
      types_[i] = without_shape(types_[i]);
      followed_[i] = false;
      return false;
    }
    bool same = true;
    auto* shape = types_[i].mutable_type()->mutable_tensor_type()->mutable_shape();
    for (std::size_t axis = 0; axis < back.type.rank(); ++axis) {
      if (back.type.shape[axis] == given.type.shape[axis]) continue;
      auto* dim = shape->mutable_dim(static_cast<int>(axis));
      if (!dim->has_dim_value() && !dim->has_dim_param()) continue;  // open already
      dim->Clear();
      same = false;
    }
    return same;
  }

  std::vector<onnx::ValueInfoProto> declared_, types_;
  std::vector<BodyInput> inputs_;
  std::vector<bool> followed_;  // carried values whose type comes from the node's input
};

}  // namespace

std::string onnx_operator(const Node& node) {
  onnx::NodeProto proto;
  if (node.op != nullptr || !node.origin || !proto.ParseFromString(node.origin->node_proto)) return {};
  return proto.domain().empty() ? proto.op_type() : proto.domain() + "." + proto.op_type();
}

std::vector<std::string> bodies_of(const Node& node) {
  std::vector<std::string> attributes;
  onnx::NodeProto proto;
  if (node.op != nullptr || !node.origin || !proto.ParseFromString(node.origin->node_proto)) return attributes;
  for (const onnx::AttributeProto& attribute : proto.attribute())
    if (attribute.has_g()) attributes.push_back(attribute.name());
  return attributes;
}

OuterNames outer_names(const Graph& graph) {
  std::unordered_set<std::string> names;
  if (graph.model() != nullptr && graph.model()->outer_names != nullptr) names = *graph.model()->outer_names;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (!graph.value(id).name.empty()) names.insert(graph.value(id).name);
  for (const GraphOutput& output : graph.outputs()) names.insert(output.name);
  return std::make_shared<const std::unordered_set<std::string>>(std::move(names));
}

Graph body_of(const Graph& graph, const Node& node, const std::string& attribute, const OuterNames& names,
              bool procedures_as_graphs) {
  onnx::NodeProto proto = proto_of(node);
  const onnx::GraphProto body = graph_in(proto, attribute);
  for (const auto& input : body.input())
    for (const auto& weight : body.initializer())
      if (input.name() == weight.name())
        throw Error(ErrorCode::kUnsupported, "the body's input \"" + input.name() + "\" has a value of its own");
  const std::map<std::string, int>& opsets = node.origin->opsets ? *node.origin->opsets : graph.model()->opsets;
  onnx::ModelProto model;
  model.set_ir_version(graph.model()->skeleton.ir_version());
  for (const auto& [domain, version] : opsets) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  *model.mutable_functions() = graph.model()->skeleton.functions();
  onnx::GraphProto& alone = *model.mutable_graph();
  alone = body;
  for (auto* list : {alone.mutable_output(), alone.mutable_value_info()})
    for (onnx::ValueInfoProto& info : *list) forget_names(info);

  ImportOptions options;
  options.outer_names = names;
  const std::string size_scope = scope_of_body(graph, node, attribute);
  options.procedures_as_graphs = procedures_as_graphs;
  options.foreign = graph.model()->foreign;
  const std::unordered_map<std::string, ValueId> values = captured_values(proto, node);
  std::vector<onnx::ValueInfoProto> captured;
  for (const std::string& name : captured_by(proto, attribute)) {
    const Value& value = graph.value(values.at(name));
    captured.push_back(value_info(name, value.type, value.shape_known));
    if (value.constant) options.outer_constants.emplace(name, value.constant);
  }
  const std::string domain = canonical_domain(proto.domain());
  const auto opset = opsets.find(domain);
  InputTypes types(graph, node, proto, body, opset == opsets.end() ? 1 : opset->second);
  constexpr int kTries = 8;
  for (int attempt = 0;; ++attempt) {
    if (attempt == kTries) types.forget();
    alone.clear_input();
    for (const onnx::ValueInfoProto& info : types.types()) *alone.add_input() = info;
    for (const onnx::ValueInfoProto& info : captured) *alone.add_input() = info;
    Graph result = import_inner_bytes(serialize(model), "the graph in attribute \"" + attribute + "\"", options, size_scope);
    if (types.hold(result)) return result;
  }
}

Node with_body(const Node& node, const std::string& attribute, const Graph& body) {
  onnx::NodeProto proto = proto_of(node);
  const std::unordered_map<std::string, ValueId> values = captured_values(proto, node);
  onnx::GraphProto& old = graph_in(proto, attribute);
  onnx::GraphProto made = inner_graph_proto(body);
  std::unordered_set<std::string> names;
  for (const auto& input : old.input()) names.insert(input.name());
  for (const auto& inner : made.node()) names.insert(inner.output().begin(), inner.output().end());
  for (const auto& weight : made.initializer()) names.insert(weight.name());
  onnx::GraphProto kept;
  for (const auto& info : old.value_info())
    if (names.contains(info.name())) *kept.add_value_info() = info;
  for (const auto& annotation : old.quantization_annotation())
    if (names.contains(annotation.tensor_name())) *kept.add_quantization_annotation() = annotation;
  old.mutable_value_info()->Swap(kept.mutable_value_info());
  old.mutable_quantization_annotation()->Swap(kept.mutable_quantization_annotation());
  old.mutable_node()->Swap(made.mutable_node());
  old.mutable_initializer()->Swap(made.mutable_initializer());

  Node result = node;
  auto origin = std::make_shared<Origin>(*node.origin);
  origin->node_proto = serialize(proto);
  origin->computation_hash = computation_hash(proto);
  result.origin = std::move(origin);
  result.inputs.resize(static_cast<std::size_t>(proto.input_size()));
  for (const std::string& name : captured_names(proto)) {
    const auto found = values.find(name);
    if (found == values.end()) throw Error(ErrorCode::kUnsupported, "a body reads \"" + name + "\", which is not captured");
    result.inputs.push_back(found->second);
  }
  return result;
}

Graph with_nodes(const Graph& graph, const std::map<std::size_t, Node>& nodes) {
  std::vector<std::shared_ptr<const Node>> all(graph.nodes().begin(), graph.nodes().end());
  for (const auto& [position, node] : nodes) all.at(position) = std::make_shared<const Node>(node);
  Graph result = graph;
  result.drop_nodes_from(0);
  for (auto& node : all) result.add_shared(std::move(node));
  tidy_around_calls(result);
  return result;
}

}  // namespace rewright::graph
