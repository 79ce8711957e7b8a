#include "runtime/planned/pipeline_training.h"

#include <array>
#include <cmath>
#include <utility>

#include "runtime/planned/pipeline_run.h"

namespace rewright::runtime {

namespace {

using distribution::Communicator;
using training::TrainedTensors;

class PipelineTrainingStep final : public training::TrainingStep {
 public:
  PipelineTrainingStep(plans::PipelineProgram program, TrainedTensors start, Communicator& processes, const Backend& backend,
                       const SessionOptions& options)
      : processes_(processes), run_(std::move(program), processes, backend, options), tensors_(std::move(start)) {
    std::size_t kept = 0;
    for (const std::vector<Tensor>* list : all()) kept += list->size();
    first_ = run_.program().inputs.size() - kept;
    keep_own();
  }

  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) override {
    if (bad) return NAN;  // in all processes, since all read whole batches
    std::vector<Tensor> inputs = shards.at(0);
    inputs.push_back(schedule.at(0));
    for (const std::vector<Tensor>* list : all()) inputs.insert(inputs.end(), list->begin(), list->end());
    std::vector<std::vector<Tensor>> updates = run_.run(std::move(inputs));
    // The processes that compute the loss, and whether everything is finite, tell all others.
    double facts[] = {0, 0};
    const auto& outputs = run_.program().outputs;
    for (const std::vector<Tensor>& update : updates) {
      if (outputs.front().process == processes_.rank()) facts[0] += update.front().reals()[0];
      if (outputs.back().process == processes_.rank()) facts[1] += update.back().integers()[0] == 0;
    }
    processes_.sum(std::span<double>(facts));
    if (facts[1] > 0) {
      run_.take_back();
      return NAN;
    }
    auto next = updates.back().begin() + 1;
    for (std::vector<Tensor>* list : all())
      for (Tensor& t : *list) t = std::move(*next++);
    return facts[0];
  }

  TrainedTensors gather() override { return gathered(true, false); }
  TrainedTensors gather_in_first(bool with_states) override { return gathered(with_states, true); }
  void load(const TrainedTensors& tensors) override {
    tensors_ = tensors;
    keep_own();
    run_.begin_anew();
  }

  std::size_t peak_bytes() const override { return run_.peak_bytes(); }
  std::vector<StepProfile> profile() const override { return run_.profile(); }

 private:
  std::array<std::vector<Tensor>*, 3> all() { return {&tensors_.parameters, &tensors_.statistics, &tensors_.states}; }

  void keep_own() {
    std::size_t number = first_;
    for (std::vector<Tensor>* list : all())
      for (Tensor& t : *list)
        if (!run_.needs(number++)) t = {};
  }

  TrainedTensors gathered(bool with_states, bool in_first) {
    TrainedTensors result;
    std::size_t number = first_;
    const auto add = [&](const std::vector<Tensor>& from, std::vector<Tensor>& into) {
      for (const Tensor& t : from) into.push_back(run_.gather(number++, t, in_first));
    };
    add(tensors_.parameters, result.parameters);
    add(tensors_.statistics, result.statistics);
    if (with_states) add(tensors_.states, result.states);
    return result;
  }

  Communicator& processes_;
  PipelineRun run_;
  TrainedTensors tensors_;  // of this process's stages; others are empty
  std::size_t first_ = 0;   // the first of them among the inputs
};

}  // namespace

std::unique_ptr<training::TrainingStep> make_pipeline_step(plans::PipelineProgram program, TrainedTensors start,
                                                           Communicator& processes, const Backend& backend,
                                                           const SessionOptions& options) {
  return std::make_unique<PipelineTrainingStep>(std::move(program), std::move(start), processes, backend, options);
}

}  // namespace rewright::runtime
