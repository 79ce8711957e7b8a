#include "runtime/cuda/execution.h"

#include <algorithm>
#include <cstring>

#include "operators/interpreter.h"
#include "runtime/cuda/kernel_cache.h"

namespace rewright::cuda {

namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kRepeats = 8;       // of what is measured, in one recording
constexpr int kChoosingRuns = 5;  // measurements of each of two ways

std::variant<ProductShape, ConvolutionShape> without_epilogue(std::variant<ProductShape, ConvolutionShape> shape) {
  std::visit([](auto& s) { s.bias = false, s.activation = Activation::kNone; }, shape);
  if (auto* convolution = std::get_if<ConvolutionShape>(&shape)) convolution->residual = false;
  return shape;
}

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

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

std::byte* ConstantStore::place(const Tensor& tensor) {
  auto& [kept, memory] = places_[tensor.bytes().data()];
  if (!memory) {
    kept = tensor;
    memory = std::make_unique<DeviceMemory>(driver_, DeviceMemory::Kind::kDevice, tensor.byte_count());
    if (tensor.byte_count() > 0) driver_->copy_in(memory->data(), tensor.bytes().data(), tensor.byte_count());
  }
  return memory->data();
}

Execution::Execution(std::shared_ptr<Driver> driver, Plan plan, ConstantStore& constants, const CudaOptions& options)
    : driver_(std::move(driver)), plan_(std::move(plan)), addresses_(plan_.buffers.size()), choices_(plan_.steps.size()) {
  using Kind = DeviceMemory::Kind;
  const auto memory = [&](Kind kind, std::size_t bytes) { return std::make_unique<DeviceMemory>(driver_, kind, bytes); };
  const auto place = [](const std::vector<TensorType>& types, std::vector<std::size_t>& offsets) {
    std::size_t bytes = 0;
    for (const TensorType& t : types) {
      offsets.push_back(bytes);
      bytes += aligned(static_cast<std::size_t>(element_count(values(t.shape))) * byte_size(t.type));
    }
    return bytes;
  };
  input_bytes_ = place(plan_.input_types, input_offsets_);
  output_bytes_ = place(plan_.output_types, output_offsets_);
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
        addresses_[b] = constants.place(buffer.constant);
        break;
    }
  }
  load_kernels(options);
  choose_operations(options);
  record();
}

std::byte* Execution::address(int buffer) const { return buffer < 0 ? nullptr : addresses_[static_cast<std::size_t>(buffer)]; }

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

// A library's operation with its epilogue, or without and a kernel behind it, whichever is faster.
void Execution::choose_operations(const CudaOptions& options) {
  const auto make = [&](const auto& shape) {
    if constexpr (std::is_same_v<std::decay_t<decltype(shape)>, ProductShape>)
      return driver_->product(shape, options.precision);
    else
      return driver_->convolution(shape, options.precision);
  };
  std::size_t bytes = 0;
  const auto reserve = [&](const Operation& operation) {
    if (operation.workspace_bytes() <= bytes && workspace_) return;
    bytes = std::max(bytes, operation.workspace_bytes());
    workspace_ = std::make_unique<DeviceMemory>(driver_, DeviceMemory::Kind::kDevice, bytes);
  };
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    const auto* step = std::get_if<LibraryStep>(&plan_.steps[n].work);
    if (step == nullptr) continue;
    Choice& choice = choices_[n];
    choice.operation = std::visit(make, step->shape);
    if (choice.operation) reserve(*choice.operation);
    if (!step->epilogue) continue;
    Choice other{std::visit(make, without_epilogue(step->shape)), true};
    if (!other.operation) continue;
    reserve(*other.operation);
    if (choice.operation) {
      const double together = measure_step(n, kChoosingRuns);
      std::swap(choice, other);
      if (measure_step(n, kChoosingRuns) > together) std::swap(choice, other);
    } else {
      choice = std::move(other);
    }
  }
}

void Execution::start_kernel(std::size_t number, const std::vector<int>& inputs, int output) {
  const GeneratedKernel& kernel = plan_.kernels[number];
  if (kernel.launch.blocks == 0) return;
  std::vector<void*> arguments;
  for (const int b : inputs) arguments.push_back(address(b));
  arguments.push_back(address(output));
  if (kernel.checks_positions) arguments.push_back(flag_->data());
  modules_[kernel.in_double]->start(kernel.name, kernel.launch.blocks, kernel.launch.threads, arguments);
}

void Execution::start(std::size_t n) {
  const Step& step = plan_.steps[n];
  if (const auto* kernel = std::get_if<KernelStep>(&step.work))
    return start_kernel(kernel->kernel, step.inputs, step.outputs[0]);
  const auto& library = std::get<LibraryStep>(step.work);
  const Choice& choice = choices_[n];
  if (!choice.operation) return start_kernel(library.kernel, library.kernel_inputs, step.outputs[0]);
  const std::size_t size = byte_size(std::visit([](const auto& shape) { return shape.type; }, library.shape));
  std::vector<const std::byte*> inputs(choice.epilogue_apart ? 2 : step.inputs.size());
  const auto begin = [&](const LibraryStep::Start& at) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = address(step.inputs[i]) + (i < at.inputs.size() ? at.inputs[i] : 0) * static_cast<std::int64_t>(size);
    choice.operation->start(inputs, address(step.outputs[0]) + at.output * static_cast<std::int64_t>(size), workspace_->data());
  };
  if (library.starts.empty()) begin({});
  for (const LibraryStep::Start& at : library.starts) begin(at);
  if (!choice.epilogue_apart) return;
  std::vector<int> operands{step.outputs[0]};
  operands.insert(operands.end(), step.inputs.begin() + 2, step.inputs.end());
  start_kernel(*library.epilogue, operands, step.outputs[0]);
}

// Stretches of steps between those that the host executes are recorded as one; copies of inputs and outputs are part of the
// first and of the last.
void Execution::record() {
  std::size_t next = 0;
  do {
    std::size_t end = next;
    while (end < plan_.steps.size() && !std::holds_alternative<HostStep>(plan_.steps[end].work)) ++end;
    driver_->begin_recording();
    if (next == 0 && input_bytes_ > 0) driver_->copy_in(inputs_->data(), pinned_inputs_->data(), input_bytes_);
    if (next == 0 && flag_) driver_->copy_in(flag_->data(), pinned_flag_->data(), sizeof(int));
    for (std::size_t n = next; n < end; ++n) start(n);
    if (end == plan_.steps.size()) {
      for (std::size_t o = 0; o < plan_.outputs.size(); ++o) {
        const auto bytes = plan_.buffers[static_cast<std::size_t>(plan_.outputs[o])].bytes;
        if (bytes > 0) driver_->copy_out(pinned_outputs_->data() + output_offsets_[o], address(plan_.outputs[o]), bytes);
      }
      if (flag_) driver_->copy_out(pinned_flag_->data() + sizeof(int), flag_->data(), sizeof(int));
    }
    parts_.emplace_back(driver_->end_recording());
    if (end < plan_.steps.size()) parts_.emplace_back(end);
    next = end + 1;
  } while (next <= plan_.steps.size());
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

std::vector<Tensor> Execution::run(std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].byte_count() > 0)
      std::memcpy(pinned_inputs_->data() + input_offsets_[i], inputs[i].bytes().data(), inputs[i].byte_count());
  for (const Part& part : parts_) {
    if (const auto* recording = std::get_if<std::unique_ptr<Recording>>(&part))
      (*recording)->start();
    else
      run_on_host(std::get<std::size_t>(part));
  }
  driver_->synchronize();
  if (flag_) {
    int outside = 0;
    std::memcpy(&outside, pinned_flag_->data() + sizeof(int), sizeof(int));
    if (outside != 0) throw Error(ErrorCode::kBadInput, "an index that the model computes is outside of what it indexes");
  }
  std::vector<Tensor> outputs;
  for (std::size_t o = 0; o < plan_.outputs.size(); ++o) {
    Tensor t(plan_.output_types[o].type, values(plan_.output_types[o].shape));
    if (t.byte_count() > 0) std::memcpy(t.mutable_bytes().data(), pinned_outputs_->data() + output_offsets_[o], t.byte_count());
    outputs.push_back(std::move(t));
  }
  return outputs;
}

// ---- Measuring
double Execution::measure(int runs) {
  for (const Step& step : plan_.steps)
    if (std::holds_alternative<HostStep>(step.work))
      throw Error(ErrorCode::kUnsupported, "a node that the host executes has no time on the device", step.node);
  return measured(
      [&] {
        for (std::size_t n = 0; n < plan_.steps.size(); ++n) start(n);
      },
      runs);
}

double Execution::measure_step(std::size_t step, int runs) {
  if (std::holds_alternative<HostStep>(plan_.steps[step].work)) return 0;
  return measured([&] { start(step); }, runs);
}

// Several times in one recording, so that starting the recording hardly counts.
double Execution::measured(const std::function<void()>& work, int runs) {
  driver_->begin_recording();
  for (int n = 0; n < kRepeats; ++n) work();
  return driver_->measure(*driver_->end_recording(), runs) / kRepeats;
}

}  // namespace rewright::cuda
