#include "runtime/cuda/running/step_starter.h"

#include <utility>

#include "runtime/cuda/running/kernel_cache.h"

namespace rewright::cuda {

namespace {

constexpr int kRepeats = 8;  // repetitions of measured work in one recording

}  // namespace

StepStarter::StepStarter(std::shared_ptr<Driver> driver, const Plan& plan, const PlanMemory& memory, const CudaOptions& options)
    : driver_(std::move(driver)), plan_(plan), memory_(memory) {
  for (const bool in_double : {false, true}) {
    std::vector<const GeneratedKernel*> kernels;
    for (const GeneratedKernel& k : plan.kernels)
      if (k.in_double == in_double && k.launch.blocks > 0) kernels.push_back(&k);
    if (kernels.empty()) continue;
    modules_[in_double] = driver_->load(compiled(*driver_, kernel_file(kernels), options.cache));
  }
}

void StepStarter::start(const Step& step, const Choice& choice, std::size_t stream) const {
  if (const auto* kernel = std::get_if<KernelStep>(&step.work)) return start_kernel(step, kernel->kernel, stream);
  if (choice.operation) return start_operation(step, *choice.operation, stream);
  const std::vector<Step>& steps = std::get<EitherStep>(step.work).alternatives[choice.alternative].steps;
  for (std::size_t n = 0; n < steps.size(); ++n) start(steps[n], choice.steps[n], stream);
}

void StepStarter::start_kernel(const Step& step, std::size_t number, std::size_t stream) const {
  const GeneratedKernel& kernel = plan_.kernels[number];
  if (kernel.launch.blocks == 0) return;
  std::vector<void*> arguments;
  for (const int b : step.inputs) arguments.push_back(memory_.address(b, stream));
  arguments.push_back(memory_.address(step.outputs[0], stream));
  if (kernel.checks_positions) arguments.push_back(memory_.flag());
  modules_[kernel.in_double]->start(kernel.name, kernel.launch.blocks, kernel.launch.threads, arguments);
}

void StepStarter::start_operation(const Step& step, Operation& operation, std::size_t stream) const {
  const auto& library = std::get<LibraryStep>(step.work);
  const auto size = static_cast<std::int64_t>(byte_size(element_type(library.shape)));
  std::vector<const std::byte*> inputs(step.inputs.size());
  const auto begin = [&](const LibraryStep::Start& at) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = memory_.address(step.inputs[i], stream) + (i < at.inputs.size() ? at.inputs[i] : 0) * size;
    operation.start(inputs, memory_.address(step.outputs[0], stream) + at.output * size,
                    memory_.workspace(stream) + library.workspace);
  };
  if (library.starts.empty()) begin({});
  for (const LibraryStep::Start& at : library.starts) begin(at);
}

std::unique_ptr<Recording> StepStarter::record(const std::function<void()>& work) const {
  driver_->begin_recording();
  try {
    work();
    return driver_->end_recording();
  } catch (...) {
    driver_->abandon_recording();
    throw;
  }
}

// Repeats the work in one recording, so that the cost of starting it hardly counts.
double StepStarter::measure(const std::function<void()>& work, int runs) const {
  const auto recording = record([&] {
    for (int n = 0; n < kRepeats; ++n) work();
  });
  return driver_->measure(*recording, runs) / kRepeats;
}

}  // namespace rewright::cuda
