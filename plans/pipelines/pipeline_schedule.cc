#include "plans/pipelines/pipeline_schedule.h"

#include <map>

#include "base/error.h"

namespace rewright::plans {

std::size_t PipelineSchedule::actions() const {
  std::size_t count = 0;
  for (const auto& list : processes) count += list.size();
  return count;
}

PipelineSchedule for_inference(PipelineSchedule schedule) {
  for (auto& list : schedule.processes) {
    std::erase_if(list, [](const PipelineAction& a) { return a.kind != ActionKind::kForward; });
    for (PipelineAction& a : list) a.version = 0;
  }
  schedule.gradients = GradientActions::kNone;
  return schedule;
}

PipelineSchedule with_gradients_apart(const PipelineSchedule& schedule) {
  PipelineSchedule result = schedule;
  if (schedule.gradients != GradientActions::kTogether) return result;
  result.gradients = GradientActions::kApart;
  for (auto& list : result.processes) {
    std::vector<PipelineAction> apart;
    for (PipelineAction a : list) {
      apart.push_back(a);
      if (a.kind != ActionKind::kBackward) continue;
      a.kind = ActionKind::kWeights;
      apart.push_back(a);
    }
    list = std::move(apart);
  }
  return result;
}

PipelineSchedule first_step(const PipelineSchedule& schedule) {
  PipelineSchedule result = schedule;
  result.steps = 1;
  for (auto& list : result.processes) {
    std::map<std::uint32_t, std::size_t> updates, done;  // by stage
    for (const PipelineAction& a : list) updates[a.stage] += a.kind == ActionKind::kUpdate;
    std::erase_if(list, [&](const PipelineAction& a) {
      return a.kind == ActionKind::kUpdate ? done[a.stage]++ >= updates[a.stage] / schedule.steps
                                           : a.micro_batch >= schedule.micro_batches;
    });
  }
  return result;
}

PipelineSchedule repeated(const PipelineSchedule& schedule, std::size_t steps) {
  if (schedule.steps != 1) throw Error(ErrorCode::kUsage, "a schedule of several steps cannot be repeated", schedule.name);
  PipelineSchedule result = schedule;
  result.steps = steps;
  for (std::size_t step = 1; step < steps; ++step)
    for (std::size_t p = 0; p < schedule.processes.size(); ++p)
      for (PipelineAction a : schedule.processes[p]) {
        if (a.kind != ActionKind::kUpdate) {
          a.micro_batch += static_cast<std::uint32_t>(step * schedule.micro_batches);
          if (schedule.gradients != GradientActions::kNone) a.version += static_cast<std::uint32_t>(step);
        }
        result.processes[p].push_back(a);
      }
  return result;
}

}  // namespace rewright::plans
