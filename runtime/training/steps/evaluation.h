// Evaluates a model on held-out data.
#pragma once

#include <optional>
#include <string>

#include "runtime/session.h"
#include "runtime/training/data/dataset.h"
#include "runtime/training/graphs/loss.h"

namespace rewright::training {

struct Evaluation {
  double loss;                     // mean over the examples
  std::optional<double> accuracy;  // for classes: the share of examples whose largest prediction is the target
  std::int64_t examples;
};

// Runs the model on all examples, `batch` at a time. Throws Error as Trainer does.
Evaluation evaluate(const Graph& model, const std::string& output, Loss loss, const Dataset& data, std::int64_t batch,
                    const Backend& backend, const SessionOptions& options);

}  // namespace rewright::training
