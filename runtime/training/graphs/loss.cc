#include "runtime/training/graphs/loss.h"

#include <array>
#include <string>
#include <utility>

#include "graph/builder.h"

namespace rewright::training {

namespace {

constexpr std::array<std::pair<std::string_view, Loss>, 3> kLossNames{{{"softmax-cross-entropy", Loss::kSoftmaxCrossEntropy},
                                                                       {"mean-squared", Loss::kMeanSquared},
                                                                       {"binary-cross-entropy", Loss::kBinaryCrossEntropy}}};

}  // namespace

Loss loss_from_name(std::string_view name) {
  std::string known;
  for (const auto& [text, loss] : kLossNames) {
    if (text == name) return loss;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw Error(ErrorCode::kUsage, "no loss is called '" + std::string(name) + "'; there are " + known);
}

ValueId find_predictions(const Graph& model, const std::string& output) {
  for (const GraphOutput& o : model.outputs())
    if (output.empty() || o.name == output) return o.value;
  throw Error(ErrorCode::kBadInput, output.empty() ? "the model has no output" : "the model has no output '" + output + "'");
}

TensorType target_type(Loss loss, const TensorType& predictions) {
  if (!is_real(predictions.type))
    throw Error(ErrorCode::kBadInput, "predictions are " + to_string(predictions) + ", must be real numbers");
  if (loss != Loss::kSoftmaxCrossEntropy) return predictions;
  if (predictions.rank() < 2)
    throw Error(ErrorCode::kBadInput, "predictions are " + to_string(predictions) + ", must be [N, classes, ...]");
  Indices shape = predictions.shape;
  shape.erase(shape.begin() + 1);
  return {DataType::kInt64, std::move(shape)};
}

void check_targets(Loss loss, const TensorType& predictions, const Column& targets) {
  if (loss != Loss::kSoftmaxCrossEntropy) return;
  const std::int64_t classes = predictions.shape.at(1).value();
  const std::vector<std::int64_t> values = targets.tensor()->integers();
  for (std::size_t n = 0; n < values.size(); ++n)
    if (values[n] < 0 || values[n] >= classes)
      throw Error(
          ErrorCode::kBadInput,
          "the target is class " + std::to_string(values[n]) + ", there are classes 0 to " + std::to_string(classes - 1),
          targets.place(static_cast<std::int64_t>(n)));
}

ValueId add_loss(Graph& graph, Loss loss, ValueId predictions, ValueId targets) {
  const TensorType type = graph.value(predictions).type, wanted = target_type(loss, type);
  if (!(graph.value(targets).type == wanted))
    throw Error(ErrorCode::kBadInput,
                "targets are " + to_string(graph.value(targets).type) + ", the loss needs " + to_string(wanted));
  NodeBuilder b(graph);
  const auto mean = [&](ValueId v) { return b.add("ReduceMean", {v}, {{"keepdims", false}}); };
  switch (loss) {
    case Loss::kSoftmaxCrossEntropy: {
      const ValueId logarithms = b.add("LogSoftmax", {predictions}, {{"axis", Index(1)}});
      const ValueId classes = b.add("Unsqueeze", {targets}, {{"axes", Indices{1}}});
      return b.add("Neg", {mean(b.add("GatherElements", {logarithms, classes}, {{"axis", Index(1)}}))});
    }
    case Loss::kMeanSquared: {
      const ValueId difference = b.add("Sub", {predictions, targets});
      return mean(b.add("Mul", {difference, difference}));
    }
    case Loss::kBinaryCrossEntropy:  // -t log s(x) - (1 - t) log(1 - s(x)), s the logistic function: no logarithm of 0 occurs
      return mean(b.add("Sub", {b.add("Softplus", {predictions}), b.add("Mul", {predictions, targets})}));
  }
  throw Error(ErrorCode::kUsage, "unknown loss");
}

}  // namespace rewright::training
