#include "runtime/training/steps/whole_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/training/memory/step_memory.h"

namespace rewright::training {

namespace {

class WholeStep final : public TrainingStep {
 public:
  WholeStep(const TrainingGraphs& graphs, bool guarded, const PrepareWhole& prepare, TrainedTensors start)
      : guarded_(guarded), tensors_(std::move(start)) {
    // Changed tensors are the last inputs, and follow the loss in the outputs.
    const std::size_t changed = tensors_.parameters.size() + tensors_.statistics.size() + tensors_.states.size();
    std::vector<Replacement> replacements;
    for (std::size_t n = 0; n < changed && guarded; ++n)
      replacements.push_back({graphs.step.inputs().size() - changed + n, 1 + n});
    session_ = prepare(graphs.step, std::move(replacements));
    make_own(tensors_.states);  // they start as views of the same zeros
  }

  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) override {
    if (bad) return NAN;
    std::vector<Tensor> inputs = shards[0];
    inputs.push_back(schedule[0]);
    const std::array changed{&tensors_.parameters, &tensors_.statistics, &tensors_.states};
    if (guarded_ && std::exchange(lent_, false))
      for (std::vector<Tensor>* list : changed) make_own(*list);
    for (std::vector<Tensor>* list : changed) {
      inputs.insert(inputs.end(), list->begin(), list->end());
      if (guarded_) list->assign(list->size(), Tensor());  // the session overwrites their memory, and must be its only owner
    }
    std::vector<Tensor> outputs = session_->advance(std::move(inputs));
    const bool finite = outputs.back().integers()[0] != 0;
    auto next = outputs.begin() + 1;
    if (guarded_ || finite)
      for (std::vector<Tensor>* list : changed)
        for (Tensor& t : *list) t = std::move(*next++);
    return finite ? outputs[0].reals()[0] : NAN;
  }

  TrainedTensors gather() override {
    lent_ = true;
    return tensors_;
  }
  void load(const TrainedTensors& tensors) override {
    tensors_ = tensors;
    lent_ = true;
  }

  std::size_t peak_bytes() const override { return session_->peak_bytes(); }
  std::vector<StepProfile> profile() const override { return session_->profile(); }

 private:
  static void make_own(std::vector<Tensor>& tensors) {
    for (Tensor& t : tensors) t = copy_of(t);
  }

  const bool guarded_;
  std::unique_ptr<Session> session_;
  TrainedTensors tensors_;
  bool lent_ = false;  // the caller may hold the tensors: they are copied before a step overwrites them
};

}  // namespace

std::unique_ptr<TrainingStep> make_whole_step(const TrainingGraphs& graphs, bool guarded, const PrepareWhole& prepare,
                                              TrainedTensors start) {
  return std::make_unique<WholeStep>(graphs, guarded, prepare, std::move(start));
}

}  // namespace rewright::training
