#include "graph/onnx/import/overridable.h"

#include <algorithm>

#include "graph/onnx/import/importer.h"
#include "graph/onnx/model.h"
#include "graph/onnx/naming.h"
#include "graph/onnx/onnx.h"

namespace rewright::graph {

namespace {

const ImportedModel::Initializer* initializer_named(const ImportedModel& model, const std::string& name) {
  const auto at = std::find_if(model.initializers.begin(), model.initializers.end(),
                               [&](const ImportedModel::Initializer& i) { return i.name == name; });
  return at == model.initializers.end() ? nullptr : &*at;
}

}  // namespace

std::vector<Declaration> overridable_initializers(const Graph& graph) {
  std::vector<Declaration> result;
  if (!graph.model() || graph.model()->skeleton.ir_version() < kWeightsNeedNoInput) return result;
  for (const auto& input : graph.model()->skeleton.graph().input()) {
    const auto* initializer = initializer_named(*graph.model(), input.name());
    if (initializer == nullptr || initializer->is_default || initializer->value >= graph.value_count()) continue;
    if (is_same_tensor(graph.value(initializer->value).constant, initializer->tensor)) result.push_back(declaration_of(input));
  }
  return result;
}

Graph with_inputs(const Graph& graph, const std::set<std::string>& names, std::map<std::string, Tensor> values) {
  ImportOptions options;
  options.input_values = std::move(values);
  options.foreign = graph.model() ? graph.model()->foreign : nullptr;
  ExportOptions whole;
  whole.check = false;
  return import_overridden(export_onnx_bytes(graph, whole), "the model", options, names);
}

Graph with_defaults(const Graph& graph) {
  const bool has_defaults =
      std::any_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId id) { return default_of(graph, id) != nullptr; });
  return has_defaults ? with_inputs(graph, {}) : graph;
}

Graph with_fixed_inputs(const Graph& graph) {
  const std::vector<Declaration> overridable = overridable_initializers(graph);
  if (overridable.empty()) return graph;
  const auto model = std::make_shared<ImportedModel>(*graph.model());
  auto& inputs = *model->skeleton.mutable_graph()->mutable_input();
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                              [&](const auto& input) {
                                return std::any_of(overridable.begin(), overridable.end(),
                                                   [&](const Declaration& d) { return d.name == input.name(); });
                              }),
               inputs.end());
  model->functions.clear();  // they point into the old skeleton
  index_functions(*model);
  Graph fixed = graph;
  fixed.set_model(model);
  return fixed;
}

const Tensor* default_of(const Graph& graph, ValueId input) {
  if (!graph.model()) return nullptr;
  const auto* initializer = initializer_named(*graph.model(), graph.value(input).name);
  return initializer != nullptr && initializer->is_default && initializer->tensor ? &initializer->tensor : nullptr;
}

}  // namespace rewright::graph
