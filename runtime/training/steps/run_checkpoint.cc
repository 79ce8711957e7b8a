#include "runtime/training/steps/run_checkpoint.h"

#include <sstream>
#include <utility>

#include "base/error.h"
#include "distribution/agreement.h"

namespace rewright::training {

namespace {

// Calls visit(name, tensor) for all tensors, with their names in checkpoints.
template <class F>
void for_each(const TrainingGraphs& graphs, TrainedTensors& all, const F& visit) {
  const std::size_t count = all.parameters.size();
  for (std::size_t n = 0; n < count; ++n) visit(graphs.parameters[n].name, all.parameters[n]);
  for (std::size_t n = 0; n < all.statistics.size(); ++n) visit(graphs.statistics[n].name, all.statistics[n]);
  for (std::size_t n = 0; n < all.states.size(); ++n)
    visit("training." + graphs.states[n / count] + "." + graphs.parameters[n % count].name, all.states[n]);
}

}  // namespace

RunFacts run_facts(const TrainOptions& options, const TrainingGraphs& graphs, std::int64_t examples) {
  return {
      {"rewright.checkpoint", "1"},
      {"model", std::to_string(graphs.update.hash())},
      {"data", std::to_string(examples)},
      {"batch", std::to_string(options.batch)},
      {"shards", std::to_string(options.shards) + (options.whole_batch_statistics ? ", statistics of the whole batch" : "")},
      {"accumulate", std::to_string(options.accumulate)},
      {"precision", std::string(name(options.graph.precision))},
      {"weights", std::string(name(options.graph.weights)) + (options.graph.stochastic ? ", rounded at random" : "")},
      {"clip", std::to_string(options.graph.clip_norm)},
      {"seed", std::to_string(options.seed)}};
}

void require_same_start(const TrainOptions& options, const RunFacts& facts, const Graph& model, const Backend& backend,
                        Communicator& processes) {
  RunFacts mine = facts;
  mine["model and its weights"] = std::to_string(model.hash());
  mine["device"] = backend.name();
  mine["epochs"] = std::to_string(options.epochs);
  mine["schedule"] = std::to_string(static_cast<int>(options.schedule.kind)) + "/" + std::to_string(options.schedule.rate) +
                     "/" + std::to_string(options.schedule.warm_up);
  const ExchangeOptions& e = options.exchange;
  mine["exchange of gradients"] = std::to_string(static_cast<int>(e.all_reduce.strategy)) + "/" +
                                  std::to_string(e.all_reduce.node) + "/" + std::to_string(e.bucket_bytes) + "/" +
                                  std::string(name(e.gradients)) + "/zero " + std::to_string(e.zero);
  // In stage 3 processes fetch parameters together in the order of their plans, which depends on the number of threads.
  if (e.zero == 3) mine["number of threads"] = std::to_string(options.threads);
  mine["check-every"] = std::to_string(options.check_every);
  mine["on-nan"] = options.skip_bad_steps ? "skip" : "stop";
  require_agreement(processes, mine);
}

TrainingCheckpoint make_checkpoint(RunFacts facts, const Progress& progress, const TrainingGraphs& graphs,
                                   TrainedTensors tensors) {
  TrainingCheckpoint result{std::move(facts), {}};
  result.facts["step"] = std::to_string(progress.step);
  result.facts["scale"] = std::to_string(progress.scale.scale) + " " + std::to_string(progress.scale.good_steps);
  for_each(graphs, tensors, [&](const std::string& name, const Tensor& t) { result.tensors.emplace(name, t); });
  return result;
}

Progress read_progress(const TrainingCheckpoint& checkpoint, const RunFacts& facts, const Progress& now) {
  for (const auto& [key, value] : facts) {
    const auto at = checkpoint.facts.find(key);
    if (at == checkpoint.facts.end() || at->second != value)
      throw Error(ErrorCode::kBadInput, "the checkpoint is of another run: its " + key + " is " +
                                            (at == checkpoint.facts.end() ? "not there" : at->second) + ", here it is " +
                                            value);
  }
  const auto step = checkpoint.facts.find("step");
  const bool counted = step != checkpoint.facts.end() && !step->second.empty() && step->second.size() < 19 &&
                       step->second.find_first_not_of("0123456789") == std::string::npos;
  if (!counted) throw Error(ErrorCode::kBadInput, "the checkpoint does not say how far it is");
  Progress progress = now;
  progress.step = std::stoll(step->second);
  if (const auto scale = checkpoint.facts.find("scale"); scale != checkpoint.facts.end()) {
    std::istringstream text(scale->second);
    LossScale found;
    if (text >> found.scale >> found.good_steps && found.scale >= 1 && found.good_steps >= 0) progress.scale = found;
  }
  return progress;
}

void restore_tensors(const TrainingCheckpoint& checkpoint, const TrainingGraphs& graphs, TrainedTensors& tensors) {
  for_each(graphs, tensors, [&](const std::string& name, Tensor& t) {
    const auto at = checkpoint.tensors.find(name);
    if (at == checkpoint.tensors.end() || at->second.type() != t.type() || at->second.sizes() != t.sizes())
      throw Error(ErrorCode::kBadInput, "the checkpoint does not hold '" + name + "' as this model has it");
    t = at->second;
  });
}

}  // namespace rewright::training
