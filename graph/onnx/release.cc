#include "graph/onnx/release.h"

#include <memory>
#include <unordered_set>
#include <utility>

#include "graph/onnx/function.h"
#include "graph/onnx/model.h"

namespace rewright::graph {

void forget_constant(Graph& graph, ValueId id) {
  Value value = graph.value(id);
  value.constant = Tensor();
  graph.set_value(id, std::move(value));
}

void release_constants(Graph& graph, std::span<const ValueId> constants) {
  for (const ValueId id : constants) forget_constant(graph, id);
  if (!graph.model()) return;
  const std::unordered_set<ValueId> released(constants.begin(), constants.end());
  const auto model = std::make_shared<ImportedModel>(*graph.model());
  model->functions.clear();  // they point into the old skeleton
  index_functions(*model);
  // A tensor that differs from every constant of the graph, so that all are written anew.
  const Tensor another(DataType::kUint8, {0});
  for (auto& initializer : model->initializers)
    if (initializer.tensor && released.contains(initializer.value)) initializer.tensor = another;
  for (auto& initializer : model->sparse_initializers)
    if (initializer.tensor && released.contains(initializer.value)) initializer.tensor = another;
  for (auto& node : model->constant_nodes)
    if (released.contains(node.value)) node.tensor = another;
  release_pages(model->source);
  graph.set_model(model);
}

}  // namespace rewright::graph
