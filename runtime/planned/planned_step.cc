#include "runtime/planned/planned_step.h"

#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/planned/kept_tensors.h"
#include "runtime/planned/pipeline_training.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_run.h"

namespace rewright::runtime {

namespace {

using distribution::Communicator;
using training::TrainedTensors;

class PlannedStep final : public training::TrainingStep {
 public:
  PlannedStep(plans::LocalProgram program, TrainedTensors start, Communicator& processes, const Backend& backend,
              const SessionOptions& options)
      : processes_(processes),
        run_(std::move(program), processes, backend, options),
        tensors_(std::move(start), run_.program().inputs.size()) {
    tensors_.keep([this](const Tensor& whole, std::size_t input) { return own_part(whole, input); });
  }

  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) override {
    if (bad) return NAN;  // in all processes, since all read whole batches
    std::vector<Tensor> inputs;
    for (const Tensor& t : shards.at(0)) inputs.push_back(own_part(t, inputs.size()));
    inputs.push_back(own_part(schedule.at(0), inputs.size()));
    tensors_.append_to(inputs);
    std::vector<Tensor> outputs = run_.run(std::move(inputs));
    // All go on alike, even where processors differ in the last bit.
    const bool finite = !processes_.any(outputs.back().integers()[0] == 0);
    if (finite) tensors_.replace(std::span(outputs).subspan(1));
    return finite ? outputs[0].reals()[0] : NAN;
  }

  TrainedTensors gather() override {
    return tensors_.gathered(true, [this](const Tensor& mine, std::size_t input) {
      return plans::gather(mine, run_.program().inputs.at(input), run_.processes());
    });
  }
  TrainedTensors gather_in_first(bool with_states) override {
    return tensors_.gathered(with_states, [this](const Tensor& mine, std::size_t input) {
      return plans::gather_in_first(mine, run_.program().inputs.at(input), run_.processes());
    });
  }
  void load(const TrainedTensors& tensors) override {
    tensors_.load(tensors, [this](const Tensor& whole, std::size_t input) { return own_part(whole, input); });
  }

  std::size_t peak_bytes() const override { return run_.peak_bytes(); }
  std::vector<StepProfile> profile() const override { return run_.profile(); }

 private:
  Tensor own_part(const Tensor& whole, std::size_t input) const {
    return plans::own_part(whole, run_.program().inputs.at(input), run_.processes());
  }

  Communicator& processes_;
  PlannedRun run_;
  KeptTensors tensors_;  // this process's parts
};

}  // namespace

std::unique_ptr<training::TrainingStep> make_planned_step(const plans::Plan& plan, const std::string& file,
                                                          const training::TrainingGraphs& graphs, TrainedTensors start,
                                                          Communicator& processes, const Backend& backend,
                                                          const SessionOptions& options) {
  const PlannedGraph planned = divided_by(plan, planned_for_training(graphs));
  require_proved(plan, planned, processes, file);
  if (plan.pipeline)
    return make_pipeline_step(pipeline_program(plan, planned.graph, planned.replaced, processes.rank()), std::move(start),
                              processes, backend, options);
  return std::make_unique<PlannedStep>(local_program(plan, planned.graph, planned.replaced, processes.rank()), std::move(start),
                                       processes, backend, options);
}

}  // namespace rewright::runtime
