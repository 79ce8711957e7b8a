// Opaque nodes executed by their ONNX form.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "graph/builder.h"
#include "graph/execute.h"
#include "graph/onnx/attributes.h"
#include "graph/onnx/function.h"
#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/parts.h"
#include "operators/contrib/contrib.h"
#include "operators/definitions/axes.h"
#include "operators/procedure.h"

namespace rewright::graph {

namespace {

constexpr std::int64_t kKnownElements = 1024;  // of inputs that shapes and parameters are read from
constexpr std::size_t kRemembered = 16;        // prepared graphs of a node: a loop with growing tensors has ever new sizes

onnx::ValueInfoProto described(const std::string& name, const Datum& datum) {
  if (datum.is_tensor()) return value_info(name, {datum.tensor().type(), to_indices(datum.tensor().sizes())}, true);
  onnx::ValueInfoProto info;
  info.set_name(name);
  return info;
}

// A model around a part of another one: its opsets and functions, and no graph yet.
onnx::ModelProto model_around(const ImportedModel& model, const std::map<std::string, int>& opsets) {
  onnx::ModelProto part;
  part.set_ir_version(std::max<std::int64_t>(model.skeleton.ir_version(), 8));
  for (const auto& [domain, version] : opsets) {
    auto* import = part.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  *part.mutable_functions() = model.skeleton.functions();
  part.mutable_graph()->set_name("part");
  return part;
}

// Graphs in a node's attributes, and those that its procedure describes, prepared once for inputs of the same types and sizes;
// and what the procedure makes of the attributes.
class Bodies {
 public:
  explicit Bodies(PrepareGraph prepare) : prepare_(std::move(prepare)) {}

  std::shared_ptr<Executable> find(const std::string& key, Repetition repetition, const std::function<Graph()>& make) {
    if (const auto known = prepared_.find(key); known != prepared_.end()) return known->second;
    if (prepared_.size() >= kRemembered) prepared_.clear();
    return prepared_.emplace(key, prepare_(make(), repetition)).first->second;
  }

  std::shared_ptr<const void> keep(const std::function<std::shared_ptr<const void>()>& make) {
    if (kept_ == nullptr) kept_ = make();
    return kept_;
  }

 private:
  PrepareGraph prepare_;
  std::map<std::string, std::shared_ptr<Executable>> prepared_;
  std::shared_ptr<const void> kept_;
};

// A key that is equal for data of the same types and sizes.
std::string key_of(const Datum& datum) {
  if (datum.empty()) return "|-";
  if (!datum.is_tensor()) return datum.is_sequence() ? "|[]" : "|{}";
  std::string key = "|" + std::string(name(datum.tensor().type()));
  for (const std::int64_t size : datum.tensor().sizes()) key += "," + std::to_string(size);
  return key;
}

class NodeCall final : public NodeAttributes<Call> {
 public:
  using Call::tensor;  // adds the overload for inputs to that for attributes
  using NodeAttributes::tensor;

  NodeCall(const ImportedModel& model, const std::map<std::string, int>& opsets, const onnx::NodeProto& proto, int version,
           std::span<const std::string> captured, std::span<const Datum> inputs, const std::vector<bool>& constants,
           Bodies& bodies, const Checkpoint& checkpoint)
      : NodeAttributes(proto),
        model_(model),
        opsets_(opsets),
        version_(version),
        inputs_(inputs),
        constants_(constants),
        bodies_(bodies),
        checkpoint_(checkpoint) {
    for (const std::string& output : proto.output()) output_count_ += !output.empty();
    for (std::size_t i = 0; i < captured.size(); ++i)
      captured_.emplace(captured[i], inputs.subspan(static_cast<std::size_t>(proto.input_size()) + i, 1).front());
  }

  int opset() const override { return version_; }
  std::size_t output_count() const override { return output_count_; }
  std::size_t input_count() const override { return static_cast<std::size_t>(proto_.input_size()); }
  const Datum& input(std::size_t i) const override { return i < input_count() ? inputs_[i] : none_; }
  void checkpoint() override {
    if (checkpoint_) checkpoint_();
  }

  std::shared_ptr<const void> keep(const std::function<std::shared_ptr<const void>()>& make) override {
    return bodies_.keep(make);
  }

  std::size_t body_input_count(std::string_view attribute) const override {
    return static_cast<std::size_t>(body_of(attribute).input_size());
  }

  std::vector<Datum> body(std::string_view attribute, std::span<const Datum> inputs) override {
    const onnx::GraphProto& proto = body_of(attribute);
    if (inputs.size() != static_cast<std::size_t>(proto.input_size()))
      throw Error(ErrorCode::kBadInput, "the graph in its attribute \"" + std::string(attribute) + "\" has " +
                                            std::to_string(proto.input_size()) + " inputs, it is given " +
                                            std::to_string(inputs.size()));
    std::vector<Datum> all(inputs.begin(), inputs.end());
    for (const auto& [name, datum] : captured_) all.push_back(datum);
    std::string key(attribute);
    for (const Datum& datum : all) key += key_of(datum);
    return bodies_.find(key, Repetition::kAny, [&] { return import_body(attribute, proto, all); })->run(all);
  }

  // The types of the body's outputs for inputs of these types, as far as inferred; the others as declared.
  std::vector<TensorType> body_types(std::string_view attribute, std::span<const Datum> inputs) const {
    const onnx::GraphProto& proto = body_of(attribute);
    std::vector<Datum> all(inputs.begin(), inputs.end());
    all.resize(static_cast<std::size_t>(proto.input_size()));
    for (const auto& [name, datum] : captured_) all.push_back(datum);
    const Graph graph = import_body(attribute, proto, all);
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const GraphOutput& output = graph.outputs()[i];
      const auto& declared = proto.output(static_cast<int>(i)).type().tensor_type();
      types.push_back(output.shape_known ? output.type
                                         : TensorType{data_type_of(declared.elem_type()).value_or(output.type.type), {}});
      if (output.shape_known) continue;
      for (const auto& dim : declared.shape().dim())
        types.back().shape.emplace_back(std::max<std::int64_t>(dim.dim_value(), 0));
    }
    return types;
  }

  bool is_constant(std::size_t i) const override { return i < constants_.size() && constants_[i]; }

  std::shared_ptr<Executable> graph(const std::string& name, std::span<const Given> values,
                                    const Description& describe) override {
    std::string key = name;
    for (const Given& given : values) key += given.is_constant ? "|=" : key_of(given.tensor);
    return bodies_.find(key, Repetition::kOften, [&] {
      Graph graph;
      NodeBuilder builder(graph);
      std::vector<ValueId> ids;
      for (const auto& [tensor, is_constant] : values)
        ids.push_back(is_constant ? graph.add_constant(tensor)
                                  : graph.add_input(std::to_string(ids.size()), {tensor.type(), to_indices(tensor.sizes())}));
      std::size_t outputs = 0;
      for (const ValueId id : describe(builder, ids)) graph.add_output("result " + std::to_string(outputs++), id);
      return graph;
    });
  }

 private:
  const onnx::GraphProto& body_of(std::string_view attribute) const {
    const auto* found = find(attribute, onnx::AttributeProto::GRAPH);
    if (found == nullptr || !found->has_g())
      throw Error(ErrorCode::kBadInput, "its attribute \"" + std::string(attribute) + "\" is missing");
    return found->g();
  }

  Graph import_body(std::string_view attribute, const onnx::GraphProto& proto, std::span<const Datum> inputs) const {
    onnx::ModelProto model = model_around(model_, opsets_);
    onnx::GraphProto& graph = *model.mutable_graph();
    graph = proto;
    graph.clear_value_info();
    for (auto& output : *graph.mutable_output()) output.clear_type();
    for (int i = 0; i < graph.input_size(); ++i) {
      *graph.mutable_input(i) = described(graph.input(i).name(), inputs[static_cast<std::size_t>(i)]);
    }
    std::size_t next = static_cast<std::size_t>(proto.input_size());
    const std::set<std::string> defined = names_defined_in(proto);
    for (const auto& [name, datum] : captured_) {
      // A body may define a name that another body of the node captures.
      const bool hidden = defined.contains(name);
      *graph.add_input() = described(hidden ? name + "\x01" : name, inputs[next++]);
    }
    ImportOptions options;
    options.for_execution = true;
    options.foreign = model_.foreign;
    return import_onnx_bytes(serialize(model), "the graph in its attribute \"" + std::string(attribute) + "\"", options);
  }

  static std::set<std::string> names_defined_in(const onnx::GraphProto& graph) {
    std::set<std::string> names;
    for (const auto& input : graph.input()) names.insert(input.name());
    for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
    for (const auto& tensor : graph.sparse_initializer()) names.insert(tensor.values().name());
    for (const auto& node : graph.node())
      for (const auto& output : node.output()) names.insert(output);
    return names;
  }

  const ImportedModel& model_;
  const std::map<std::string, int>& opsets_;
  int version_;
  std::span<const Datum> inputs_;
  const std::vector<bool>& constants_;
  Bodies& bodies_;
  const Checkpoint& checkpoint_;
  std::map<std::string, Datum> captured_;
  std::size_t output_count_ = 0;
  Datum none_;
};

// The inputs of a node and the values it captures, each once.
using NamedData = std::vector<std::pair<std::string, Datum>>;
NamedData named_inputs(const onnx::NodeProto& node, std::span<const std::string> captured, std::span<const Datum> inputs) {
  NamedData result;
  std::set<std::string> seen;
  std::vector<std::string> names(node.input().begin(), node.input().end());
  names.insert(names.end(), captured.begin(), captured.end());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty() && seen.insert(names[i]).second) result.emplace_back(names[i], inputs[i]);
  return result;
}

// Can shapes and parameters be read from the datum? `reals`: also from real elements.
bool is_parameter(const Datum& datum, bool reals) {
  return datum.is_tensor() && datum.tensor().size() <= kKnownElements && (reals || !is_real(datum.tensor().type()));
}

// A key that is equal for data of the same types, sizes and parameters.
std::string key_of_parameters(const NamedData& named, bool reals) {
  std::string key;
  for (const auto& [name, datum] : named)
    key += key_of(datum) + (is_parameter(datum, reals) ? "=" + std::to_string(datum.tensor().content_hash()) : "");
  return key;
}

// Which known inputs have their contents fixed in the node's graph?
enum class Contents { kNone, kIntegers, kAll };

// The node as a graph of its own, for known inputs; for a procedure, its graph.
Graph graph_of(const ImportedModel& model, const std::map<std::string, int>& opsets, const onnx::NodeProto& node,
               const NamedData& inputs, Contents contents, bool is_procedure) {
  onnx::ModelProto part = model_around(model, opsets);
  onnx::GraphProto& graph = *part.mutable_graph();
  *graph.add_node() = node;
  ImportOptions options;
  options.for_execution = true;
  options.foreign = model.foreign;
  options.procedures_as_graphs = is_procedure;
  for (const auto& [name, datum] : inputs) {
    *graph.add_input() = described(name, datum);
    if (contents != Contents::kNone && is_parameter(datum, contents == Contents::kAll))
      options.input_values[name] = datum.tensor();
  }
  for (const std::string& output : node.output())
    if (!output.empty()) graph.add_output()->set_name(output);
  return import_onnx_bytes(serialize(part), where_of(node), options);
}

// Does the graph consist of the node alone, still opaque?
bool is_opaque_alone(const Graph& graph) {
  return graph.nodes().size() == 1 && graph.nodes()[0]->op == nullptr && graph.nodes()[0]->origin->opsets == nullptr;
}

bool has_known_outputs(const Graph& graph) {
  return std::all_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](const GraphOutput& output) { return output.shape_known && all_constant(output.type.shape); });
}

// One result for each output of the node, absent ones empty.
std::vector<Datum> in_places(const onnx::NodeProto& node, std::vector<Datum> results) {
  std::vector<Datum> placed;
  std::size_t next = 0;
  for (const std::string& output : node.output())
    placed.push_back(output.empty() || next >= results.size() ? Datum() : std::move(results[next++]));
  return placed;
}

}  // namespace

struct OpaqueExecution::State {
  std::shared_ptr<const ImportedModel> model;
  std::shared_ptr<const Origin> origin;
  std::size_t output_count;
  onnx::NodeProto proto;
  std::string domain;
  std::vector<std::string> captured;
  std::vector<bool> constants;  // by input: is it a constant of the model?
  const Procedure* procedure = nullptr;
  bool may_become_known = false;  // it may be known once its inputs are
  PrepareGraph prepare;
  Bodies bodies;
  const Checkpoint& checkpoint;
  std::map<std::string, std::shared_ptr<Executable>> by_types;       // see known_by_types
  std::map<std::string, std::shared_ptr<Executable>> by_parameters;  // by key_of_parameters

  // The node prepared for inputs of these types and sizes with any elements, cached; null if sizes of its results depend on
  // elements, or if it stays opaque.
  std::shared_ptr<Executable> known_by_types(const NamedData& named);
  // Sets the types of stacked results of a loop without iterations: the type of the body's output, with a size of 0 in front
  // (or at the axis of a Scan).
  void give_types(std::vector<Datum>& results, NodeCall& call) const;

  const std::map<std::string, int>& opsets() const { return origin->opsets ? *origin->opsets : model->opsets; }
};

OpaqueExecution::OpaqueExecution(const Graph& graph, const Node& node, PrepareGraph prepare, const Checkpoint& checkpoint) {
  if (!node.origin || !graph.model()) throw Error(ErrorCode::kUnsupported, "cannot be executed: " + node.opaque_reason);
  state_ = std::make_unique<State>(State{graph.model(),
                                         node.origin,
                                         node.outputs.size(),
                                         {},
                                         {},
                                         {},
                                         {},
                                         nullptr,
                                         false,
                                         prepare,
                                         Bodies(prepare),
                                         checkpoint,
                                         {},
                                         {}});
  State& s = *state_;
  if (!s.proto.ParseFromString(node.origin->node_proto)) throw Error(ErrorCode::kBadInput, "its ONNX form is broken");
  s.domain = canonical_domain(s.proto.domain());
  s.captured = captured_names(s.proto);
  for (const ValueId id : node.inputs) s.constants.push_back(id != kNoValue && graph.is_constant(id));
  if (find_local_function(*s.model, s.proto) == nullptr) s.procedure = find_procedure(*s.model, s.domain, s.proto.op_type());
  s.may_become_known = s.procedure == nullptr || !s.procedure->run || find_onnx(s.domain, s.proto.op_type()) != nullptr;
}

OpaqueExecution::~OpaqueExecution() = default;

void OpaqueExecution::State::give_types(std::vector<Datum>& results, NodeCall& call) const {
  const std::size_t count = call.body_input_count("body");
  std::vector<Datum> inputs;
  std::size_t carried = 0, hidden = 0;  // outputs before the stacked ones: those of the node, and those that only the body has
  for (const BodyInput& input : procedure->body_inputs(call, call.opset(), call.input_count(), count)) {
    Datum datum;
    if (input.kind == BodyInput::Kind::kScalar) datum = Tensor(input.type, {});
    if (input.kind == BodyInput::Kind::kCarried) datum = call.input(input.input), ++carried, hidden = input.output + 1;
    if (input.kind == BodyInput::Kind::kEntry) {
      const Tensor& scanned = call.input(input.input).tensor();
      Sizes sizes = scanned.sizes();
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(canonical_axis(input.axis, sizes.size()).value()));
      datum = Tensor(scanned.type(), std::move(sizes));
    }
    inputs.push_back(std::move(datum));
  }
  results.resize(std::max(results.size(), call.output_count()));
  // Before opset 9, lengths, states and scanned inputs of a Scan have a leading batch axis.
  const bool batched = proto.op_type() == "Scan" && call.opset() < 9;
  const std::size_t states =
      batched ? call.input_count() - 1 - static_cast<std::size_t>(call.integer("num_scan_inputs", 1)) : 0;
  std::vector<TensorType> types;
  const std::vector<std::int64_t> axes = call.integers("scan_output_axes");
  for (std::size_t i = carried; i < results.size(); ++i) {
    if (!results[i].empty()) continue;
    if (types.empty()) types = call.body_types("body", inputs);
    const std::size_t output = std::max(hidden, std::size_t{proto.op_type() == "Loop" ? 1u : 0u}) + i - carried;
    if (output >= types.size() || types[output].type == DataType::kUndefined) continue;
    Sizes sizes;
    for (const Index& size : types[output].shape) sizes.push_back(size.is_constant() ? size.value() : 0);
    const std::size_t axis =
        i - carried < axes.size() ? static_cast<std::size_t>(canonical_axis(axes[i - carried], sizes.size() + 1).value()) : 0;
    if (!batched || i >= states) sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    if (batched) sizes.insert(sizes.begin(), call.tensor(call.input_count() - 1).sizes().at(0));
    results[i] = Tensor(types[output].type, std::move(sizes));
  }
}

const std::string& OpaqueExecution::operator_type() const { return state_->proto.op_type(); }

std::shared_ptr<Executable> OpaqueExecution::State::known_by_types(const NamedData& named) {
  std::string key;
  for (const auto& [name, datum] : named) {
    if (datum.is_sequence() || datum.is_map()) return nullptr;
    key += key_of(datum);
  }
  if (const auto known = by_types.find(key); known != by_types.end()) return known->second;
  if (by_types.size() >= kRemembered) by_types.clear();
  std::shared_ptr<Executable> executable;
  try {
    Graph part = graph_of(*model, opsets(), proto, named, Contents::kNone, false);
    if (!is_opaque_alone(part) && has_known_outputs(part)) executable = prepare(std::move(part), Repetition::kAny);
  } catch (const Error& error) {  // errors in the node are reported when its inputs are known
    if (error.code() == ErrorCode::kCancelled) throw;
  }
  return by_types.emplace(std::move(key), std::move(executable)).first->second;
}

std::vector<Datum> OpaqueExecution::run(std::span<const Datum> inputs) {
  State& s = *state_;
  std::string reason;
  if (s.may_become_known) {
    const NamedData named = named_inputs(s.proto, s.captured, inputs);
    const bool as_graph = s.procedure != nullptr && !s.procedure->run;
    const auto make = [&] {
      const Contents contents = as_graph ? Contents::kIntegers : Contents::kAll;
      Graph part = graph_of(*s.model, s.opsets(), s.proto, named, contents, as_graph);
      const bool is_same = is_opaque_alone(part);
      if (is_same) reason = part.nodes()[0]->opaque_reason;
      if (is_same && as_graph) throw Error(ErrorCode::kUnsupported, "cannot be executed: " + reason);
      return part;
    };
    std::vector<Datum> graph_inputs;
    for (const auto& [name, datum] : named) graph_inputs.push_back(datum);
    if (as_graph)
      return in_places(s.proto, s.bodies.find(key_of_parameters(named, false), Repetition::kOften, make)->run(graph_inputs));
    if (const auto known = s.known_by_types(named)) return in_places(s.proto, known->run(graph_inputs));
    const bool is_remembered = std::all_of(named.begin(), named.end(),
                                           [](const auto& value) { return value.second.empty() || value.second.is_tensor(); });
    const std::string key = is_remembered ? key_of_parameters(named, true) : "";
    if (const auto found = s.by_parameters.find(key); is_remembered && found != s.by_parameters.end())
      return in_places(s.proto, found->second->run(graph_inputs));
    Graph part = make();
    if (reason.empty()) {
      const std::shared_ptr<Executable> executable = s.prepare(std::move(part), Repetition::kAny);
      if (s.by_parameters.size() >= kRemembered) s.by_parameters.clear();
      if (is_remembered) s.by_parameters[key] = executable;
      return in_places(s.proto, executable->run(graph_inputs));
    }
  }
  if (s.procedure == nullptr) throw Error(ErrorCode::kUnsupported, "cannot be executed: " + reason);
  const auto version = s.opsets().find(s.domain);
  NodeCall call(*s.model, s.opsets(), s.proto, version == s.opsets().end() ? 1 : version->second, s.captured, inputs,
                s.constants, s.bodies, s.checkpoint);
  s.procedure->run(call);
  std::vector<Datum> results = call.take_results();
  if (s.procedure->body_inputs) s.give_types(results, call);
  results.resize(std::max(results.size(), s.output_count));
  return results;
}

namespace {

using Opsets = std::map<std::string, int>;

// Why the node cannot be executed here, whatever its inputs; empty if it may be. Each function is examined once.
std::string objection_to(const ImportedModel& model, const Opsets& opsets, const onnx::NodeProto& node,
                         std::set<const onnx::FunctionProto*>& functions);

template <class Nodes>
std::string objection_to_nodes(const ImportedModel& model, const Opsets& opsets, const Nodes& nodes,
                               std::set<const onnx::FunctionProto*>& functions) {
  for (const onnx::NodeProto& node : nodes)
    if (const std::string objection = objection_to(model, opsets, node, functions); !objection.empty())
      return where_of(node) + ": " + objection;
  return {};
}

std::string objection_to(const ImportedModel& model, const Opsets& opsets, const onnx::NodeProto& node,
                         std::set<const onnx::FunctionProto*>& functions) {
  if (const onnx::FunctionProto* function = find_local_function(model, node)) {
    if (!functions.insert(function).second) return {};
    Opsets inner = opsets;
    for (const auto& import : function->opset_import())
      inner[canonical_domain(import.domain())] = static_cast<int>(import.version());
    return objection_to_nodes(model, inner, function->node(), functions);
  }
  const std::string domain = canonical_domain(node.domain());
  const auto version = opsets.find(domain);
  if (domain.empty() && version != opsets.end() && !is_standard(node.op_type(), version->second))
    return "opset " + std::to_string(version->second) + " has no operator " + node.op_type();
  const bool has_definition = find_procedure(model, domain, node.op_type()) != nullptr ||
                              operators::find_contrib(domain, node.op_type()) != nullptr ||
                              find_onnx(domain, node.op_type()) != nullptr || !differentiated_names(node).empty() ||
                              (version != opsets.end() && is_schema_function(node, domain, version->second));
  if (!has_definition) return "no definition of operator " + (domain.empty() ? "" : domain + ".") + node.op_type();
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (attribute.has_g())
      if (std::string inner = objection_to_nodes(model, opsets, attribute.g().node(), functions); !inner.empty()) return inner;
  return {};
}

}  // namespace

std::string objection_to_execution(const Graph& graph, const Node& node) {
  onnx::NodeProto proto;
  if (!node.origin || !graph.model() || !proto.ParseFromString(node.origin->node_proto)) return node.opaque_reason;
  if (!differentiated_names(proto).empty()) return node.opaque_reason;  // import expands it into nodes or not at all
  std::set<const onnx::FunctionProto*> functions;
  return objection_to(*graph.model(), node.origin->opsets ? *node.origin->opsets : graph.model()->opsets, proto, functions);
}

void require_executable(const Graph& graph) {
  for (const auto& node : graph.nodes())
    if (node->op == nullptr)
      if (const std::string objection = objection_to_execution(graph, *node); !objection.empty())
        throw Error(ErrorCode::kUnsupported, "cannot be executed: " + objection, where_of(graph, *node));
}

bool has_random_results(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    onnx::NodeProto proto;
    if (node->op != nullptr) return node->op->random();
    if (!node->origin || !proto.ParseFromString(node->origin->node_proto)) return false;
    const Procedure* procedure = operators::find_procedure(canonical_domain(proto.domain()), proto.op_type());
    return procedure != nullptr && procedure->is_random;
  });
}

}  // namespace rewright::graph
