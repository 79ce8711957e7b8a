#include "runtime/training/steps/trained_model.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "graph/onnx/release.h"
#include "runtime/training/memory/step_memory.h"

namespace rewright::training {

namespace {

// Zeros like these tensors. All share memory, which must not be written.
std::vector<Tensor> shared_zeros_like(const std::vector<Tensor>& tensors) {
  std::size_t most = 0;
  for (const Tensor& t : tensors) most = std::max(most, t.byte_count());
  Tensor bytes(DataType::kUint8, {static_cast<std::int64_t>(most)});
  std::ranges::fill(bytes.mutable_bytes(), std::byte{0});
  const auto zeros = std::make_shared<const Tensor>(std::move(bytes));
  std::vector<Tensor> result;
  for (const Tensor& t : tensors) result.emplace_back(t.type(), t.sizes(), zeros, zeros->bytes().data());
  return result;
}

}  // namespace

TrainedTensors take_start(Graph& model, TrainingGraphs& graphs, bool owned) {
  std::vector<ValueId> taken;
  const auto copies = [&](const std::vector<TrainedTensor>& which) {
    std::vector<Tensor> tensors;
    for (const TrainedTensor& t : which) {
      const Tensor& start = model.value(t.in_model).constant;
      tensors.push_back(start.type() != t.type ? converted(start, t.type) : owned ? copy_of(start) : start);
      taken.push_back(t.in_model);
    }
    return tensors;
  };
  TrainedTensors start;
  start.parameters = copies(graphs.parameters);
  start.statistics = copies(graphs.statistics);
  release_constants(model, taken);
  for (Graph* graph : {&graphs.gradients, &graphs.step}) graph->set_model(model.model());
  for (std::size_t kind = 0; kind < graphs.states.size(); ++kind)
    std::ranges::copy(shared_zeros_like(start.parameters), std::back_inserter(start.states));
  return start;
}

Graph with_trained(const Graph& model, const TrainingGraphs& graphs, const TrainedTensors& tensors) {
  Graph result = model;
  if (!tensors.parameters.empty() && !tensors.parameters[0]) return result;
  for (std::size_t n = 0; n < tensors.parameters.size(); ++n) {
    const ValueId id = graphs.parameters[n].in_model;
    result.set_constant(id, converted(tensors.parameters[n], result.value(id).type.type));
  }
  for (std::size_t n = 0; n < tensors.statistics.size(); ++n)
    result.set_constant(graphs.statistics[n].in_model, tensors.statistics[n]);
  return result;
}

}  // namespace rewright::training
