#include "runtime/cuda/running/chooser.h"

#include <charconv>
#include <limits>
#include <utility>

namespace rewright::cuda {

namespace {

constexpr const char* kNoOperation = "none";  // recorded for work that no library operation computes

}  // namespace

std::vector<Choice> Chooser::choose() {
  std::vector<Choice> choices;
  for (const Step& step : plan_.steps) {
    auto choice = choose(step);
    if (!choice)
      throw Error(ErrorCode::kUnsupported, "neither a library nor a kernel of ours computes it", "node \"" + step.node + "\"");
    choices.push_back(std::move(*choice));
  }
  reserve_workspaces(choices);
  return choices;
}

// Rejected alternatives may have needed larger workspaces.
void Chooser::reserve_workspaces(const std::vector<Choice>& choices) {
  memory_.reset_workspaces(static_cast<std::size_t>(plan_.streams));
  for (std::size_t n = 0; n < plan_.steps.size(); ++n)
    for (const int stream : {0, plan_.steps[n].stream})
      reserve_workspace(plan_.steps[n], choices[n], static_cast<std::size_t>(stream));
}

void Chooser::reserve_workspace(const Step& step, const Choice& choice, std::size_t stream) {
  if (choice.operation)
    memory_.reserve_workspace(std::get<LibraryStep>(step.work).workspace + choice.operation->workspace_bytes(), stream);
  const auto* either = std::get_if<EitherStep>(&step.work);
  if (either == nullptr) return;
  const EitherStep::Alternative& alternative = either->alternatives[choice.alternative];
  memory_.reserve_workspace(alternative.workspace_bytes, stream);
  for (std::size_t n = 0; n < alternative.steps.size(); ++n) reserve_workspace(alternative.steps[n], choice.steps[n], stream);
}

std::optional<Choice> Chooser::choose(const Step& step) {
  if (const auto* library = std::get_if<LibraryStep>(&step.work)) return choose_operation(*library);
  if (std::holds_alternative<EitherStep>(step.work)) return choose_alternative(step);
  return Choice{};
}

std::optional<Choice> Chooser::choose_operation(const LibraryStep& step) {
  const std::string work = with_precision(to_string(step.shape));
  const std::optional<std::string> before = known(work);
  if (before == kNoOperation) return std::nullopt;
  Choice choice;
  if (before) choice.operation = driver_->operation(step.shape, options_.precision, *before);
  if (!choice.operation) {  // nothing is recorded, or the library no longer has the operation
    choice.operation = driver_->operation(step.shape, options_.precision, {});
    keep(work, choice.operation ? choice.operation->choice() : kNoOperation);
  }
  if (!choice.operation) return std::nullopt;
  memory_.reserve_workspace(step.workspace + choice.operation->workspace_bytes(), 0);
  return choice;
}

std::optional<Choice> Chooser::take_alternative(const EitherStep& step, std::size_t number) {
  const EitherStep::Alternative& alternative = step.alternatives[number];
  Choice choice;
  choice.alternative = number;
  memory_.reserve_workspace(alternative.workspace_bytes, 0);
  for (const Step& part : alternative.steps) {
    auto chosen = choose(part);
    if (!chosen) return std::nullopt;
    choice.steps.push_back(std::move(*chosen));
  }
  return choice;
}

std::optional<Choice> Chooser::choose_alternative(const Step& step) {
  const auto& either = std::get<EitherStep>(step.work);
  if (either.alternatives.size() == 1) return take_alternative(either, 0);
  const std::string work = with_precision(either.key);
  if (const auto before = known(work)) {
    std::size_t number = either.alternatives.size();
    std::from_chars(before->data(), before->data() + before->size(), number);
    auto choice = number < either.alternatives.size() ? take_alternative(either, number) : std::nullopt;
    if (choice) return choice;
  }
  auto fastest = fastest_alternative(step);
  if (fastest) keep(work, std::to_string(fastest->alternative));
  return fastest;
}

std::optional<Choice> Chooser::fastest_alternative(const Step& step) {
  const auto& either = std::get<EitherStep>(step.work);
  double best = std::numeric_limits<double>::infinity();
  std::optional<Choice> fastest;
  for (std::size_t n = 0; n < either.alternatives.size(); ++n) {
    if (either.alternatives[n].last_resort && fastest) continue;
    try {
      auto choice = take_alternative(either, n);
      if (!choice) continue;
      const double seconds = starter_.measure([&] { starter_.start(step, *choice, 0); }, kChoosingRuns);
      if (fastest && seconds >= best) continue;
      best = seconds;
      fastest = std::move(choice);
    } catch (const Error& e) {
      // An operation that cannot be recorded is no alternative; nor is one without enough memory, if there is another.
      if (e.code() != ErrorCode::kUnsupported && (e.code() != ErrorCode::kMissing || !fastest)) throw;
    }
  }
  return fastest;
}

std::string Chooser::with_precision(const std::string& work) const {
  return work + (options_.precision == Precision::kTf32 ? " tf32" : "");
}

std::optional<std::string> Chooser::known(const std::string& work) const {
  if (const auto found = kept_.find(work); found != kept_.end()) return found->second;
  return options_.choices ? options_.choices->find(work) : std::nullopt;
}

void Chooser::keep(const std::string& work, const std::string& choice) {
  kept_[work] = choice;
  if (options_.choices) options_.choices->store(work, choice);
}

}  // namespace rewright::cuda
