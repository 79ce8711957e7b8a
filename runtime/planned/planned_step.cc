#include "runtime/planned/planned_step.h"

#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "runtime/planned/pipeline_training.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_run.h"

namespace rewright::runtime {

namespace {

using distribution::Communicator;
using plans::LocalPort;
using training::TrainedTensors;

class PlannedStep final : public training::TrainingStep {
 public:
  PlannedStep(plans::LocalProgram program, TrainedTensors start, Communicator& processes, const Backend& backend,
              const SessionOptions& options)
      : processes_(processes), run_(std::move(program), processes, backend, options), tensors_(std::move(start)) {
    const auto lists = all();
    std::size_t kept = 0;
    for (const std::vector<Tensor>* list : lists) kept += list->size();
    first_ = run_.program().inputs.size() - kept;
    // One after another, so that no more than one is there twice.
    std::size_t number = first_;
    for (std::vector<Tensor>* list : lists)
      for (Tensor& t : *list) t = own_part(t, number++);
  }

  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) override {
    if (bad) return NAN;  // in all processes, since all read whole batches
    std::vector<Tensor> inputs;
    for (const Tensor& t : shards.at(0)) inputs.push_back(own_part(t, inputs.size()));
    inputs.push_back(own_part(schedule.at(0), inputs.size()));
    for (const std::vector<Tensor>* list : all()) inputs.insert(inputs.end(), list->begin(), list->end());
    std::vector<Tensor> outputs = run_.run(std::move(inputs));
    // All go on alike, even where processors differ in the last bit.
    const bool finite = !processes_.any(outputs.back().integers()[0] == 0);
    auto next = outputs.begin() + 1;
    if (finite)
      for (std::vector<Tensor>* list : all())
        for (Tensor& t : *list) t = std::move(*next++);
    return finite ? outputs[0].reals()[0] : NAN;
  }

  TrainedTensors gather() override {
    return gathered(true,
                    [this](const Tensor& mine, const LocalPort& port) { return plans::gather(mine, port, run_.processes()); });
  }
  TrainedTensors gather_in_first(bool with_states) override {
    return gathered(with_states, [this](const Tensor& mine, const LocalPort& port) {
      return plans::gather_in_first(mine, port, run_.processes());
    });
  }
  void load(const TrainedTensors& tensors) override {
    tensors_ = tensors;
    std::size_t number = first_;
    for (std::vector<Tensor>* list : all())
      for (Tensor& t : *list) t = own_part(t, number++);
  }

  std::size_t peak_bytes() const override { return run_.peak_bytes(); }
  std::vector<StepProfile> profile() const override { return run_.profile(); }

 private:
  std::array<std::vector<Tensor>*, 3> all() { return {&tensors_.parameters, &tensors_.statistics, &tensors_.states}; }

  Tensor own_part(const Tensor& whole, std::size_t input) const {
    return plans::own_part(whole, run_.program().inputs.at(input), run_.processes());
  }

  TrainedTensors gathered(bool with_states, const std::function<Tensor(const Tensor&, const LocalPort&)>& whole) {
    TrainedTensors result;
    std::size_t number = first_;
    const auto add = [&](const std::vector<Tensor>& from, std::vector<Tensor>& into) {
      for (const Tensor& t : from) into.push_back(whole(t, run_.program().inputs.at(number++)));
    };
    add(tensors_.parameters, result.parameters);
    add(tensors_.statistics, result.statistics);
    if (with_states) add(tensors_.states, result.states);
    return result;
  }

  Communicator& processes_;
  PlannedRun run_;
  TrainedTensors tensors_;  // this process's parts
  std::size_t first_ = 0;   // the first of them among the program's inputs
};

}  // namespace

std::unique_ptr<training::TrainingStep> make_planned_step(const plans::Plan& plan, const std::string& file,
                                                          const training::TrainingGraphs& graphs, TrainedTensors start,
                                                          Communicator& processes, const Backend& backend,
                                                          const SessionOptions& options) {
  const PlannedGraph planned = planned_for_training(graphs);
  require_proved(plan, planned, processes, file);
  if (plan.pipeline)
    return make_pipeline_step(pipeline_program(plan, planned.graph, planned.replaced, processes.rank()), std::move(start),
                              processes, backend, options);
  return std::make_unique<PlannedStep>(local_program(plan, planned.graph, planned.replaced, processes.rank()), std::move(start),
                                       processes, backend, options);
}

}  // namespace rewright::runtime
