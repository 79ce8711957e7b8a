#include "runtime/cuda/running/recorder.h"

#include <algorithm>

#include "runtime/cuda/running/chooser.h"

namespace rewright::cuda {

void Recorder::choose_streams(const CudaOptions& options) {
  if (plan_.streams == 1) return;  // always one if the host executes a node
  if (options.in_streams) {
    in_streams_ = *options.in_streams;
    return;
  }
  const auto seconds = [&] { return starter_.measure([&] { start_steps(); }, kChoosingRuns); };
  const double alone = seconds();
  in_streams_ = true;
  in_streams_ = seconds() < alone;
}

void Recorder::start(std::size_t n) const {
  starter_.start(plan_.steps[n], choices_[n], in_streams_ ? static_cast<std::size_t>(plan_.steps[n].stream) : 0);
}

void Recorder::start_steps(std::size_t begin, std::size_t end) {
  if (in_streams_) return start_in_streams(begin, end);
  for (std::size_t n = begin; n < end; ++n) start(n);
}

// All streams start after the work in stream 0, which then waits for all of them.
void Recorder::start_in_streams(std::size_t begin, std::size_t end) {
  const int steps = static_cast<int>(plan_.steps.size());
  std::vector<bool> waited_for(plan_.steps.size()), begun(static_cast<std::size_t>(plan_.streams));
  for (const Step& step : plan_.steps)
    for (const int w : step.waits) waited_for[static_cast<std::size_t>(w)] = true;
  driver_->mark(steps);
  begun[0] = true;
  for (std::size_t n = begin; n < end; ++n) {
    const Step& step = plan_.steps[n];
    driver_->use_stream(step.stream);
    if (!begun[static_cast<std::size_t>(step.stream)]) driver_->wait_for(steps);
    begun[static_cast<std::size_t>(step.stream)] = true;
    for (const int w : step.waits)
      if (static_cast<std::size_t>(w) >= begin) driver_->wait_for(w);
    start(n);
    if (waited_for[n]) driver_->mark(static_cast<int>(n));
  }
  for (int s = 1; s < plan_.streams; ++s) {
    if (!begun[static_cast<std::size_t>(s)]) continue;
    driver_->use_stream(s);
    driver_->mark(steps + s);
  }
  driver_->use_stream(0);
  for (int s = 1; s < plan_.streams; ++s)
    if (begun[static_cast<std::size_t>(s)]) driver_->wait_for(steps + s);
}

// Steps are recorded together up to a step of the host, or up to an announcement of outputs. Copies of inputs and outputs
// belong to the first and last recording.
std::vector<RunPart> Recorder::record(bool with_copies) {
  std::vector<RunPart> parts;
  std::size_t group = 0;
  for (std::size_t begin = 0;;) {
    const std::size_t end = end_of_stretch(begin);
    parts.emplace_back(starter_.record([&] { start_stretch(begin, end, with_copies); }));
    for (; group < plan_.announced_after.size() && plan_.announced_after[group] <= end; ++group)
      parts.emplace_back(Announcement{group});
    if (end == plan_.steps.size()) return parts;
    const bool on_host = std::holds_alternative<HostStep>(plan_.steps[end].work);
    if (on_host) parts.emplace_back(HostPart{end});
    begin = end + (on_host ? 1 : 0);
  }
}

std::size_t Recorder::end_of_stretch(std::size_t begin) const {
  for (std::size_t end = begin; end < plan_.steps.size(); ++end) {
    const bool announced =
        std::find(plan_.announced_after.begin(), plan_.announced_after.end(), end) != plan_.announced_after.end();
    if (std::holds_alternative<HostStep>(plan_.steps[end].work) || (end > begin && announced)) return end;
  }
  return plan_.steps.size();
}

void Recorder::start_stretch(std::size_t begin, std::size_t end, bool with_copies) {
  if (begin == 0) start_inputs(with_copies);
  start_steps(begin, end);
  if (end == plan_.steps.size()) start_outputs(with_copies);
}

void Recorder::start_inputs(bool with_copies) {
  if (with_copies) memory_.start_inputs();
  memory_.clear_flag();
}

void Recorder::start_outputs(bool with_copies) {
  memory_.start_moves();
  if (with_copies) memory_.start_outputs();
  memory_.read_flag();
}

}  // namespace rewright::cuda
