// The loss functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/training/data/dataset.h"

namespace rewright::training {

enum class Loss {
  kSoftmaxCrossEntropy,  // predictions [N, C, ...] are logits, targets [N, ...] the numbers of classes (int64)
  kMeanSquared,          // targets have the predictions' shape
  kBinaryCrossEntropy,   // predictions are logits, targets (of the same shape) lie in [0, 1]
};
// "softmax-cross-entropy", "mean-squared", "binary-cross-entropy". Throws Error(kUsage).
Loss loss_from_name(std::string_view name);

// The output of a model with this name, or its first one. Throws Error(kBadInput) if there is none.
ValueId find_predictions(const Graph& model, const std::string& output);

// The type of targets for predictions of this type.
TensorType target_type(Loss loss, const TensorType& predictions);

// Throws Error(kBadInput), with the place, for impossible targets: classes that the predictions do not have.
void check_targets(Loss loss, const TensorType& predictions, const Column& targets);

// Adds the loss: the mean over all targets, a scalar of the predictions' type. Throws Error(kBadInput) if the types do not fit.
ValueId add_loss(Graph& graph, Loss loss, ValueId predictions, ValueId targets);

}  // namespace rewright::training
