// From ONNX's bytes to a graph.
#include <set>
#include <unordered_set>

#include "graph/differentiate.h"
#include "graph/onnx.h"
#include "graph/onnx_function.h"
#include "graph/onnx_model.h"
#include "graph/onnx_parts.h"
#include "graph/onnx_source.h"
#include "graph/onnx_types.h"
#include "operators/procedure.h"

namespace rewright {

namespace {

// Can denotations speak of such elements?
bool has_meaning(DataType type) { return is_real(type) || is_integer(type) || type == DataType::kBool; }

// A node to be imported, from the model or from a function's body.
struct Source {
  const onnx::NodeProto& proto;
  std::string_view bytes;                                           // as it stands in the model; empty: it is of a body
  std::span<const std::string> captured;                            // by its subgraphs
  const std::shared_ptr<const std::map<std::string, int>>& opsets;  // null: the model's
  int depth = 0;                                                    // of functions around it
  bool is_of_model() const { return !bytes.empty(); }
};

class Importer {
 public:
  Importer(FileBytes source, ExternalData external, const ImportOptions& options)
      : external_(std::move(external)), options_(options) {
    model_->source = std::move(source);
    model_->outer_names = options.outer_names;
    model_->foreign = options.foreign;
  }

  Graph run() {
    parts_ = split_model(model_->source.text());
    model_->skeleton = std::move(parts_.skeleton);
    model_->opsets = parts_.opsets;
    check_function_calls(model_->skeleton);
    index_functions(*model_);
    declared_.emplace(model_->skeleton.graph(), options_);
    model_->sizes_given = !options_.input_sizes.empty();
    read_initializers();
    read_inputs();
    as_graphs_ = options_.procedures_as_graphs || std::any_of(parts_.nodes.begin(), parts_.nodes.end(), [](const auto& node) {
                   return !differentiated_names(node).empty();
                 });
    order_ = order_nodes(parts_, [&](const std::string& name) { return names_.contains(name); });
    for (const auto& output : model_->skeleton.graph().output()) order_.read_names.insert(output.name());
    for (std::size_t i : order_.order) import_node(i);
    read_outputs();
    for (auto& initializer : model_->initializers) initializer.is_unused = !order_.read_names.contains(initializer.name);
    graph_.set_model(std::move(model_));
    return std::move(graph_);
  }

 private:
  // ---- Values

  void define(const std::string& name, ValueId id, const std::string& by) {
    if (name.empty()) throw Error(ErrorCode::kBadInput, "has no name", by);
    const auto [at, is_new] = names_.emplace(name, id);
    if (!is_new) throw Error(ErrorCode::kBadInput, "is defined twice, the second time by " + by, "tensor " + in_quotes(name));
  }

  void read_initializers() {
    std::size_t total = 0;
    for (std::string_view bytes : parts_.initializer_bytes) {
      ImportedModel::Initializer initializer;
      initializer.proto = bytes;
      std::string where = "an initializer";
      try {
        const TensorParts parts = split_tensor(bytes);
        initializer.name = parts.header.name();
        where = "initializer " + in_quotes(initializer.name);
        initializer.is_external = parts.header.data_location() == onnx::TensorProto::EXTERNAL;
        try {
          initializer.tensor = to_tensor(parts, model_->source.owner, external_);
        } catch (const Error& error) {
          if (error.code() != ErrorCode::kUnsupported) throw;
        }
        total += initializer.tensor ? initializer.tensor.byte_count() : 0;
        if (total > options_.max_bytes)
          throw Error(ErrorCode::kMissing, "the weights take more than " + std::to_string(options_.max_bytes) + " bytes");
        if (initializer.tensor) {
          declared_->check(initializer.name, {initializer.tensor.type(), to_indices(initializer.tensor.sizes())});
          initializer.value = graph_.add_constant(initializer.tensor, initializer.name);
        } else {
          initializer.value = add_unread(initializer.name, data_type_of(parts.header.data_type()),
                                         {parts.header.dims().begin(), parts.header.dims().end()});
        }
      } catch (const Error& error) {
        throw error.within(where);
      }
      define(initializer.name, initializer.value, where);
      model_->initializers.push_back(std::move(initializer));
    }
    for (const auto& sparse : model_->skeleton.graph().sparse_initializer()) {
      const std::string& name = sparse.values().name();
      define(name, add_unread(name, data_type_of(sparse.values().data_type()), {sparse.dims().begin(), sparse.dims().end()}),
             "sparse initializer " + in_quotes(name));
    }
  }

  // A constant whose elements are not read: what uses it is opaque.
  ValueId add_unread(const std::string& name, std::optional<DataType> type, const Sizes& sizes) {
    Value value;
    value.name = name;
    value.type = {type.value_or(DataType::kUndefined), to_indices(sizes)};
    value.shape_known = type.has_value();
    return graph_.add_value(std::move(value));
  }

  void read_inputs() {
    std::unordered_set<std::string> seen;
    for (const auto& input : model_->skeleton.graph().input()) {
      if (!seen.insert(input.name()).second)
        throw Error(ErrorCode::kBadInput, "is declared twice", "input " + in_quotes(input.name()));
      // An input with an initializer is a weight that callers could override; sessions do not list it, and neither do graphs.
      if (names_.contains(input.name())) continue;
      if (const auto outer = options_.outer_constants.find(input.name()); outer != options_.outer_constants.end()) {
        const ValueId id = graph_.add_constant(outer->second, input.name());
        model_->outer_constants.emplace_back(id, outer->second);
        define(input.name(), id, "a constant of an outer graph");
        continue;
      }
      const DeclaredType& type = declared_->of_input(input.name());
      const ValueId id = graph_.add_input(input.name(), type.type);
      Value value = graph_.value(id);
      value.shape_known = type.is_complete();
      if (const auto given = options_.input_values.find(input.name()); given != options_.input_values.end())
        give_value(id, value, given->second);
      graph_.set_value(id, std::move(value));
      define(input.name(), id, "an input of the model");
    }
    for (const auto& [name, unused] : options_.input_sizes)
      if (!seen.contains(name))
        throw Error(ErrorCode::kUsage, "a size is given for input " + in_quotes(name) + ", which the model does not have");
  }

  void give_value(ValueId id, Value& value, const Tensor& tensor) {
    constexpr std::int64_t kSmall = 1024;  // what shapes and parameters are made of
    if (tensor.size() > kSmall) return;
    if (is_integer(tensor.type()) || tensor.type() == DataType::kBool) value.contents = to_indices(tensor.integers());
    known_[id] = tensor;
  }

  void read_outputs() {
    std::vector<GraphOutput> outputs;
    std::unordered_set<std::string> seen;
    for (const auto& output : model_->skeleton.graph().output()) {
      const auto found = names_.find(output.name());
      if (found == names_.end()) throw Error(ErrorCode::kBadInput, "nothing defines it", "output " + in_quotes(output.name()));
      if (!seen.insert(output.name()).second)
        throw Error(ErrorCode::kBadInput, "is declared twice", "output " + in_quotes(output.name()));
      const Value& value = graph_.value(found->second);
      if (value.shape_known) {
        outputs.push_back({output.name(), found->second, value.type, true});
      } else {
        const DeclaredType type = declared_->of_value(output.name());
        outputs.push_back({output.name(), found->second, type.type, type.is_complete()});
      }
    }
    graph_.set_outputs(std::move(outputs));
  }

  // ---- Nodes

  void import_node(std::size_t number) {
    const Source source{parts_.nodes[number], parts_.node_bytes[number], order_.captured[number], opsets_of_model_};
    try {
      std::string reason;
      if (!import_known(source, reason)) import_opaque(source, std::move(reason));
    } catch (const Error& error) {
      throw error.within(where_of(source.proto));
    }
  }

  const std::map<std::string, int>& opsets_of(const Source& source) const {
    return source.opsets ? *source.opsets : model_->opsets;
  }

  // By the definition of its operator, or the body of its function. False, with the reason, if the node must stay as it is.
  bool import_known(const Source& source, std::string& reason) {
    const onnx::NodeProto& proto = source.proto;
    const std::string domain = canonical_domain(proto.domain());
    if (const onnx::FunctionProto* function = find_local_function(*model_, proto))
      return expand(source, *function, proto, reason);
    const auto opset = opsets_of(source).find(domain);
    if (opset == opsets_of(source).end())
      throw Error(ErrorCode::kBadInput, "the model imports no opset of domain " + in_quotes(domain));
    const bool exists = verify_node(proto, domain, opset->second);
    if (domain.empty() && !exists) {
      reason = "opset " + std::to_string(opset->second) + " has no operator " + proto.op_type();
      return false;
    }
    if (domain.empty() && proto.op_type() == "If" && decide(source)) return true;
    if (domain.empty() && find_in_sequence(source)) return true;
    if (const auto names = differentiated_names(proto); exists && !names.empty()) return import_gradient(source, names, reason);
    const Operator* op = find_onnx(domain, proto.op_type());
    if (op == nullptr)
      reason = "no definition of operator " + (domain.empty() ? "" : domain + ".") + proto.op_type();
    else if (import_operator(source, *op, opset->second, reason))
      return true;
    if (const Procedure* procedure = find_procedure(domain, proto.op_type()); exists && procedure != nullptr)
      return as_graphs_ && import_procedure(source, *procedure, opset->second, reason);
    if (!exists || !is_schema_function(proto, domain, opset->second)) return false;
    std::vector<onnx::TypeProto> types;
    for (const std::string& name : proto.input()) {
      const Value* value = name.empty() ? nullptr : &graph_.value(id_of(name));
      types.push_back(value != nullptr ? value_info(name, value->type, value->shape_known).type() : onnx::TypeProto());
    }
    const auto body = schema_function(proto, domain, opset->second, types);
    std::string objection;
    if (body && expand(source, body->function, body->call, objection)) return true;
    if (op == nullptr && !objection.empty()) reason = objection;
    return false;
  }

  // A branch whose condition is known stands in the graph instead of its If. What is not understood of it stays as it is.
  bool decide(const Source& source) {
    const onnx::NodeProto& proto = source.proto;
    if (proto.input_size() != 1 || proto.input(0).empty()) return false;
    const ValueId id = id_of(proto.input(0));
    const Value& value = graph_.value(id);
    std::optional<bool> condition;
    if (const auto known = known_.find(id); value.constant || known != known_.end()) {
      const Tensor& tensor = value.constant ? value.constant : known->second;
      if (tensor.type() == DataType::kBool && tensor.size() == 1) condition = tensor.integers()[0] != 0;
    } else if (value.type.type == DataType::kBool && value.contents && value.contents->size() == 1) {
      if (const auto number = (*value.contents)[0].constant()) condition = *number != 0;
    }
    const auto branch = condition ? call_of_branch(proto, *condition) : std::nullopt;
    std::string reason;
    return branch && expand(source, branch->function, branch->call, reason, Expand::kReplace);
  }

  // Of a sequence that was put together in sight, the length and the element at a known position are known.
  bool find_in_sequence(const Source& source) {
    const onnx::NodeProto& proto = source.proto;
    const bool is_length = proto.op_type() == "SequenceLength";
    if (!is_length && proto.op_type() != "SequenceAt") return false;
    if (proto.output_size() != 1 || proto.input_size() != (is_length ? 1 : 2)) return false;
    const auto sequence = sequences_.find(id_of(proto.input(0)));
    if (sequence == sequences_.end()) return false;
    const std::vector<ValueId>& elements = sequence->second;
    const auto count = static_cast<std::int64_t>(elements.size());
    const std::size_t values_before = graph_.value_count();
    ValueId found = kNoValue;
    if (is_length) {
      found = graph_.add_constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{count}));
    } else {
      const auto& contents = graph_.value(id_of(proto.input(1))).contents;
      if (!contents || contents->size() != 1 || !(*contents)[0].is_constant()) return false;
      const std::int64_t at = (*contents)[0].value() + ((*contents)[0].value() < 0 ? count : 0);
      if (at < 0 || at >= count) return false;
      found = elements[static_cast<std::size_t>(at)];
      if (!graph_.value(found).shape_known) return false;
    }
    name_results(source, {NodeSource::to_onnx(found)}, values_before);
    return true;
  }

  // ONNX's Gradient becomes the nodes that compute it. `names`: y, the variables, and what else y is computed from.
  bool import_gradient(const Source& source, const std::vector<std::string>& names, std::string& reason) {
    const onnx::NodeProto& proto = source.proto;
    if (static_cast<std::size_t>(proto.input_size()) + 1 != names.size())
      throw Error(ErrorCode::kBadInput, "has " + std::to_string(proto.input_size()) + " inputs, its xs and zs name " +
                                            std::to_string(names.size() - 1));
    const auto* xs = find_attribute(proto, "xs", onnx::AttributeProto::STRINGS);
    const int variable_count = xs == nullptr ? 0 : xs->strings_size();
    if (proto.output_size() > variable_count)
      throw Error(ErrorCode::kBadInput,
                  "has " + std::to_string(proto.output_size()) + " outputs, its xs name " + std::to_string(variable_count));
    std::vector<ValueId> variables, at;
    for (const std::string& name : names) {
      if (!source.is_of_model() || !names_.contains(name)) {
        reason = in_quotes(name) + " is not defined where the node stands";
        return false;
      }
      variables.push_back(id_of(name));
      const Value& value = graph_.value(variables.back());
      if (!value.shape_known || !is_real(value.type.type)) {
        reason = in_quotes(name) + " is no tensor of real elements with known axes";
        return false;
      }
    }
    for (const std::string& name : proto.input()) at.push_back(id_of(name));
    const std::size_t nodes_before = graph_.nodes().size(), values_before = graph_.value_count();
    try {
      std::vector<OnnxValue> results;
      for (const ValueId gradient : gradients_at(graph_, variables[0], std::span(variables).subspan(1), at,
                                                 static_cast<std::size_t>(proto.output_size())))
        results.push_back(NodeSource::to_onnx(gradient));
      name_results(source, results, values_before);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      graph_.drop_nodes_from(nodes_before);
      reason = error.text();
      return false;
    }
  }

  ValueId id_of(const std::string& name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) throw Error(ErrorCode::kBadInput, "its input " + in_quotes(name) + " is not defined");
    return found->second;
  }

  // Replaces a call by the function's body. Where that is not understood as a whole the call stays, unless the graph is to be
  // executed, or the call is not to be written back.
  enum class Expand { kAsCall, kReplace };
  bool expand(const Source& source, const onnx::FunctionProto& function, const onnx::NodeProto& call, std::string& reason,
              Expand how = Expand::kAsCall) {
    constexpr int kDeepest = 64;
    constexpr std::size_t kMostNodes = 100'000;  // functions that call functions may double their size with each
    expanded_nodes_ += static_cast<std::size_t>(function.node_size());
    if (source.depth >= kDeepest || expanded_nodes_ > kMostNodes) {
      reason = "its function's body is too big";
      return false;
    }
    const std::size_t nodes_before = graph_.nodes().size(), values_before = graph_.value_count();
    try {
      const FunctionBody body = body_of_call(function, call, opsets_of(source), "\x01" + std::to_string(calls_++) + "/");
      std::vector<ValueId> inputs, results;
      for (int i = 0; i < call.input_size(); ++i) {
        inputs.push_back(call.input(i).empty() ? kNoValue : id_of(call.input(i)));
        if (inputs.back() != kNoValue) names_.emplace(body.inputs[static_cast<std::size_t>(i)], inputs.back());
      }
      if (!import_body(source, body, reason, options_.for_execution || how == Expand::kReplace)) {
        graph_.drop_nodes_from(nodes_before);
        return false;
      }
      for (const std::string& output : body.outputs) results.push_back(output.empty() ? kNoValue : id_of(output));
      if (source.is_of_model() && !options_.for_execution && how == Expand::kAsCall)
        make_expansion(graph_, nodes_before, source.bytes, source.proto.name(), inputs, results);
      std::vector<OnnxValue> values;
      for (const ValueId id : results) values.push_back(NodeSource::to_onnx(id));
      name_results(source, values, values_before);
    } catch (const Error& error) {
      if (options_.for_execution || error.code() == ErrorCode::kMissing) throw;
      graph_.drop_nodes_from(nodes_before);
      reason = error.text();
      return false;
    }
    return true;
  }

  bool import_body(const Source& call, const FunctionBody& body, std::string& reason, bool keep_unknown) {
    const auto opsets = std::make_shared<const std::map<std::string, int>>(body.opsets);
    for (const onnx::NodeProto& node : body.nodes) {
      order_.read_names.insert(node.input().begin(), node.input().end());
      for (std::string& name : captured_names(node)) order_.read_names.insert(std::move(name));
    }
    order_.read_names.insert(body.outputs.begin(), body.outputs.end());
    for (const onnx::NodeProto& node : body.nodes) {
      const std::vector<std::string> captured = captured_names(node);
      const Source inner{node, {}, captured, opsets, call.depth + 1};
      std::string why;
      if (import_known(inner, why)) continue;
      if (!keep_unknown) {
        reason = "in its body: " + why;
        return false;
      }
      import_opaque(inner, std::move(why));
    }
    return true;
  }

  // A node's inputs, if all of them have types that operators can speak of; else the reason.
  std::optional<std::vector<ValueId>> typed_inputs(const onnx::NodeProto& proto, std::string& reason) const {
    std::vector<ValueId> inputs;
    for (const std::string& name : proto.input()) {
      const ValueId id = name.empty() ? kNoValue : id_of(name);
      inputs.push_back(id);
      if (id != kNoValue && (!graph_.value(id).shape_known || graph_.value(id).type.type == DataType::kUndefined)) {
        reason = "the type of its input " + in_quotes(name) + " is not known";
        return std::nullopt;
      }
      if (id != kNoValue && !has_meaning(graph_.value(id).type.type)) {
        reason = "elements of type " + std::string(rewright::name(graph_.value(id).type.type)) + " have no meaning here";
        return std::nullopt;
      }
    }
    return inputs;
  }

  // The graph that a procedure is, as an expansion of its node.
  bool import_procedure(const Source& source_node, const Procedure& procedure, int opset, std::string& reason) {
    const onnx::NodeProto& proto = source_node.proto;
    if (const auto loop = unrolled(source_node, opset, reason)) return expand(source_node, loop->function, loop->call, reason);
    if (!procedure.graph) return false;
    const auto inputs = typed_inputs(proto, reason);
    if (!inputs) return false;
    const std::size_t nodes_before = graph_.nodes().size(), values_before = graph_.value_count();
    std::optional<std::vector<OnnxValue>> values;
    try {
      NodeSource source(graph_, known_, proto, opset, *inputs);
      values = procedure.graph(source, reason);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      reason = error.text();
    }
    if (!values) {
      graph_.drop_nodes_from(nodes_before);
      return false;
    }
    if (source_node.is_of_model() && !options_.for_execution) {
      std::vector<ValueId> results;
      for (int i = 0; i < proto.output_size(); ++i)
        results.push_back(proto.output(i).empty() ? kNoValue : NodeSource::to_id(values->at(static_cast<std::size_t>(i))));
      make_expansion(graph_, nodes_before, source_node.bytes, proto.name(), *inputs, results);
      values->clear();
      for (const ValueId id : results) values->push_back(NodeSource::to_onnx(id));
    }
    name_results(source_node, *values, values_before);
    return true;
  }

  // A loop with all its iterations, if their number is known.
  std::optional<FunctionCall> unrolled(const Source& source, int opset, std::string& reason) const {
    const onnx::NodeProto& proto = source.proto;
    if (!canonical_domain(proto.domain()).empty()) return std::nullopt;
    LoopFacts facts;
    for (const std::string& name : proto.input()) {
      const ValueId id = name.empty() ? kNoValue : id_of(name);
      LoopFacts::Input& input = facts.inputs.emplace_back();
      if (id == kNoValue) continue;
      const Value& value = graph_.value(id);
      if (value.shape_known) input.sizes = value.type.shape;
      if (value.contents && value.contents->size() == 1) input.number = (*value.contents)[0].constant();
      const auto known = known_.find(id);
      const Tensor& tensor = value.constant || known == known_.end() ? value.constant : known->second;
      if (tensor && tensor.size() == 1 && !is_real(tensor.type())) input.number = tensor.integers()[0];
    }
    return unrolled_loop(proto, opset, facts, opsets_of(source), reason);
  }

  bool import_operator(const Source& source_node, const Operator& op, int opset, std::string& reason) {
    const onnx::NodeProto& proto = source_node.proto;
    const auto inputs = typed_inputs(proto, reason);
    if (!inputs) return false;
    const std::size_t nodes_before = graph_.nodes().size();
    const std::size_t values_before = graph_.value_count();
    NodeSource source(graph_, known_, proto, opset, *inputs);
    std::optional<std::vector<OnnxValue>> results;
    try {
      results = op.onnx().import ? op.onnx().import(source, reason) : import_default(op, source, reason);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      reason = error.text();
    }
    if (results && !defines_all(proto, *results, reason)) results.reset();
    if (!results) {
      graph_.drop_nodes_from(nodes_before);
      return false;
    }
    name_results(source_node, *results, values_before);
    if (!source_node.is_of_model()) return true;
    if (graph_.nodes().size() == nodes_before + 1 && is_one_node(*results)) attach_origin(source_node, *inputs);
    if (graph_.nodes().size() == nodes_before && proto.op_type() == "Constant" && proto.output_size() == 1)
      model_->constant_nodes.push_back({NodeSource::to_id(results->at(0)),
                                        graph_.value(NodeSource::to_id(results->at(0))).constant,
                                        std::string(source_node.bytes)});
    return true;
  }

  // Does a definition give every output that something reads?
  bool defines_all(const onnx::NodeProto& proto, const std::vector<OnnxValue>& results, std::string& reason) const {
    for (int i = 0; i < proto.output_size(); ++i) {
      if (proto.output(i).empty() || !order_.read_names.contains(proto.output(i))) continue;
      if (static_cast<std::size_t>(i) < results.size() && results[i] != kAbsent) continue;
      reason = "its output " + std::to_string(i) + " has no definition";
      return false;
    }
    return true;
  }

  void name_results(const Source& source, const std::vector<OnnxValue>& results, std::size_t values_before) {
    const onnx::NodeProto& proto = source.proto;
    for (std::size_t i = 0; i < results.size() && i < static_cast<std::size_t>(proto.output_size()); ++i) {
      const std::string& name = proto.output(static_cast<int>(i));
      if (name.empty() || results[i] == kAbsent) continue;
      const ValueId id = NodeSource::to_id(results[i]);
      define(name, id, where_of(proto));
      declared_->check(name, graph_.value(id).type);
      if (!source.is_of_model() || id < values_before || !graph_.value(id).name.empty()) continue;
      Value named = graph_.value(id);
      named.name = name;
      graph_.set_value(id, std::move(named));
    }
  }

  // Are these the outputs of the last node of the graph, in order?
  bool is_one_node(const std::vector<OnnxValue>& results) const {
    const std::vector<ValueId>& outputs = graph_.nodes().back()->outputs;
    if (results.size() > outputs.size()) return false;
    for (std::size_t i = 0; i < results.size(); ++i)
      if (NodeSource::to_id(results[i]) != outputs[i]) return false;
    return true;
  }

  // The last node of the graph is the ONNX node, as one: it can be written back as it was.
  void attach_origin(const Source& source, const std::vector<ValueId>& proto_inputs) {
    Node node = *graph_.nodes().back();
    graph_.drop_nodes_from(graph_.nodes().size() - 1);
    auto origin = std::make_shared<Origin>();
    origin->node_proto = source.bytes;
    origin->name = source.proto.name();
    std::vector<char> taken(node.inputs.size());
    for (ValueId id : proto_inputs) {
      if (id == kNoValue) {
        origin->inputs.push_back({Origin::Input::Kind::kAbsent, 0});
        continue;
      }
      std::size_t at = 0;
      while (at < node.inputs.size() && (taken[at] || node.inputs[at] != id)) ++at;
      if (at < node.inputs.size()) {
        taken[at] = 1;
        origin->inputs.push_back({Origin::Input::Kind::kInput, static_cast<std::uint32_t>(at)});
      } else {
        origin->inputs.push_back({Origin::Input::Kind::kParameter, static_cast<std::uint32_t>(node.parameters.size())});
        node.parameters.push_back(id);
      }
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (i >= static_cast<std::size_t>(source.proto.output_size()) || source.proto.output(static_cast<int>(i)).empty())
        node.outputs[i] = kNoValue;
    node.origin = std::move(origin);
    graph_.add_raw(std::move(node));
  }

  void import_opaque(const Source& source, std::string reason) {
    const onnx::NodeProto& proto = source.proto;
    Node node;
    node.opaque_reason = std::move(reason);
    auto origin = std::make_shared<Origin>();
    origin->node_proto = source.is_of_model() ? std::string(source.bytes) : serialize(proto);
    origin->opsets = source.opsets;
    origin->name = proto.name();
    origin->computation_hash = computation_hash(proto);
    for (const std::string& name : proto.input()) {
      const bool absent = name.empty();
      origin->inputs.push_back({absent ? Origin::Input::Kind::kAbsent : Origin::Input::Kind::kInput,
                                static_cast<std::uint32_t>(node.inputs.size())});
      node.inputs.push_back(absent ? kNoValue : id_of(name));
    }
    for (const std::string& name : source.captured) node.inputs.push_back(name.empty() ? kNoValue : id_of(name));
    const std::uint64_t number = opaque_nodes_++;
    for (const std::string& name : proto.output()) {
      if (name.empty()) {
        node.outputs.push_back(kNoValue);
        continue;
      }
      const DeclaredType type = opaque_type(source, number, name);
      Value value;
      if (source.is_of_model()) value.name = name;
      value.type = type.type;
      value.shape_known = type.is_complete();
      const ValueId id = graph_.add_value(std::move(value));
      define(name, id, where_of(proto));
      node.outputs.push_back(id);
    }
    node.origin = std::move(origin);
    if (canonical_domain(proto.domain()).empty() && proto.op_type() == "SequenceConstruct" && node.outputs.size() == 1)
      sequences_.emplace(node.outputs[0], node.inputs);
    graph_.add_raw(std::move(node));
  }

  // As the model declares it, else as ONNX's own inference finds it.
  DeclaredType opaque_type(const Source& source, std::uint64_t number, const std::string& name) {
    DeclaredType type = declared_->of_value(name);
    if (type.is_complete()) return type;
    if (inferred_for_ != number) infer_outputs(source);
    inferred_for_ = number;
    const auto found = inferred_.find(name);
    if (found == inferred_.end()) return type;
    DeclaredType better = declared_->read(name, found->second);
    return better.is_complete() || type.type.type == DataType::kUndefined ? better : type;
  }

  // A node by itself, with the types that its inputs have here: operators' inference functions in ONNX take it for granted that
  // the types of all inputs are known.
  void infer_outputs(const Source& source) {
    const onnx::NodeProto& proto = source.proto;
    const Procedure* const procedure = find_procedure(*model_, canonical_domain(proto.domain()), proto.op_type());
    if (procedure != nullptr && procedure->infer) {
      inferred_.merge(infer_foreign(*procedure, proto, [&](const std::string& name) { return &graph_.value(id_of(name)); }));
      return;
    }
    onnx::ModelProto model;
    model.set_ir_version(model_->skeleton.ir_version());
    for (const auto& [domain, version] : opsets_of(source)) {
      auto* import = model.add_opset_import();
      import->set_domain(domain);
      import->set_version(version);
    }
    if (find_local_function(*model_, proto) != nullptr || has_subgraphs(proto))
      *model.mutable_functions() = model_->skeleton.functions();
    onnx::GraphProto& graph = *model.mutable_graph();
    onnx::NodeProto& node = *graph.add_node();
    node = proto;
    // With their defaults: that of STFT, for one, is another in its inference than in its description.
    const std::string domain = canonical_domain(proto.domain());
    if (const auto opset = opsets_of(source).find(domain); opset != opsets_of(source).end())
      add_default_attributes(node, domain, opset->second);
    std::set<std::string> inputs(proto.input().begin(), proto.input().end());
    inputs.insert(source.captured.begin(), source.captured.end());
    inputs.erase("");
    for (const std::string& name : inputs) {
      const ValueId id = id_of(name);
      const Value& value = graph_.value(id);
      if (const auto known = known_.find(id); value.constant || known != known_.end()) {
        constexpr std::size_t kReadByInference = 8192;  // bytes: shapes, axes, scales
        const Tensor& tensor = value.constant ? value.constant : known->second;
        *graph.add_initializer() =
            tensor.byte_count() <= kReadByInference ? to_tensor_proto(tensor, name) : tensor_header(tensor, name);
      } else if (value.type.type != DataType::kUndefined) {
        *graph.add_input() = value_info(name, value.type, value.shape_known);
      } else if (const auto other = inferred_.find(name); other != inferred_.end()) {
        onnx::ValueInfoProto& info = *graph.add_input();
        info.set_name(name);
        *info.mutable_type() = other->second;
      } else {
        return;
      }
    }
    inferred_.merge(infer_types(std::move(model)));
  }

  ExternalData external_;
  const ImportOptions& options_;
  std::shared_ptr<ImportedModel> model_ = std::make_shared<ImportedModel>();
  Graph graph_;
  ModelParts parts_;
  NodeOrder order_;
  const std::shared_ptr<const std::map<std::string, int>> opsets_of_model_;  // null
  bool as_graphs_ = false;                                                   // procedures
  std::size_t calls_ = 0, expanded_nodes_ = 0;
  std::unordered_map<std::string, ValueId> names_;
  std::optional<DeclaredTypes> declared_;
  std::unordered_map<std::string, onnx::TypeProto> inferred_;  // of outputs of opaque nodes
  std::uint64_t opaque_nodes_ = 0;
  std::optional<std::uint64_t> inferred_for_;  // the opaque node that this was asked for last
  KnownTensors known_;
  std::unordered_map<ValueId, std::vector<ValueId>> sequences_;  // of SequenceConstruct nodes: their elements
};

Graph import_source(FileBytes source, ExternalData external, const std::string& name, const ImportOptions& options) {
  try {
    if (source.bytes.empty()) throw Error(ErrorCode::kBadInput, "is empty");
    return Importer(std::move(source), std::move(external), options).run();
  } catch (const Error& error) {
    throw error.within(name);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kMissing, "not enough memory to read it", name);
  }
}

}  // namespace

Graph import_onnx(const std::filesystem::path& file, const ImportOptions& options) {
  const FileBytes source = map_file(file);
  Graph graph = import_source(source, ExternalData(file.parent_path()), file.string(), options);
  release_pages(source);  // most weights were copied, because they were not aligned in the file
  return graph;
}

Graph import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options) {
  auto copy = std::make_shared<const std::string>(bytes);
  const auto span = std::as_bytes(std::span(copy->data(), copy->size()));
  return import_source({std::move(copy), span}, ExternalData(), name, options);
}

}  // namespace rewright
