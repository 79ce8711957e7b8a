#include "runtime/cuda/running/execution.h"

#include <algorithm>
#include <cstring>

#include "operators/readings/interpreter.h"
#include "runtime/cuda/planning/layout.h"
#include "runtime/cuda/running/kernel_cache.h"
#include "runtime/endable_run.h"

namespace rewright::cuda {

namespace {

constexpr int kRepeats = 8;  // of what is measured, in one recording
constexpr int kProfileRuns = 20;
// Times the rounding of plain sums: of convolutions, which may be computed by transforms; of factors with 10 bits of fraction
// in place of 23.
constexpr double kRoundingOfTransforms = 32, kRoundingOfTf32 = 8192;

std::size_t aligned(std::size_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

}  // namespace

// ---- Memory
DeviceMemory::DeviceMemory(std::shared_ptr<Driver> driver, Kind kind, std::size_t bytes)
    : driver_(std::move(driver)), kind_(kind) {
  if (bytes == 0) return;
  data_ = kind == Kind::kDevice ? driver_->allocate(bytes) : driver_->allocate_pinned(bytes);
}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  kind_ == Kind::kDevice ? driver_->release(data_) : driver_->release_pinned(data_);
}

std::shared_ptr<DeviceMemory> ConstantStore::place(const Tensor& tensor, bool channels_last) {
  Place& place = places_[{tensor.bytes().data(), channels_last}];
  if (auto memory = place.memory.lock()) return memory;
  place.tensor = tensor;
  auto memory = std::make_shared<DeviceMemory>(driver_, DeviceMemory::Kind::kDevice, tensor.byte_count());
  if (tensor.byte_count() > 0 && channels_last) {
    const std::vector<std::byte> bytes = bytes_channels_last(tensor);
    driver_->copy_in(memory->data(), bytes.data(), bytes.size());
    driver_->synchronize();  // the bytes are read until then
  } else if (tensor.byte_count() > 0) {
    driver_->copy_in(memory->data(), tensor.bytes().data(), tensor.byte_count());
  }
  place.memory = memory;
  return memory;
}

Execution::Execution(std::shared_ptr<Driver> driver, Plan plan, ConstantStore& constants, const CudaOptions& options,
                     Residents residents)
    : driver_(std::move(driver)),
      plan_(std::move(plan)),
      residents_(std::move(residents)),
      addresses_(plan_.buffers.size()),
      precision_(options.precision) {
  workspaces_.resize(1), workspace_bytes_.resize(1);
  using Kind = DeviceMemory::Kind;
  const auto memory = [&](Kind kind, std::size_t bytes) { return std::make_unique<DeviceMemory>(driver_, kind, bytes); };
  const auto place = [](const std::vector<TensorType>& types, const std::vector<int>& places,
                        std::vector<std::size_t>& offsets) {
    std::size_t bytes = 0;
    for (std::size_t n = 0; n < types.size(); ++n) {
      offsets.push_back(bytes);
      if (places[n] < 0)
        bytes += aligned(static_cast<std::size_t>(element_count(values(types[n].shape))) * byte_size(types[n].type));
    }
    return bytes;
  };
  input_bytes_ = place(plan_.input_types, plan_.input_places, input_offsets_);
  output_bytes_ = place(plan_.output_types, plan_.output_places, output_offsets_);
  arena_ = memory(Kind::kDevice, plan_.arena_bytes);
  inputs_ = memory(Kind::kDevice, input_bytes_);
  pinned_inputs_ = memory(Kind::kPinned, input_bytes_);
  pinned_outputs_ = memory(Kind::kPinned, output_bytes_);
  if (plan_.checks_positions) {
    flag_ = memory(Kind::kDevice, sizeof(int));
    pinned_flag_ = memory(Kind::kPinned, 2 * sizeof(int));  // what is written before, and what is read after
    std::memset(pinned_flag_->data(), 0, 2 * sizeof(int));
  }
  for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    switch (buffer.kind) {
      case Buffer::Kind::kArena:
        addresses_[b] = arena_->data() + buffer.offset;
        break;
      case Buffer::Kind::kInput:
        addresses_[b] = inputs_->data() + input_offsets_[static_cast<std::size_t>(buffer.number)];
        break;
      case Buffer::Kind::kConstant:
        constants_.push_back(constants.place(buffer.constant, buffer.channels_last));
        addresses_[b] = constants_.back()->data();
        break;
      case Buffer::Kind::kResident:
        addresses_[b] = residents_.memory.at(static_cast<std::size_t>(buffer.number));
        break;
      case Buffer::Kind::kWorkspace:
        break;  // depends on the stream
    }
  }
  load_kernels(options);
  choose(options);
  choose_streams(options);
  parts_ = record(true);
}

std::byte* Execution::address(int number, std::size_t stream) const {
  if (number < 0) return nullptr;
  const Buffer& buffer = plan_.buffers[static_cast<std::size_t>(number)];
  if (buffer.kind == Buffer::Kind::kWorkspace) return workspaces_[stream]->data() + buffer.offset;
  return addresses_[static_cast<std::size_t>(number)];
}

// ---- What runs
void Execution::load_kernels(const CudaOptions& options) {
  for (const bool in_double : {false, true}) {
    std::vector<const GeneratedKernel*> kernels;
    for (const GeneratedKernel& k : plan_.kernels)
      if (k.in_double == in_double && k.launch.blocks > 0) kernels.push_back(&k);
    if (kernels.empty()) continue;
    modules_[in_double] = driver_->load(compiled(*driver_, kernel_file(kernels), options.cache));
  }
}

void Execution::choose_streams(const CudaOptions& options) {
  if (plan_.streams == 1) return;  // always so where the host executes a node
  if (options.in_streams) {
    in_streams_ = *options.in_streams;
    return;
  }
  const double alone = measure(kChoosingRuns);
  in_streams_ = true;
  in_streams_ = measure(kChoosingRuns) < alone;
}

// Steps in the streams of the plan, which begin behind what stream 0 has got and end in it.
void Execution::start_steps(std::size_t begin, std::size_t end) {
  if (!in_streams_) {
    for (std::size_t n = begin; n < end; ++n) start(n);
    return;
  }
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

void Execution::start_kernel(const Step& step, std::size_t number, std::size_t stream) {
  const GeneratedKernel& kernel = plan_.kernels[number];
  if (kernel.launch.blocks == 0) return;
  std::vector<void*> arguments;
  for (const int b : step.inputs) arguments.push_back(address(b, stream));
  arguments.push_back(address(step.outputs[0], stream));
  if (kernel.checks_positions) arguments.push_back(flag_->data());
  modules_[kernel.in_double]->start(kernel.name, kernel.launch.blocks, kernel.launch.threads, arguments);
}

void Execution::start_operation(const Step& step, Operation& operation, std::size_t stream) {
  const auto& library = std::get<LibraryStep>(step.work);
  const auto size = static_cast<std::int64_t>(byte_size(element_type(library.shape)));
  std::vector<const std::byte*> inputs(step.inputs.size());
  const auto begin = [&](const LibraryStep::Start& at) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = address(step.inputs[i], stream) + (i < at.inputs.size() ? at.inputs[i] : 0) * size;
    operation.start(inputs, address(step.outputs[0], stream) + at.output * size,
                    workspaces_[stream]->data() + library.workspace);
  };
  if (library.starts.empty()) begin({});
  for (const LibraryStep::Start& at : library.starts) begin(at);
}

void Execution::start(std::size_t n) {
  start(plan_.steps[n], choices_[n], in_streams_ ? static_cast<std::size_t>(plan_.steps[n].stream) : 0);
}

void Execution::start(const Step& step, const Choice& choice, std::size_t stream) {
  if (const auto* kernel = std::get_if<KernelStep>(&step.work)) return start_kernel(step, kernel->kernel, stream);
  if (choice.operation) return start_operation(step, *choice.operation, stream);
  const EitherStep::Way& way = std::get<EitherStep>(step.work).ways[choice.way];
  for (std::size_t n = 0; n < way.steps.size(); ++n) start(way.steps[n], choice.steps[n], stream);
}

// Stretches of steps between those that the host executes, and up to where outputs are announced, are recorded as one; copies
// of inputs and outputs are part of the first and of the last.
std::vector<Execution::Part> Execution::record(bool with_copies) {
  std::vector<Part> parts;
  std::size_t group = 0;
  for (std::size_t begin = 0;;) {
    const std::size_t end = end_of_stretch(begin);
    parts.emplace_back(recorded([&] { start_stretch(begin, end, with_copies); }));
    for (; group < plan_.announced_after.size() && plan_.announced_after[group] <= end; ++group)
      parts.emplace_back(Announcement{group});
    if (end == plan_.steps.size()) return parts;
    const bool on_host = std::holds_alternative<HostStep>(plan_.steps[end].work);
    if (on_host) parts.emplace_back(end);
    begin = end + (on_host ? 1 : 0);
  }
}

std::size_t Execution::end_of_stretch(std::size_t begin) const {
  for (std::size_t end = begin; end < plan_.steps.size(); ++end) {
    const bool announced =
        std::find(plan_.announced_after.begin(), plan_.announced_after.end(), end) != plan_.announced_after.end();
    if (std::holds_alternative<HostStep>(plan_.steps[end].work) || (end > begin && announced)) return end;
  }
  return plan_.steps.size();
}

void Execution::start_stretch(std::size_t begin, std::size_t end, bool with_copies) {
  if (begin == 0) start_inputs(with_copies);
  start_steps(begin, end);
  if (end == plan_.steps.size()) start_outputs(with_copies);
}

void Execution::start_inputs(bool with_copies) {
  if (with_copies && input_bytes_ > 0) driver_->copy_in(inputs_->data(), pinned_inputs_->data(), input_bytes_);
  if (flag_) driver_->copy_in(flag_->data(), pinned_flag_->data(), sizeof(int));
}

void Execution::start_outputs(bool with_copies) {
  for (const Plan::Move& move : plan_.moves)
    if (const auto bytes = plan_.buffers[static_cast<std::size_t>(move.buffer)].bytes; bytes > 0)
      driver_->copy(residents_.memory.at(static_cast<std::size_t>(move.place)), address(move.buffer), bytes);
  for (std::size_t o = 0; with_copies && o < plan_.outputs.size(); ++o) {
    const auto bytes = plan_.buffers[static_cast<std::size_t>(plan_.outputs[o])].bytes;
    if (bytes > 0 && plan_.output_places[o] < 0)
      driver_->copy_out(pinned_outputs_->data() + output_offsets_[o], address(plan_.outputs[o]), bytes);
  }
  if (flag_) driver_->copy_out(pinned_flag_->data() + sizeof(int), flag_->data(), sizeof(int));
}

// It can be ended where the device waits for the host.
void Execution::run(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    if (const auto* recording = std::get_if<std::unique_ptr<Recording>>(&part)) {
      (*recording)->start();
    } else if (const auto* known = std::get_if<Announcement>(&part)) {
      residents_.announce(known->group);
    } else {
      run_on_host(std::get<std::size_t>(part));
      run_checkpoint();
    }
  }
}

// When the device is done.
void Execution::check_positions() const {
  if (!flag_) return;
  int outside = 0;
  std::memcpy(&outside, pinned_flag_->data() + sizeof(int), sizeof(int));
  if (outside != 0) throw Error(ErrorCode::kBadInput, "an index that the model computes is outside of what it indexes");
}

void Execution::run_on_host(std::size_t n) {
  const Step& step = plan_.steps[n];
  const auto& work = std::get<HostStep>(step.work);
  std::vector<Tensor> inputs(step.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (step.inputs[i] < 0) continue;
    inputs[i] = Tensor(work.types[i].type, values(work.types[i].shape));
    if (inputs[i].byte_count() > 0)
      driver_->copy_out(inputs[i].mutable_bytes().data(), address(step.inputs[i]), inputs[i].byte_count());
  }
  driver_->synchronize();
  const std::vector<Tensor> outputs = interpret(*work.node->op, work.node->attributes, inputs);
  for (std::size_t o = 0; o < step.outputs.size(); ++o)
    if (step.outputs[o] >= 0 && outputs.at(o).byte_count() > 0)
      driver_->copy_in(address(step.outputs[o]), outputs[o].bytes().data(), outputs[o].byte_count());
  driver_->synchronize();  // the results' bytes are read until then
}

void Execution::take_inputs(std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (plan_.input_places[i] < 0 && inputs[i].byte_count() > 0)
      std::memcpy(pinned_inputs_->data() + input_offsets_[i], inputs[i].bytes().data(), inputs[i].byte_count());
}

std::vector<Tensor> Execution::run(std::span<const Tensor> inputs) {
  take_inputs(inputs);
  run_checkpoint();
  run(parts_);
  driver_->synchronize();
  check_positions();
  return give_outputs();
}

std::vector<Tensor> Execution::give_outputs() const {
  std::vector<Tensor> outputs;
  for (std::size_t o = 0; o < plan_.outputs.size(); ++o) {
    if (plan_.output_places[o] >= 0) {
      outputs.emplace_back();
      continue;
    }
    Tensor t(plan_.output_types[o].type, values(plan_.output_types[o].shape));
    if (t.byte_count() > 0) std::memcpy(t.mutable_bytes().data(), pinned_outputs_->data() + output_offsets_[o], t.byte_count());
    outputs.push_back(std::move(t));
  }
  return outputs;
}

// ---- Step by step
std::vector<Tensor> Execution::run_observed(std::span<const Tensor> inputs,
                                            const std::function<void(std::size_t step)>& observe) {
  take_inputs(inputs);
  recorded([&] { start_inputs(true); })->start();
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    run_checkpoint();
    if (std::holds_alternative<HostStep>(plan_.steps[n].work))
      run_on_host(n);
    else
      recorded([&] { start(plan_.steps[n], choices_[n], 0); })->start();
    if (flag_) driver_->copy_out(pinned_flag_->data() + sizeof(int), flag_->data(), sizeof(int));
    driver_->synchronize();
    check_positions();
    observe(n);
  }
  recorded([&] { start_outputs(true); })->start();
  driver_->synchronize();
  return give_outputs();
}

std::vector<std::byte> Execution::read_back(int buffer) {
  std::vector<std::byte> bytes(plan_.buffers[static_cast<std::size_t>(buffer)].bytes);
  if (!bytes.empty()) driver_->copy_out(bytes.data(), address(buffer), bytes.size());
  driver_->synchronize();
  return bytes;
}

std::pair<const LibraryStep*, const Operation*> Execution::operation_of(const Step& step, const Choice& choice) {
  if (choice.operation) return {&std::get<LibraryStep>(step.work), choice.operation.get()};
  const auto* const either = std::get_if<EitherStep>(&step.work);
  for (std::size_t n = 0; n < choice.steps.size(); ++n)
    if (const auto found = operation_of(either->ways[choice.way].steps[n], choice.steps[n]); found.first != nullptr)
      return found;
  return {};
}

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

// ---- Measuring
void Execution::require_device() const {
  for (const Step& step : plan_.steps)
    if (std::holds_alternative<HostStep>(step.work))
      throw Error(ErrorCode::kUnsupported, "a node that the host executes has no time on the device", step.node);
}

double Execution::measure(int runs) {
  require_device();
  return measured([&] { start_steps(0, plan_.steps.size()); }, runs);
}

double Execution::measure_work(int runs) {
  require_device();
  return measured(
      [&] {
        for (std::size_t n = 0; n < plan_.steps.size(); ++n)
          if (!plan_.steps[n].layout) start(n);
      },
      runs);
}

double Execution::measure_step(std::size_t step) {
  if (std::holds_alternative<HostStep>(plan_.steps[step].work)) return 0;
  return measured([&] { start(plan_.steps[step], choices_[step], 0); }, kProfileRuns);
}

std::vector<StepProfile> Execution::profile(int runs) {
  std::vector<StepProfile> result;
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    const Step& step = plan_.steps[n];
    result.push_back({step.node, step.operators, measure_step(n) * runs, runs, step.flops, step.bytes});
  }
  return result;
}

std::unique_ptr<Recording> Execution::recorded(const std::function<void()>& work) {
  driver_->begin_recording();
  try {
    work();
    return driver_->end_recording();
  } catch (...) {
    driver_->abandon_recording();
    throw;
  }
}

// Several times in one recording, so that starting the recording hardly counts.
double Execution::measured(const std::function<void()>& work, int runs) {
  const auto recording = recorded([&] {
    for (int n = 0; n < kRepeats; ++n) work();
  });
  return driver_->measure(*recording, runs) / kRepeats;
}

// ---- Which plan
namespace {

// Are there convolutions that tensor cores compute?
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
  const auto planned = [&](bool channels_last) {
    return make_plan(graph, {.channels_last = channels_last, .places = residents.places, .instead = instead});
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
    return first;  // there may be memory for one alone
  }
}

}  // namespace rewright::cuda
