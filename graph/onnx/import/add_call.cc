#include "graph/onnx/import/add_call.h"

#include "graph/onnx/function.h"
#include "graph/onnx/import/source.h"
#include "graph/onnx/parts.h"
#include "graph/onnx/sink.h"
#include "operators/contrib/contrib.h"

namespace rewright::graph {

namespace {

// The model with the domain imported.
void import_domain(Graph& graph, const std::string& domain) {
  if (graph.model()->opsets.contains(domain)) return;
  const auto model = std::make_shared<ImportedModel>(*graph.model());
  auto* import = model->skeleton.add_opset_import();
  import->set_domain(domain);
  import->set_version(1);
  model->opsets[domain] = 1;
  model->functions.clear();  // they point into the old skeleton
  index_functions(*model);
  graph.set_model(model);
}

}  // namespace

std::optional<std::vector<ValueId>> add_call(Graph& graph, const ContribCall& call) {
  onnx::NodeProto proto;
  proto.set_op_type(call.type);
  proto.set_domain(std::string(operators::kContribDomain));
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    proto.add_input(call.inputs[i] == kNoValue ? "" : "x" + std::to_string(i));
  for (std::size_t i = 0; i < call.outputs; ++i) proto.add_output("y" + std::to_string(i));
  for (const auto& [name, value] : call.attributes) *proto.add_attribute() = to_attribute(name, value);
  return add_call(graph, proto, call.inputs);
}

std::optional<std::vector<ValueId>> add_call(Graph& graph, const onnx::NodeProto& proto, const std::vector<ValueId>& inputs,
                                             const std::function<bool(std::size_t output)>& is_read) {
  const std::string domain = canonical_domain(proto.domain());
  const operators::ContribGraph* const body = operators::find_contrib(domain, proto.op_type());
  if (body == nullptr || !graph.model()) return std::nullopt;
  const auto opset = graph.model()->opsets.find(domain);
  const std::size_t before = graph.nodes().size();
  KnownTensors known;
  NodeSource source(graph, known, proto, opset == graph.model()->opsets.end() ? 1 : opset->second, inputs,
                    [](const std::string&) { return true; });
  std::optional<std::vector<OnnxValue>> values;
  try {
    std::string reason;
    operators::ContribNode node(source);
    values = (*body)(node, reason);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kMissing || error.code() == ErrorCode::kCancelled) throw;
  }
  if (!values) {
    graph.drop_nodes_from(before);
    return std::nullopt;
  }
  std::vector<ValueId> results;
  for (std::size_t i = 0; i < static_cast<std::size_t>(proto.output_size()); ++i)
    results.push_back(i < values->size() && is_read(i) ? NodeSource::to_id((*values)[i]) : kNoValue);
  make_expansion(graph, before, serialize(proto), proto.name(), inputs, results);
  import_domain(graph, domain);
  return results;
}

}  // namespace rewright::graph
