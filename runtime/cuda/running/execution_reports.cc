// Reports of an execution: times, and the origin of its kernels.
#include <utility>

#include "runtime/cuda/running/execution.h"

namespace rewright::cuda {

namespace {

constexpr int kProfileRuns = 20;
// Rounding relative to plain sums: of convolutions, which may use transforms; of factors with 10 instead of 23 bits of
// fraction.
constexpr double kRoundingOfTransforms = 32, kRoundingOfTf32 = 8192;

// The library operation that a step starts, and its request; null: none.
std::pair<const LibraryStep*, const Operation*> operation_of(const Step& step, const Choice& choice) {
  if (choice.operation) return {&std::get<LibraryStep>(step.work), choice.operation.get()};
  const auto* const either = std::get_if<EitherStep>(&step.work);
  for (std::size_t n = 0; n < choice.steps.size(); ++n)
    if (const auto found = operation_of(either->alternatives[choice.alternative].steps[n], choice.steps[n]);
        found.first != nullptr)
      return found;
  return {};
}

}  // namespace

std::string Execution::source(std::size_t n) const {
  const Step& step = plan_.steps[n];
  if (std::holds_alternative<HostStep>(step.work)) return "the interpreter";
  const auto [library, operation] = operation_of(step, choices_[n]);
  if (library == nullptr) return kGeneratedCode;
  const std::string shape = to_string(library->shape);
  return "a " + shape.substr(0, shape.find(' ')) + " (" + operation->choice() + ") of " + driver_->library_versions();
}

double Execution::rounding(std::size_t n) const {
  const LibraryStep* const library = operation_of(plan_.steps[n], choices_[n]).first;
  if (library == nullptr) return 1;
  const bool is_convolution = std::holds_alternative<ConvolutionShape>(library->shape);
  const bool is_short =
      (is_convolution || std::holds_alternative<ProductShape>(library->shape)) && precision_ == Precision::kTf32;
  return is_short ? kRoundingOfTf32 : is_convolution ? kRoundingOfTransforms : 1;
}

void Execution::require_device() const {
  for (const Step& step : plan_.steps)
    if (std::holds_alternative<HostStep>(step.work))
      throw Error(ErrorCode::kUnsupported, "a node that the host executes has no time on the device", step.node);
}

double Execution::measure(int runs) {
  require_device();
  return starter_.measure([&] { recorder_.start_steps(); }, runs);
}

double Execution::measure_work(int runs) {
  require_device();
  const auto work = [&] {
    for (std::size_t n = 0; n < plan_.steps.size(); ++n)
      if (!plan_.steps[n].layout) recorder_.start(n);
  };
  return starter_.measure(work, runs);
}

double Execution::measure_step(std::size_t step) {
  if (std::holds_alternative<HostStep>(plan_.steps[step].work)) return 0;
  return starter_.measure([&] { starter_.start(plan_.steps[step], choices_[step], 0); }, kProfileRuns);
}

std::vector<StepProfile> Execution::profile(int runs) {
  std::vector<StepProfile> result;
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    const Step& step = plan_.steps[n];
    result.push_back({step.node, step.operators, measure_step(n) * runs, runs, step.flops, step.bytes});
  }
  return result;
}

}  // namespace rewright::cuda
