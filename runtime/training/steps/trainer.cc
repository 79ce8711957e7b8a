#include "runtime/training/steps/trainer.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/training/steps/diagnosis.h"
#include "runtime/training/steps/run_checkpoint.h"
#include "runtime/training/steps/run_data.h"
#include "runtime/training/steps/step_maker.h"
#include "runtime/training/steps/trained_model.h"

namespace rewright::training {

namespace {

// Returns free memory to the system. Building graphs and plans frees many small pieces that the C library would keep.
void give_back_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

struct Trainer::State {
  Graph model;  // without the values of trained constants
  const TrainOptions options;
  Communicator& processes;
  const Backend& backend;
  const std::unique_ptr<Communicator> alone = make_local_communicator();  // for those who read whole batches
  RunData data;
  StepMaker maker;
  TrainingGraphs graphs;
  std::unique_ptr<TrainingStep> step;
  Progress progress;

  State(Graph m, const Dataset& examples, const TrainOptions& o, Communicator& p, const Backend& b)
      : model(std::move(m)),
        options(o),
        processes(p),
        backend(b),
        data(model, examples, options, options.planned ? *alone : processes),
        maker(options, data.shards(), processes, backend) {
    make_graphs();
    require_same_start(options, run_facts(options, graphs, data.examples()), model, backend, processes);
    step = maker.make_step(graphs, take_start(model, graphs, !options.planned));
    give_back_free_memory();
  }

  void make_graphs() {
    const Graph sized = data.sized(model);
    graphs = maker.make_graphs(sized);
    data.check_targets(sized, graphs.gradients);
  }

  StepReport advance() {
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t number = progress.step;
    const double rate = options.schedule.at(number, data.steps());
    const StepInputs inputs = data.take(number, progress.scale.scale);
    const std::vector<Tensor> schedule{Tensor::scalar(DataType::kFloat, rate),
                                       Tensor::scalar(DataType::kFloat, static_cast<double>(number + 1))};
    const double loss = step->advance(inputs.shards, schedule, !inputs.complaint.empty());
    const bool skipped = !std::isfinite(loss);
    if (skipped && !options.skip_bad_steps) require_finite_data(inputs);
    const bool half = options.graph.precision == DataType::kHalf;
    const bool overflow = half && progress.scale.update(!skipped);
    if (skipped && !overflow && !options.skip_bad_steps) fail_not_finite(inputs, rate);
    ++progress.step;
    if (options.check_every > 0 && progress.step % options.check_every == 0)
      compare_copies(*step, graphs, progress.step, processes);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double speed = static_cast<double>(options.batch) / seconds;
    return {progress.step, data.steps(), data.epoch_of(number), loss, rate, speed, skipped};
  }

  // Throws Error(kBadInput) in all processes if the data of one contains a number that is not finite.
  void require_finite_data(const StepInputs& inputs) {
    for (const std::string& complaint : processes.all_gather(inputs.complaint))
      if (!complaint.empty()) throw Error(ErrorCode::kBadInput, complaint);
  }

  [[noreturn]] void fail_not_finite(const StepInputs& inputs, double rate) {
    const std::string where = diagnose(*step, graphs, inputs.shards, backend, options.threads, processes);
    throw Error(ErrorCode::kBadInput, "step " + std::to_string(progress.step + 1) + ": the loss or a gradient is not finite" +
                                          (where.empty() ? "" : ", first in " + where) +
                                          "; the learning rate may be too high (now " + std::to_string(rate) + ")");
  }
};

Trainer::Trainer(Graph model, const Dataset& data, const TrainOptions& options, Communicator& processes, const Backend& backend)
    : state_(std::make_unique<State>(std::move(model), data, options, processes, backend)) {}
Trainer::~Trainer() = default;

bool Trainer::run(const std::stop_token& stop, const std::function<void(const StepReport&)>& report) {
  while (state_->progress.step < state_->data.steps()) {
    if (state_->processes.any(stop.stop_requested())) return false;
    const StepReport done = state_->advance();
    if (report) report(done);
  }
  return true;
}

TrainingCheckpoint Trainer::checkpoint() const {
  const State& s = *state_;
  return make_checkpoint(run_facts(s.options, s.graphs, s.data.examples()), s.progress, s.graphs,
                         s.step->gather_in_first(true));
}

void Trainer::resume(const TrainingCheckpoint& checkpoint) {
  State& s = *state_;
  const Progress progress = read_progress(checkpoint, run_facts(s.options, s.graphs, s.data.examples()), s.progress);
  TrainedTensors tensors = s.step->gather();
  restore_tensors(checkpoint, s.graphs, tensors);
  s.step->load(tensors);
  s.progress = progress;
}

std::int64_t Trainer::steps_done() const { return state_->progress.step; }
std::optional<TrainingMemory> Trainer::memory() const { return state_->step->memory(); }
std::size_t Trainer::peak_bytes() const { return state_->step->peak_bytes(); }
const TrainingGraphs& Trainer::graphs() const { return state_->graphs; }
std::vector<StepProfile> Trainer::profile() const { return state_->step->profile(); }

const Rematerialized* Trainer::rematerialized() const {
  const std::optional<Rematerialized>& done = state_->maker.rematerialized();
  return done ? &*done : nullptr;
}

Graph Trainer::trained(bool everywhere) const {
  const TrainedTensors all = everywhere ? state_->step->gather() : state_->step->gather_in_first(false);
  return with_trained(state_->model, state_->graphs, all);
}

}  // namespace rewright::training
