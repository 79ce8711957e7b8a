#include "graph/gradients/opaque_gradient.h"

#include <map>
#include <utility>

#include "graph/builder.h"
#include "graph/gradients/differentiate.h"
#include "graph/onnx/attributes.h"
#include "graph/onnx/body.h"
#include "graph/onnx/model.h"
#include "graph/onnx/naming.h"
#include "operators/tensor_parts.h"

namespace rewright::graph {

namespace {

// The parts of a gradient.
struct OpaqueCall {
  Graph& graph;
  const Node& node;
  const onnx::NodeProto& proto;
  const std::vector<ValueId>& output_gradients;
  const std::vector<bool>& wanted;

  std::vector<ValueId> none() const { return std::vector<ValueId>(node.inputs.size(), kNoValue); }
};

const TensorType& known_type(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.shape_known) throw Error(ErrorCode::kUnsupported, "the axes of \"" + value.name + "\" are not known");
  return value.type;
}

// Adds an ONNX node to the graph, in the opset of the differentiated one. `inputs`: the proto's inputs, then the values its
// subgraphs capture. Returns one value of the given types for each output.
std::vector<ValueId> add_node(const OpaqueCall& call, onnx::NodeProto proto, std::vector<ValueId> inputs,
                              const std::vector<TensorType>& types) {
  proto.clear_name();
  proto.clear_doc_string();
  Node made;
  made.inputs = std::move(inputs);
  made.opaque_reason = call.node.opaque_reason;
  auto origin = std::make_shared<Origin>();
  origin->opsets = call.node.origin->opsets;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(proto.input_size()); ++i)
    origin->inputs.push_back({Origin::Input::Kind::kInput, i});
  origin->computation_hash = computation_hash(proto);
  origin->node_proto = serialize(proto);
  made.origin = std::move(origin);
  for (const TensorType& type : types) {
    Value value;
    value.type = type;
    made.outputs.push_back(call.graph.add_value(std::move(value)));
  }
  std::vector<ValueId> outputs = made.outputs;
  call.graph.add_raw(std::move(made));
  return outputs;
}

// ---- Compress, Unique: entries of an axis, or elements, at places computed by another node

std::size_t axis_of_entries(const OpaqueCall& call) {
  const PlainAttributes attributes(call.proto);
  if (!attributes.has("axis")) return 0;
  return checked_axis(attributes.integer("axis", 0), known_type(call.graph, call.node.inputs[0]).rank());
}

// The number of selected entries, which is known only when the graph is executed.
Index entry_count(const OpaqueCall& call) {
  const Indices& shape = known_type(call.graph, call.output_gradients[0]).shape;
  const std::size_t axis = axis_of_entries(call);
  if (axis >= shape.size()) throw Error(ErrorCode::kBadInput, "its result has only " + std::to_string(shape.size()) + " axes");
  return shape[axis];
}

// The gradient of the Gather that selects the same entries.
std::vector<ValueId> gradient_of_gather(const OpaqueCall& call, ValueId places) {
  NodeBuilder b(call.graph);
  const ValueId x = call.node.inputs[0];
  const TensorType type = known_type(call.graph, x);
  const bool flat = !PlainAttributes(call.proto).has("axis");
  const Operator& gather = registry().get("Gather");
  Attributes attributes = gather.defaults();
  attributes.at(gather.field("axis").value()) = Index(axis_of_entries(call));
  const ValueId elements = flat ? b.reshaped(x, {product(type.shape)}) : x;
  const GradientCall same{b,
                          gather,
                          std::move(attributes),
                          {elements, b.reshaped(places, {entry_count(call)})},
                          {call.node.outputs[0]},
                          {call.output_gradients[0]},
                          {true, false}};
  std::vector<ValueId> result = call.none();
  result[0] = b.reshaped(add_gradient(same).at(0), type.shape);
  return result;
}

std::vector<ValueId> gradient_of_compress(const OpaqueCall& call) {
  onnx::NodeProto places;
  places.set_op_type("NonZero");
  places.add_input("condition");
  places.add_output("places");
  const TensorType type{DataType::kInt64, {1, entry_count(call)}};
  return gradient_of_gather(call, add_node(call, std::move(places), {call.node.inputs[1]}, {type}).at(0));
}

// An entry of the result is the first of the equal entries.
std::vector<ValueId> gradient_of_unique(const OpaqueCall& call) {
  if (call.output_gradients[0] == kNoValue) return call.none();
  if (call.node.outputs.size() > 1 && call.node.outputs[1] != kNoValue) return gradient_of_gather(call, call.node.outputs[1]);
  onnx::NodeProto again = call.proto;
  again.clear_output();
  again.add_output("entries");
  again.add_output("places");
  const TensorType entries = known_type(call.graph, call.output_gradients[0]);
  const TensorType places{DataType::kInt64, {entry_count(call)}};
  return gradient_of_gather(call, add_node(call, std::move(again), {call.node.inputs[0]}, {entries, places}).at(1));
}

// ---- If

// An If on the same condition whose branches compute the node's branches again, with their gradients.
class BranchGradient {
 public:
  explicit BranchGradient(const OpaqueCall& call) : call_(call), outer_(outer_names(call.graph)) {
    auto next = static_cast<std::size_t>(call.proto.input_size());
    for (const std::string& name : captured_names(call.proto)) {
      table_.reserve(name);
      captured_.emplace(name, call.node.inputs.at(next));
      const TensorType& type = call.graph.value(call.node.inputs[next]).type;
      if (call.wanted.at(next) && is_real(type.type))
        wanted_.push_back({next, name, known_type(call.graph, call.node.inputs[next]), {}});
      ++next;
    }
    inner_names(call.proto, [&](const std::string& name) { table_.reserve(name); });
    for (const std::string& name : *outer_) table_.reserve(name);
    for (const ValueId gradient : call.output_gradients) {
      given_.push_back(gradient == kNoValue ? std::string() : table_.unique("gradient"));
      if (gradient != kNoValue) captured_.emplace(given_.back(), gradient);
    }
    for (Wanted& wanted : wanted_) wanted.result = table_.unique("gradient");
  }

  std::vector<ValueId> run() {
    std::vector<ValueId> result = call_.none();
    if (wanted_.empty()) return result;
    onnx::NodeProto proto;
    proto.set_op_type("If");
    proto.add_input(call_.proto.input(0));
    for (const char* attribute : {"then_branch", "else_branch"}) add_branch(proto, attribute);
    std::vector<TensorType> types;
    for (const Wanted& wanted : wanted_) {
      proto.add_output(table_.unique("gradient"));
      types.push_back(wanted.type);
    }
    std::vector<ValueId> inputs{call_.node.inputs[0]};
    for (const std::string& name : captured_names(proto)) inputs.push_back(captured_.at(name));
    const std::vector<ValueId> made = add_node(call_, std::move(proto), std::move(inputs), types);
    for (std::size_t n = 0; n < wanted_.size(); ++n) result[wanted_[n].input] = made[n];
    return result;
  }

 private:
  struct Wanted {
    std::size_t input;  // of the node
    std::string name;   // as the branches call it
    TensorType type;
    std::string result;  // the gradient's name in a branch
  };

  void add_branch(onnx::NodeProto& proto, const std::string& attribute) const {
    Graph body = body_of(call_.graph, call_.node, attribute, outer_, true);
    std::map<std::string, ValueId> values;
    for (const ValueId id : body.inputs()) values.emplace(body.value(id).name, id);
    for (const auto& [id, tensor] : body.model()->outer_constants) values.emplace(body.value(id).name, id);
    const std::vector<GraphOutput> outputs(body.outputs().begin(), body.outputs().end());
    std::vector<Seed> seeds;
    for (std::size_t k = 0; k < outputs.size() && k < given_.size(); ++k)
      if (!given_[k].empty())
        seeds.push_back({outputs[k].value, body.add_input(given_[k], known_type(body, outputs[k].value))});
    std::vector<ValueId> at;
    for (const Wanted& wanted : wanted_) {
      const auto found = values.find(wanted.name);
      at.push_back(found != values.end() ? found->second : body.add_input(wanted.name, wanted.type));
    }
    std::vector<ValueId> gradients = differentiate(body, seeds, at);
    NodeBuilder b(body);
    body.set_outputs({});
    for (std::size_t n = 0; n < wanted_.size(); ++n)
      body.add_output(wanted_[n].result, gradients[n] == kNoValue ? b.filled(wanted_[n].type, 0) : gradients[n]);
    body.tidy();
    onnx::GraphProto made = inner_graph_proto(body);
    onnx::AttributeProto& branch = *proto.add_attribute();
    branch.set_name(attribute);
    branch.set_type(onnx::AttributeProto::GRAPH);
    branch.mutable_g()->set_name(attribute);
    branch.mutable_g()->mutable_node()->Swap(made.mutable_node());
    branch.mutable_g()->mutable_initializer()->Swap(made.mutable_initializer());
    branch.mutable_g()->mutable_output()->Swap(made.mutable_output());
  }

  const OpaqueCall& call_;
  const OuterNames outer_;
  NameTable table_;
  std::map<std::string, ValueId> captured_;  // what the new branches may read, by the names that they have there
  std::vector<Wanted> wanted_;
  std::vector<std::string> given_;  // names of the outputs' gradients; empty: zero
};

std::vector<ValueId> gradient_of_if(const OpaqueCall& call) { return BranchGradient(call).run(); }

// Does the node have the inputs, outputs and attributes that ONNX defines for its operator in this opset?
bool is_sound(const Graph& graph, const Node& node, const onnx::NodeProto& proto) {
  const std::map<std::string, int>& opsets = node.origin->opsets ? *node.origin->opsets : graph.model()->opsets;
  const auto opset = opsets.find("");
  return opset != opsets.end() && verify_node(proto, "", opset->second);
}

const std::map<std::string, std::vector<ValueId> (*)(const OpaqueCall&)>& gradients_of_opaque() {
  static const std::map<std::string, std::vector<ValueId> (*)(const OpaqueCall&)> kAll{
      {"Compress", gradient_of_compress}, {"If", gradient_of_if}, {"Unique", gradient_of_unique}};
  return kAll;
}

}  // namespace

const std::set<std::string>& opaque_operators_with_gradient() {
  static const std::set<std::string> kNames = [] {
    std::set<std::string> names;
    for (const auto& [name, gradient] : gradients_of_opaque()) names.insert(name);
    return names;
  }();
  return kNames;
}

std::vector<ValueId> add_opaque_gradient(Graph& graph, const Node& node, const std::vector<ValueId>& output_gradients,
                                         const std::vector<bool>& wanted) {
  const auto stated = gradients_of_opaque().find(onnx_operator(node));
  onnx::NodeProto proto;
  if (stated == gradients_of_opaque().end() || !graph.model() || !proto.ParseFromString(node.origin->node_proto) ||
      !is_sound(graph, node, proto))
    throw Error(ErrorCode::kUnsupported, "has no gradient: " + node.opaque_reason);
  return stated->second({graph, node, proto, output_gradients, wanted});
}

}  // namespace rewright::graph
