#include "runtime/training/steps/evaluation.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/onnx/body.h"
#include "runtime/mixed.h"

namespace rewright::training {

namespace {

// The model of fixed sizes; outputs: its loss and the predicted classes.
Graph with_loss(const Graph& model, const std::string& output, Loss loss) {
  Graph graph = model;
  std::vector<std::pair<ValueId, ValueId>> undropped;  // Dropout in the model's training mode
  for (const auto& node : model.nodes())
    if (onnx_operator(*node) == "Dropout") undropped.emplace_back(node->outputs[0], node->inputs[0]);
  graph.replace_uses(undropped);
  const ValueId predictions = find_predictions(model, output);
  const ValueId targets = graph.add_input("training.targets", target_type(loss, graph.value(predictions).type));
  graph.set_outputs({});
  graph.add_output("training.loss", add_loss(graph, loss, predictions, targets));
  if (loss == Loss::kSoftmaxCrossEntropy) {
    NodeBuilder b(graph);
    graph.add_output("training.classes", b.add("ArgMax", {predictions}, {{"axis", Index(1)}, {"keepdims", false}}));
  }
  graph.tidy();
  return graph;
}

}  // namespace

Evaluation evaluate(const Graph& model, const std::string& output, Loss loss, const Dataset& data, std::int64_t batch,
                    const Backend& backend, const SessionOptions& options) {
  double total = 0;
  std::int64_t right = 0, judged = 0;
  std::unique_ptr<Session> session;
  std::int64_t prepared = 0;
  for (std::int64_t first = 0; first < data.size(); first += batch) {
    std::vector<std::int64_t> which(static_cast<std::size_t>(std::min(batch, data.size() - first)));
    std::iota(which.begin(), which.end(), first);
    std::vector<Tensor> inputs;
    for (const ValueId id : model.inputs()) inputs.push_back(data.rows(model.value(id).name, which));
    const auto rows = static_cast<std::int64_t>(which.size());
    if (rows != prepared) {
      const Graph sized = with_sizes(model, bind_sizes(model, inputs));
      if (prepared == 0) check_targets(loss, sized.value(find_predictions(sized, output)).type, data.column("targets"));
      session = prepare_session(backend, with_loss(sized, output, loss), options);
      prepared = rows;
    }
    const Tensor targets = data.rows("targets", which);
    inputs.push_back(targets);
    const std::vector<Tensor> outputs = session->run(inputs);
    total += outputs[0].reals()[0] * static_cast<double>(rows);
    if (outputs.size() < 2) continue;
    const std::vector<std::int64_t> found = outputs[1].integers(), wanted = targets.integers();
    for (std::size_t n = 0; n < found.size(); ++n) right += found[n] == wanted[n];
    judged += static_cast<std::int64_t>(found.size());
  }
  return {total / static_cast<double>(data.size()),
          judged ? std::optional(static_cast<double>(right) / static_cast<double>(judged)) : std::nullopt, data.size()};
}

}  // namespace rewright::training
