#include "runtime/cuda/running/execution.h"

#include <utility>

#include "operators/readings/interpreter.h"
#include "runtime/endable_run.h"

namespace rewright::cuda {

Execution::Execution(std::shared_ptr<Driver> driver, Plan plan, ConstantStore& constants, const CudaOptions& options,
                     Residents residents)
    : driver_(std::move(driver)),
      plan_(std::move(plan)),
      precision_(options.precision),
      announce_(std::move(residents.announce)),
      memory_(driver_, plan_, constants, std::move(residents.memory)),
      starter_(driver_, plan_, memory_, options),
      choices_(Chooser(driver_, plan_, memory_, starter_, options).choose()),
      recorder_(driver_, plan_, memory_, starter_, choices_) {
  recorder_.choose_streams(options);
  parts_ = recorder_.record(true);
}

std::vector<Tensor> Execution::run(std::span<const Tensor> inputs) {
  memory_.take_inputs(inputs);
  run_checkpoint();
  run(parts_);
  driver_->synchronize();
  memory_.check_positions();
  return memory_.give_outputs();
}

// A run can be ended where the device waits for the host.
void Execution::run(const std::vector<RunPart>& parts) {
  for (const RunPart& part : parts) {
    if (const auto* recording = std::get_if<std::unique_ptr<Recording>>(&part)) {
      (*recording)->start();
    } else if (const auto* known = std::get_if<Announcement>(&part)) {
      announce_(known->group);
    } else {
      run_on_host(std::get<HostPart>(part).step);
      run_checkpoint();
    }
  }
}

void Execution::run_on_host(std::size_t n) {
  const Step& step = plan_.steps[n];
  const auto& work = std::get<HostStep>(step.work);
  std::vector<Tensor> inputs(step.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (step.inputs[i] < 0) continue;
    inputs[i] = Tensor(work.types[i].type, values(work.types[i].shape));
    if (inputs[i].byte_count() > 0)
      driver_->copy_out(inputs[i].mutable_bytes().data(), memory_.address(step.inputs[i]), inputs[i].byte_count());
  }
  driver_->synchronize();
  const std::vector<Tensor> outputs = interpret(*work.node->op, work.node->attributes, inputs);
  for (std::size_t o = 0; o < step.outputs.size(); ++o)
    if (step.outputs[o] >= 0 && outputs.at(o).byte_count() > 0)
      driver_->copy_in(memory_.address(step.outputs[o]), outputs[o].bytes().data(), outputs[o].byte_count());
  driver_->synchronize();  // the copies write the results until then
}

std::vector<Tensor> Execution::run_observed(std::span<const Tensor> inputs,
                                            const std::function<void(std::size_t step)>& observe) {
  memory_.take_inputs(inputs);
  starter_.record([&] { recorder_.start_inputs(true); })->start();
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    run_checkpoint();
    if (std::holds_alternative<HostStep>(plan_.steps[n].work))
      run_on_host(n);
    else
      starter_.record([&] { starter_.start(plan_.steps[n], choices_[n], 0); })->start();
    memory_.read_flag();
    driver_->synchronize();
    memory_.check_positions();
    observe(n);
  }
  starter_.record([&] { recorder_.start_outputs(true); })->start();
  driver_->synchronize();
  return memory_.give_outputs();
}

std::vector<std::byte> Execution::read_back(int buffer) {
  std::vector<std::byte> bytes(plan_.buffers[static_cast<std::size_t>(buffer)].bytes);
  if (!bytes.empty()) driver_->copy_out(bytes.data(), memory_.address(buffer), bytes.size());
  driver_->synchronize();
  return bytes;
}

}  // namespace rewright::cuda
