// Import of nodes that are replaced by several others: function calls, branches, loops, gradients.
#include <algorithm>
#include <set>

#include "graph/gradients/differentiate.h"
#include "graph/onnx/import/importer.h"
#include "operators/procedure.h"

namespace rewright::graph {

bool Importer::import_schema_function(const Source& source, int opset, std::string& reason) {
  const onnx::NodeProto& proto = source.proto;
  const std::string domain = canonical_domain(proto.domain());
  if (!is_schema_function(proto, domain, opset)) return false;
  std::vector<onnx::TypeProto> types;
  for (const std::string& name : proto.input()) {
    const Value* value = name.empty() ? nullptr : &graph_.value(id_of(name));
    types.push_back(value != nullptr ? value_info(name, value->type, value->shape_known).type() : onnx::TypeProto());
  }
  const auto body = schema_function(proto, domain, opset, types);
  return body && expand(source, body->function, body->call, reason);
}

bool Importer::decide(const Source& source) {
  const onnx::NodeProto& proto = source.proto;
  if (proto.input_size() != 1 || proto.input(0).empty()) return false;
  const ValueId id = id_of(proto.input(0));
  const Value& value = graph_.value(id);
  std::optional<bool> condition;
  if (const Tensor* tensor = known_tensor(id)) {
    if (tensor->type() == DataType::kBool && tensor->size() == 1) condition = tensor->integers()[0] != 0;
  } else if (value.type.type == DataType::kBool && value.contents && value.contents->size() == 1) {
    if (const auto number = (*value.contents)[0].constant()) condition = *number != 0;
  }
  const auto branch = condition ? call_of_branch(proto, *condition) : std::nullopt;
  std::string reason;
  return branch && expand(source, branch->function, branch->call, reason, Expand::kReplace);
}

bool Importer::map_scan(const Source& source, int opset) {
  const auto mapped = mapped_scan(source.proto, opset, loop_facts(source.proto));
  std::string reason;
  return mapped && expand(source, mapped->function, mapped->call, reason);
}

bool Importer::import_gradient(const Source& source, const std::vector<std::string>& names, std::string& reason) {
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
  graph_.set_model(model_);  // needed to read bodies of nodes
  try {
    std::vector<OnnxValue> results;
    for (const ValueId gradient :
         gradients_at(graph_, variables[0], std::span(variables).subspan(1), at, static_cast<std::size_t>(proto.output_size())))
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

void Importer::forget_unread(const onnx::NodeProto& call, std::size_t first, std::vector<ValueId>& results) const {
  std::set<ValueId> read;
  for (std::size_t i = 0; i < results.size() && i < static_cast<std::size_t>(call.output_size()); ++i)
    if (order_.read_names.contains(call.output(static_cast<int>(i)))) read.insert(results[i]);
  if (read.empty()) return;
  const auto nodes = graph_.nodes().subspan(first);
  for (std::size_t n = nodes.size(); n-- > 0;)
    if (std::ranges::any_of(nodes[n]->outputs, [&](ValueId id) { return read.contains(id); }))
      for (const auto* ids : {&nodes[n]->inputs, &nodes[n]->parameters}) read.insert(ids->begin(), ids->end());
  for (ValueId& id : results)
    if (!read.contains(id)) id = kNoValue;
}

bool Importer::expand(const Source& source, const onnx::FunctionProto& function, const onnx::NodeProto& call,
                      std::string& reason, Expand how) {
  constexpr int kDeepest = 64;
  constexpr std::size_t kMostNodes = 100'000;  // limit: nested functions may double their size at each level
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
    if (source.is_of_model() && !options_.for_execution && how == Expand::kAsCall) {
      forget_unread(call, nodes_before, results);
      make_expansion(graph_, nodes_before, source.bytes, source.proto.name(), inputs, results);
    }
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

bool Importer::import_body(const Source& call, const FunctionBody& body, std::string& reason, bool keep_unknown) {
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

bool Importer::import_procedure(const Source& source_node, const Procedure& procedure, int opset, std::string& reason) {
  // Execution has a faster way for these than a graph.
  if (options_.for_execution && options_.procedures_as_graphs && procedure.run) return false;
  if (const auto loop = unrolled(source_node, opset, reason)) return expand(source_node, loop->function, loop->call, reason);
  return procedure.graph && import_as_graph(source_node, procedure.graph, opset, reason);
}

bool Importer::import_as_graph(const Source& source_node, const GraphOfNode& graph, int opset, std::string& reason) {
  const onnx::NodeProto& proto = source_node.proto;
  const auto inputs = typed_inputs(proto, reason);
  if (!inputs) return false;
  const std::size_t nodes_before = graph_.nodes().size(), values_before = graph_.value_count();
  NodeSource source(graph_, known_, proto, opset, *inputs, [&](const std::string& symbol) { return is_of_input(symbol); });
  std::optional<std::vector<OnnxValue>> values;
  try {
    values = graph(source, reason);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    reason = error.text();
  }
  if (values && (!defines_all(proto, *values, reason) || !may_assume(source.assumed(), reason))) values.reset();
  if (!values) {
    graph_.drop_nodes_from(nodes_before);
    return false;
  }
  // A procedure's graph is executed by backends that may have a kernel for the call as a whole.
  if (source_node.is_of_model() && (!options_.for_execution || options_.procedures_as_graphs)) {
    std::vector<ValueId> results;
    for (int i = 0; i < proto.output_size(); ++i) {
      const bool is_made = !proto.output(i).empty() && static_cast<std::size_t>(i) < values->size();
      results.push_back(is_made ? NodeSource::to_id((*values)[static_cast<std::size_t>(i)]) : kNoValue);
    }
    forget_unread(proto, nodes_before, results);
    make_expansion(graph_, nodes_before, source_node.bytes, proto.name(), *inputs, results);
    values->clear();
    for (const ValueId id : results) values->push_back(NodeSource::to_onnx(id));
  }
  name_results(source_node, *values, values_before);
  return true;
}

std::optional<FunctionCall> Importer::unrolled(const Source& source, int opset, std::string& reason) const {
  const onnx::NodeProto& proto = source.proto;
  if (!canonical_domain(proto.domain()).empty()) return std::nullopt;
  return unrolled_loop(proto, opset, loop_facts(proto), opsets_of(source), reason);
}

LoopFacts Importer::loop_facts(const onnx::NodeProto& proto) const {
  LoopFacts facts;
  for (const std::string& name : proto.input()) {
    const ValueId id = name.empty() ? kNoValue : id_of(name);
    LoopFacts::Input& input = facts.inputs.emplace_back();
    if (id == kNoValue) continue;
    const Value& value = graph_.value(id);
    if (value.shape_known) input.sizes = value.type.shape;
    if (value.contents && value.contents->size() == 1) input.number = (*value.contents)[0].constant();
    const Tensor* tensor = known_tensor(id);
    if (tensor != nullptr && tensor->size() == 1 && !is_real(tensor->type())) input.number = tensor->integers()[0];
  }
  return facts;
}

}  // namespace rewright::graph
