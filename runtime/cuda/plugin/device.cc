#include "runtime/cuda/plugin/device.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "runtime/cuda/plugin/check.h"
#include "runtime/cuda/plugin/compile.h"
#include "runtime/cuda/plugin/graph_operation.h"
#include "runtime/cuda/plugin/product.h"

namespace rewright::cuda {

namespace {

std::string version_text(int version, int thousand) {
  return std::to_string(version / thousand) + "." + std::to_string(version % thousand / (thousand / 100));
}

class LoadedModule final : public Module {
 public:
  LoadedModule(const Device& device, const std::string& binary) : device_(device) {
    check(cudaLibraryLoadData(&library_, binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "kernels");
  }
  ~LoadedModule() override { cudaLibraryUnload(library_); }
  void start(const std::string& kernel, unsigned blocks, unsigned threads, std::span<void* const> arguments) override {
    cudaKernel_t& found = kernels_[kernel];
    if (found == nullptr) check(cudaLibraryGetKernel(&found, library_, kernel.c_str()), "a kernel");
    std::vector<void*> values(arguments.begin(), arguments.end()), addresses;
    for (void*& v : values) addresses.push_back(&v);
    check(cudaLaunchKernel(static_cast<const void*>(found), dim3(blocks), dim3(threads), addresses.data(), 0, device_.stream()),
          "starting a kernel");
  }

 private:
  const Device& device_;
  cudaLibrary_t library_ = nullptr;
  std::map<std::string, cudaKernel_t> kernels_;
};

class GraphRecording final : public Recording {
 public:
  GraphRecording(cudaStream_t stream, cudaGraph_t graph) : stream_(stream), graph_(graph) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph_, 0);
    if (status != cudaSuccess) cudaGraphDestroy(graph_);  // no destructor runs after the throw
    check(status, "a CUDA graph");
  }
  ~GraphRecording() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  void start() override { check(cudaGraphLaunch(executable_, stream_), "a CUDA graph"); }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

Device::Device(int number) : number_(number) {
  int count = -1;
  const cudaError_t status = cudaGetDeviceCount(&count);  // a failure leaves the number unset
  if (status == cudaErrorInsufficientDriver)
    throw Error(ErrorCode::kMissing, "the NVIDIA driver is missing, or too old for CUDA " + version_text(CUDART_VERSION, 1000));
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count < 1)) throw Error(ErrorCode::kMissing, "there is no GPU");
  check(status, "looking for GPUs");
  if (number >= count)
    throw Error(ErrorCode::kMissing,
                "there is no GPU " + std::to_string(number) + ", the last one is " + std::to_string(count - 1));
  const InUse in_use(*this);
  check(cudaSetDevice(number), "choosing a GPU");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "the GPU's properties");
  name_ = properties.name;
  architecture_ = 10 * properties.major + properties.minor;
  processors_ = properties.multiProcessorCount;
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  streams_ = {stream_};
  check(cudaEventCreate(&start_), "an event");
  check(cudaEventCreate(&end_), "an event");
  check(cublasLtCreate(&blas_), "cublasLtCreate");
  check(cudnnCreate(&dnn_), "cudnnCreate");
  check(cudnnSetStream(dnn_, stream_), "cudnnSetStream");
}

Device::~Device() {
  const InUse in_use(*this);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (blas_ != nullptr) cublasLtDestroy(blas_);
  if (start_ != nullptr) cudaEventDestroy(start_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  for (const auto& [number, event] : marks_) cudaEventDestroy(event);
  for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

int Device::enter() noexcept {
  int before = 0;
  cudaGetDevice(&before);
  cudaSetDevice(number_);
  return before;
}
void Device::leave(int before) noexcept {
  if (before != number_) cudaSetDevice(before);
}

std::string Device::library_versions() const {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return "driver for CUDA " + version_text(driver, 1000) + ", CUDA " + version_text(runtime, 1000) + ", cuBLASLt " +
         std::to_string(cublasLtGetVersion()) + ", cuDNN " + std::to_string(cudnnGetVersion()) + ", " + compiler_version();
}

// ---- Memory
std::byte* Device::allocate(std::size_t bytes) {
  // cuDNN's wgrad_alg1_nd_float_engine reads up to 64 bytes behind an input (compute-sanitizer, cuDNN 9.19).
  constexpr std::size_t kReadBehind = 256;
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes + kReadBehind), "memory of the GPU");
  return static_cast<std::byte*>(memory);
}
void Device::release(std::byte* memory) noexcept {
  cudaStreamSynchronize(stream_);
  cudaFree(memory);
}
std::byte* Device::allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "pinned memory");
  return static_cast<std::byte*>(memory);
}
void Device::release_pinned(std::byte* memory) noexcept {
  cudaStreamSynchronize(stream_);
  cudaFreeHost(memory);
}
void Device::copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "a copy to the GPU");
}
void Device::copy_out(std::byte* host, const std::byte* device, std::size_t bytes) {
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_), "a copy from the GPU");
}
void Device::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "a copy on the GPU");
}
void Device::synchronize() { check(cudaStreamSynchronize(stream_), "waiting for the GPU"); }
void Device::wait_for_default_stream() {
  check(cudaEventRecord(start_, cudaStreamLegacy), "marking the default stream");
  check(cudaStreamWaitEvent(stream_, start_, 0), "waiting for the default stream");
}

// ---- Work
std::string Device::compile(const std::string& source) { return compile_for(source, architecture_); }
std::unique_ptr<Module> Device::load(const std::string& binary) { return std::make_unique<LoadedModule>(*this, binary); }

std::unique_ptr<Operation> Device::operation(const LibraryShape& shape, Precision precision, const std::string& choice) {
  if (const auto* product = std::get_if<ProductShape>(&shape)) return make_product(*this, *product, precision, choice);
  // Tensor cores do not round factors of half and bfloat16.
  const bool multiplies = std::holds_alternative<ConvolutionShape>(shape);
  EngineLimits limits;
  limits.may_round = !multiplies || element_type(shape) != DataType::kFloat || precision == Precision::kTf32;
  // cuDNN compiles kernels for rows for 5 s in each process (H200, cuDNN 9.19), far more than a model's normalizations take.
  limits.may_compile = !std::holds_alternative<NormalizationShape>(shape);
  try {
    auto graph = std::visit(
        [](const auto& s) -> std::shared_ptr<const OperationGraph> {
          if constexpr (std::is_same_v<std::decay_t<decltype(s)>, ProductShape>)
            return nullptr;
          else
            return std::make_shared<const OperationGraph>(operation_graph(s));
        },
        shape);
    return make_graph_operation(*this, std::move(graph), limits, choice);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    return nullptr;  // cuDNN lacks the operation
  }
}

void Device::begin_recording() { check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording"); }

std::unique_ptr<Recording> Device::end_recording() {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_, &graph), "recording");
  return std::make_unique<GraphRecording>(stream_, graph);
}

void Device::abandon_recording() noexcept {
  stream_ = streams_[0];
  cudnnSetStream(dnn_, stream_);
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // clears a failure that was already reported
}

// ---- Streams
void Device::use_stream(int stream) {
  while (streams_.size() <= static_cast<std::size_t>(stream)) {
    cudaStream_t another = nullptr;
    check(cudaStreamCreateWithFlags(&another, cudaStreamNonBlocking), "a stream");
    streams_.push_back(another);
  }
  stream_ = streams_[static_cast<std::size_t>(stream)];
  check(cudnnSetStream(dnn_, stream_), "cudnnSetStream");
}

void Device::mark(int number) {
  cudaEvent_t& event = marks_[number];
  if (event == nullptr) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  check(cudaEventRecord(event, stream_), "an event");
}

void Device::wait_for(int number) { check(cudaStreamWaitEvent(stream_, marks_.at(number), 0), "an event"); }

double Device::measure(Recording& recording, int runs) {
  std::vector<double> seconds;
  recording.start();
  for (int r = 0; r < std::max(runs, 1); ++r) {
    check(cudaEventRecord(start_, stream_), "an event");
    recording.start();
    check(cudaEventRecord(end_, stream_), "an event");
    check(cudaEventSynchronize(end_), "an event");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, end_), "an event");
    seconds.push_back(1e-3 * static_cast<double>(milliseconds));
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

double Device::time(const std::function<bool()>& work, int runs) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  if (!work()) return kFailed;
  double least = kFailed;
  for (int r = 0; r < runs; ++r) {
    check(cudaEventRecord(start_, stream_), "an event");
    if (!work()) return kFailed;
    check(cudaEventRecord(end_, stream_), "an event");
    check(cudaEventSynchronize(end_), "an event");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, end_), "an event");
    least = std::min(least, 1e-3 * static_cast<double>(milliseconds));
  }
  return least;
}

}  // namespace rewright::cuda

// The entry point that the program looks up. May throw.
extern "C" __attribute__((visibility("default"))) rewright::cuda::Driver* rewright_make_cuda_driver(int number) {
  return new rewright::cuda::Device(number);
}
