#include "runtime/planned/pipeline_training.h"

#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "runtime/planned/kept_tensors.h"
#include "runtime/planned/pipeline_run.h"

namespace rewright::runtime {

namespace {

using distribution::Communicator;
using training::TrainedTensors;

class PipelineTrainingStep final : public training::TrainingStep {
 public:
  PipelineTrainingStep(plans::PipelineProgram program, TrainedTensors start, Communicator& processes, const Backend& backend,
                       const SessionOptions& options)
      : processes_(processes),
        run_(std::move(program), processes, backend, options),
        tensors_(std::move(start), run_.program().inputs.size()) {
    tensors_.keep(own());
  }

  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) override {
    if (bad) return NAN;  // in all processes, since all read whole batches
    std::vector<Tensor> inputs = shards.at(0);
    inputs.push_back(schedule.at(0));
    tensors_.append_to(inputs);
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
    tensors_.replace(std::span(updates.back()).subspan(1));
    return facts[0];
  }

  TrainedTensors gather() override { return gathered(true, false); }
  TrainedTensors gather_in_first(bool with_states) override { return gathered(with_states, true); }
  void load(const TrainedTensors& tensors) override {
    tensors_.load(tensors, own());
    run_.begin_anew();
  }

  std::size_t peak_bytes() const override { return run_.peak_bytes(); }
  std::vector<StepProfile> profile() const override { return run_.profile(); }

 private:
  // This process keeps the tensors of its stages.
  std::function<Tensor(Tensor, std::size_t)> own() {
    return [this](Tensor tensor, std::size_t input) { return run_.needs(input) ? std::move(tensor) : Tensor(); };
  }

  TrainedTensors gathered(bool with_states, bool in_first) {
    return tensors_.gathered(with_states,
                             [&](const Tensor& mine, std::size_t input) { return run_.gather(input, mine, in_first); });
  }

  Communicator& processes_;
  PipelineRun run_;
  KeptTensors tensors_;  // of this process's stages; others are empty
};

}  // namespace

std::unique_ptr<training::TrainingStep> make_pipeline_step(plans::PipelineProgram program, TrainedTensors start,
                                                           Communicator& processes, const Backend& backend,
                                                           const SessionOptions& options) {
  return std::make_unique<PipelineTrainingStep>(std::move(program), std::move(start), processes, backend, options);
}

}  // namespace rewright::runtime
