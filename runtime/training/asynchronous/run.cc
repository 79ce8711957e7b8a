#include "runtime/training/asynchronous/run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/hash_mix.h"
#include "runtime/mixed.h"
#include "runtime/training/steps/trained_model.h"

namespace rewright::training {

namespace {

TrainOptions of_whole_batches(TrainOptions options) {
  options.shards = 1, options.accumulate = 1;
  options.graph.seed = options.seed;
  return options;
}

TrainingGraphs graphs_for(const Graph& model, const RunData& data, const TrainOptions& options) {
  const Graph sized = data.sized(model);
  TrainingGraphs graphs = make_training_graphs(sized, options.output, options.graph);
  data.check_targets(sized, graphs.gradients);
  return graphs;
}

}  // namespace

std::vector<Tensor> batch_of(RunData& data, std::int64_t step, const TrainOptions& options) {
  StepInputs inputs = data.take(step, 1);
  if (!inputs.complaint.empty() && !options.skip_bad_steps) throw Error(ErrorCode::kBadInput, inputs.complaint);
  return std::move(inputs.shards[0]);
}

AsynchronousRun::AsynchronousRun(Graph model, const Dataset& data, const TrainOptions& options,
                                 const AsynchronousOptions& asynchronous, const Backend& backend)
    : model_(std::move(model)),
      examples_(data),
      options_(options),
      asynchronous_(asynchronous),
      backend_(backend),
      whole_batches_(of_whole_batches(options)),
      data_(std::make_unique<RunData>(model_, examples_, whole_batches_, *alone_)),
      graphs_(graphs_for(model_, *data_, whole_batches_)),
      start_(take_start(model_, graphs_, false)),
      layout_(start_),
      weights_(layout_.flat(start_)) {
  start_ = {};
}

RunFacts AsynchronousRun::facts(const Backend& backend) const {
  RunFacts facts = run_facts(options_, graphs_, data_->examples());
  facts["device"] = backend.name();
  facts["epochs"] = std::to_string(options_.epochs);
  facts["mode"] = std::to_string(static_cast<int>(asynchronous_.mode));
  facts["servers"] = std::to_string(asynchronous_.servers);
  std::uint64_t hash = 0;
  for (const float v : weights_) hash = hash_mix(hash, std::bit_cast<std::uint32_t>(v));
  facts["model and its weights"] = std::to_string(hash);
  return facts;
}

std::vector<Tensor> AsynchronousRun::batch(std::int64_t step) { return batch_of(*data_, step, options_); }

std::unique_ptr<RunData> AsynchronousRun::own_data() const {
  return std::make_unique<RunData>(model_, examples_, whole_batches_, *alone_);
}

PrepareSession AsynchronousRun::prepare(int threads) const {
  return [this, threads](const Graph& graph, std::vector<Replacement> replacements) {
    SessionOptions session{.threads = threads};
    session.replacements = std::move(replacements);
    return prepare_session(backend_, graph, session);
  };
}

Replica AsynchronousRun::replica(int threads) const { return {graphs_, layout_, options_.graph.clip_norm, prepare(threads)}; }

OwnedWeights AsynchronousRun::owned(FlatRange range, int threads) const {
  return {graphs_, whole_batches_.graph, layout_, range, range.of(std::span<const float>(weights_)), prepare(threads)};
}

void AsynchronousRun::require_finite(double loss, std::int64_t step) const {
  if (std::isfinite(loss) || options_.skip_bad_steps) return;
  throw Error(ErrorCode::kBadInput, "step " + std::to_string(step + 1) +
                                        ": the loss or a gradient is not finite; the learning rate may be too high (now " +
                                        std::to_string(rate(step)) + ")");
}

StepReport AsynchronousRun::report(std::int64_t done, double loss, double seconds) const {
  const double speed = static_cast<double>(done * options_.batch) / std::max(seconds, 1e-9);
  return {done, steps(), data_->epoch_of(done - 1), loss, rate(done - 1), speed, !std::isfinite(loss)};
}

Graph AsynchronousRun::trained() const { return with_trained(model_, graphs_, layout_.tensors(weights_)); }

}  // namespace rewright::training
