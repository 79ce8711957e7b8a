// Which of a library's ways, and which of several ways to one result: what is known, or the fastest.
#include <charconv>
#include <limits>

#include "runtime/cuda/running/execution.h"

namespace rewright::cuda {

namespace {

// What is kept where a library has no way.
constexpr const char* kNoOperation = "none";

}  // namespace

void Execution::choose(const CudaOptions& options) {
  for (const Step& step : plan_.steps) {
    auto choice = choose(step, options);
    if (!choice)
      throw Error(ErrorCode::kUnsupported, "neither a library nor a kernel of ours computes it", "node \"" + step.node + "\"");
    choices_.push_back(std::move(*choice));
  }
  // Whatever was measured in stream 0 is there in the step's own.
  const std::function<void(const Step&, const Choice&, int)> reserve = [&](const Step& step, const Choice& choice, int stream) {
    if (choice.operation)
      reserve_workspace(std::get<LibraryStep>(step.work).workspace + choice.operation->workspace_bytes(), stream);
    const auto* either = std::get_if<EitherStep>(&step.work);
    if (either == nullptr) return;
    const EitherStep::Way& way = either->ways[choice.way];
    reserve_workspace(way.workspace_bytes, stream);
    for (std::size_t n = 0; n < way.steps.size(); ++n) reserve(way.steps[n], choice.steps[n], stream);
  };
  workspaces_.clear(), workspace_bytes_.clear();
  workspaces_.resize(static_cast<std::size_t>(plan_.streams)), workspace_bytes_.resize(workspaces_.size());
  for (std::size_t n = 0; n < plan_.steps.size(); ++n)
    for (const int stream : {0, plan_.steps[n].stream}) reserve(plan_.steps[n], choices_[n], stream);
}

// Nothing if no library computes the step.
std::optional<Execution::Choice> Execution::choose(const Step& step, const CudaOptions& options) {
  if (const auto* library = std::get_if<LibraryStep>(&step.work)) return choose_operation(*library, options);
  if (std::holds_alternative<EitherStep>(step.work)) return choose_way(step, options);
  return Choice{};
}

std::optional<Execution::Choice> Execution::choose_operation(const LibraryStep& step, const CudaOptions& options) {
  const std::string work = to_string(step.shape) + (options.precision == Precision::kTf32 ? " tf32" : "");
  const std::optional<std::string> known = known_choice(work, options);
  if (known == kNoOperation) return std::nullopt;
  Choice choice;
  if (known) choice.operation = driver_->operation(step.shape, options.precision, *known);
  if (!choice.operation) {  // nothing is known, or that way is no longer there
    choice.operation = driver_->operation(step.shape, options.precision, {});
    keep_choice(work, choice.operation ? choice.operation->choice() : kNoOperation, options);
  }
  if (!choice.operation) return std::nullopt;
  reserve_workspace(step.workspace + choice.operation->workspace_bytes(), 0);
  return choice;
}

std::optional<Execution::Choice> Execution::take_way(const EitherStep& step, std::size_t number, const CudaOptions& options) {
  const EitherStep::Way& way = step.ways[number];
  Choice choice;
  choice.way = number;
  reserve_workspace(way.workspace_bytes, 0);
  for (const Step& part : way.steps) {
    auto chosen = choose(part, options);
    if (!chosen) return std::nullopt;
    choice.steps.push_back(std::move(*chosen));
  }
  return choice;
}

std::optional<Execution::Choice> Execution::choose_way(const Step& step, const CudaOptions& options) {
  const auto& either = std::get<EitherStep>(step.work);
  if (either.ways.size() == 1) return take_way(either, 0, options);
  const std::string work = either.key + (options.precision == Precision::kTf32 ? " tf32" : "");
  if (const auto known = known_choice(work, options)) {
    std::size_t way = either.ways.size();
    std::from_chars(known->data(), known->data() + known->size(), way);
    auto choice = way < either.ways.size() ? take_way(either, way, options) : std::nullopt;
    if (choice) return choice;
  }
  double best = std::numeric_limits<double>::infinity();
  std::optional<Choice> fastest;
  for (std::size_t way = 0; way < either.ways.size(); ++way) {
    if (either.ways[way].last_resort && fastest) continue;
    try {
      auto choice = take_way(either, way, options);
      if (!choice) continue;
      const double seconds = measured([&] { start(step, *choice, 0); }, kChoosingRuns);
      if (fastest && seconds >= best) continue;
      best = seconds;
      fastest = std::move(choice);
    } catch (const Error& e) {
      // What cannot be recorded is no way, nor what there is no memory for while there is another way.
      if (e.code() != ErrorCode::kUnsupported && (e.code() != ErrorCode::kMissing || !fastest)) throw;
    }
  }
  if (fastest) keep_choice(work, std::to_string(fastest->way), options);
  return fastest;
}

std::optional<std::string> Execution::known_choice(const std::string& work, const CudaOptions& options) const {
  if (const auto found = chosen_.find(work); found != chosen_.end()) return found->second;
  return options.choices ? options.choices->find(work) : std::nullopt;
}

void Execution::keep_choice(const std::string& work, const std::string& choice, const CudaOptions& options) {
  chosen_[work] = choice;
  if (options.choices) options.choices->store(work, choice);
}

// Steps of one stream share it; everything may run in stream 0.
void Execution::reserve_workspace(std::size_t bytes, int stream) {
  const auto s = static_cast<std::size_t>(stream);
  if (workspaces_[s] && bytes <= workspace_bytes_[s]) return;
  workspaces_[s].reset();
  workspaces_[s] = std::make_unique<DeviceMemory>(driver_, DeviceMemory::Kind::kDevice, bytes);
  workspace_bytes_[s] = bytes;
}

}  // namespace rewright::cuda
