#include "runtime/cuda/running/prepare.h"

#include <algorithm>
#include <utility>

namespace rewright::cuda {

namespace {

// Are there channels-last convolutions that tensor cores compute?
bool has_channels_last(const Plan& plan, Precision precision) {
  const auto steps = library_steps(plan);
  return std::any_of(steps.begin(), steps.end(), [&](const LibraryStep* step) {
    const auto* c = std::get_if<ConvolutionShape>(&step->shape);
    return c != nullptr && c->channels_last &&
           (c->type == DataType::kHalf || c->type == DataType::kBfloat16 ||
            (c->type == DataType::kFloat && precision == Precision::kTf32));
  });
}

}  // namespace

std::unique_ptr<Execution> prepare(const std::shared_ptr<Driver>& driver, const Graph& graph, ConstantStore& constants,
                                   const CudaOptions& options, const Residents& residents, const InsteadOf& instead) {
  const auto make = [&](Plan plan) {
    return std::make_unique<Execution>(driver, std::move(plan), constants, options, residents);
  };
  constants.folded()->begin_plan();
  const auto planned = [&](bool channels_last) {
    return make_plan(
        graph, {.channels_last = channels_last, .places = residents.places, .instead = instead, .folded = constants.folded()});
  };
  if (options.channels_last) return make(planned(*options.channels_last));
  Plan last = planned(true);
  const bool on_host = std::any_of(last.steps.begin(), last.steps.end(),
                                   [](const Step& step) { return std::holds_alternative<HostStep>(step.work); });
  if (on_host || !has_channels_last(last, options.precision)) return make(planned(false));
  std::unique_ptr<Execution> first = make(planned(false));
  try {
    std::unique_ptr<Execution> second = make(std::move(last));
    return first->measure(kChoosingRuns) <= second->measure(kChoosingRuns) ? std::move(first) : std::move(second);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kMissing) throw;
    return first;  // memory may suffice for only one
  }
}

}  // namespace rewright::cuda
