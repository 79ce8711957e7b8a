// Import of nodes by the definitions of their operators.
#include "graph/onnx/import/importer.h"
#include "graph/sizes.h"
#include "operators/contrib/contrib.h"
#include "operators/procedure.h"

namespace rewright::graph {

namespace {

// Do denotations support elements of this type?
bool has_meaning(DataType type) {
  return is_real(type) || is_integer(type) || type == DataType::kBool || type == DataType::kString;
}

}  // namespace

void Importer::import_node(std::size_t number) {
  const Source source{parts_.nodes[number], parts_.node_bytes[number], order_.captured[number], opsets_of_model_};
  try {
    std::string reason;
    if (!import_known(source, reason)) import_opaque(source, std::move(reason));
  } catch (const Error& error) {
    throw error.within(where_of(source.proto));
  }
}

const std::map<std::string, int>& Importer::opsets_of(const Source& source) const {
  return source.opsets ? *source.opsets : model_->opsets;
}

bool Importer::import_known(const Source& source, std::string& reason) {
  const onnx::NodeProto& proto = source.proto;
  const std::string domain = canonical_domain(proto.domain());
  if (const onnx::FunctionProto* function = find_local_function(*model_, proto))
    return expand(source, *function, proto, reason);
  if (const operators::ContribGraph* contrib = operators::find_contrib(domain, proto.op_type())) {
    const auto graph = [contrib](OnnxSource& node, std::string& why) {
      operators::ContribNode given(node);
      return (*contrib)(given, why);
    };
    return import_as_graph(source, graph, 1, reason);
  }
  const auto opset = opsets_of(source).find(domain);
  if (opset == opsets_of(source).end() && domain == operators::kContribDomain) {
    reason = "no definition of operator " + domain + "." + proto.op_type();
    return false;  // ONNX Runtime's own tools write such nodes without importing their domain
  }
  if (opset == opsets_of(source).end())
    throw Error(ErrorCode::kBadInput, "the model imports no opset of domain " + in_quotes(domain));
  const bool exists = verify_node(proto, domain, opset->second);
  if (domain.empty() && !exists) {
    reason = "opset " + std::to_string(opset->second) + " has no operator " + proto.op_type();
    return false;
  }
  if (domain.empty() && proto.op_type() == "If" && decide(source)) return true;
  if (domain.empty() && proto.op_type() == "Scan" && map_scan(source, opset->second)) return true;
  if (domain.empty() && find_in_sequence(source)) return true;
  if (const auto names = differentiated_names(proto); exists && !names.empty()) return import_gradient(source, names, reason);
  const Operator* op = find_onnx(domain, proto.op_type());
  if (op == nullptr)
    reason = "no definition of operator " + (domain.empty() ? "" : domain + ".") + proto.op_type();
  else if (import_operator(source, *op, opset->second, reason))
    return true;
  if (const Procedure* procedure = operators::find_procedure(domain, proto.op_type()); exists && procedure != nullptr)
    return as_graphs_ && import_procedure(source, *procedure, opset->second, reason);
  std::string objection;
  if (exists && import_schema_function(source, opset->second, objection)) return true;
  if (op == nullptr && !objection.empty()) reason = objection;
  return false;
}

bool Importer::find_in_sequence(const Source& source) {
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
    if (found == kNoValue || !graph_.value(found).shape_known) return false;
  }
  name_results(source, {NodeSource::to_onnx(found)}, values_before);
  return true;
}

std::optional<std::vector<ValueId>> Importer::typed_inputs(const onnx::NodeProto& proto, std::string& reason) const {
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

bool Importer::import_operator(const Source& source_node, const Operator& op, int opset, std::string& reason) {
  const onnx::NodeProto& proto = source_node.proto;
  const auto inputs = typed_inputs(proto, reason);
  if (!inputs) return false;
  const std::size_t nodes_before = graph_.nodes().size();
  const std::size_t values_before = graph_.value_count();
  NodeSource source(graph_, known_, proto, opset, *inputs, [&](const std::string& symbol) { return is_of_input(symbol); });
  std::optional<std::vector<OnnxValue>> results;
  try {
    results = op.onnx().import ? op.onnx().import(source, reason) : import_default(op, source, reason);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    reason = error.text();
  }
  if (results && (!defines_all(proto, *results, reason) || !may_assume(source.assumed(), reason))) results.reset();
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

bool Importer::may_assume(const std::vector<Condition>& equal_sizes, std::string& reason) const {
  if (as_graphs_) return true;  // for gradients, sizes are assumed equal; execution checks it
  for (const Condition& condition : equal_sizes)
    for (const std::string& symbol : symbols_of(Indices{condition.left, condition.right}))
      if (!is_of_input(symbol)) {
        reason = "whether the sizes " + condition.left.to_string() + " and " + condition.right.to_string() +
                 " are equal is known only when it is executed";
        return false;
      }
  return true;
}

bool Importer::defines_all(const onnx::NodeProto& proto, const std::vector<OnnxValue>& results, std::string& reason) const {
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty() || !order_.read_names.contains(proto.output(i))) continue;
    if (static_cast<std::size_t>(i) < results.size() && results[i] != kAbsent) continue;
    reason = "its output " + std::to_string(i) + " has no definition";
    return false;
  }
  return true;
}

void Importer::name_results(const Source& source, const std::vector<OnnxValue>& results, std::size_t values_before) {
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

bool Importer::is_one_node(const std::vector<OnnxValue>& results) const {
  const std::vector<ValueId>& outputs = graph_.nodes().back()->outputs;
  if (results.size() > outputs.size()) return false;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (NodeSource::to_id(results[i]) != outputs[i]) return false;
  return true;
}

void Importer::attach_origin(const Source& source, const std::vector<ValueId>& proto_inputs) {
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

}  // namespace rewright::graph
