#include "runtime/cuda/host_driver.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>

#include "graph/temporary_folder.h"
#include "operators/interpreter.h"
#include "operators/operator.h"
#include "runtime/cuda/host_shim.h"

namespace rewright::cuda {

namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

class HostDriver;

// Kernels and operations look the same to a recording.
using Work = std::function<void()>;

class HostModule final : public Module {
 public:
  HostModule(HostDriver& driver, const std::string& binary);
  ~HostModule() override { ::dlclose(library_); }
  void start(const std::string& kernel, unsigned blocks, unsigned threads, std::span<void* const> arguments) override;

 private:
  HostDriver& driver_;
  TemporaryFolder folder_;
  void* library_ = nullptr;
};

class HostRecording final : public Recording {
 public:
  explicit HostRecording(std::vector<Work> work) : work_(std::move(work)) {}
  void start() override {
    for (const Work& w : work_) w();
  }

 private:
  std::vector<Work> work_;
};

// An operator of ours, by its denotation.
class HostOperation final : public Operation {
 public:
  using Compute = std::function<void(std::span<const std::byte* const>, std::byte*)>;
  HostOperation(HostDriver& driver, Compute compute) : driver_(driver), compute_(std::move(compute)) {}
  std::size_t workspace_bytes() const override { return 1; }
  void start(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace) override;

 private:
  HostDriver& driver_;
  Compute compute_;
};

class HostDriver final : public Driver {
 public:
  explicit HostDriver(bool libraries) : libraries_(libraries) {}
  std::string device_name() const override { return "host"; }
  std::string library_versions() const override { return "host compiler"; }
  int architecture() const override { return 0; }
  int processors() const override { return 1; }

  std::byte* allocate(std::size_t bytes) override {
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (memory == nullptr) throw Error(ErrorCode::kMissing, "out of memory");
    std::memset(memory, 0xff, bytes);  // NaN, so that what is read before it is written is seen
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) noexcept override { std::free(memory); }
  std::byte* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void release_pinned(std::byte* memory) noexcept override { std::free(memory); }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) override { copy(device, host, bytes); }
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) override { copy(host, device, bytes); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    perform([=] { std::memcpy(to, from, bytes); });
  }
  void synchronize() override {}

  std::string compile(const std::string& source) override {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "kernels.cc", library = folder.path() / "kernels.so";
    std::ofstream out(file);
    out << kHostShim << source;
    for (std::size_t at = 0; (at = source.find("extern \"C\"", at)) != std::string::npos; ++at) {
      const std::size_t begin = source.find(") ", at) + 2, end = source.find('(', begin);
      const std::size_t next = source.find("extern \"C\"", end);
      const bool together = source.substr(end, next - end).find("across<") != std::string::npos;
      out << replaced(replaced(kHostEntry, "NAME", source.substr(begin, end - begin)), "TOGETHER", together ? "true" : "false");
    }
    out.close();
    const std::string command =
        std::string(REWRIGHT_HOST_COMPILER) + " -std=c++17 -O0 -w -shared -fPIC -o " + library.string() + " " + file.string();
    if (std::system(command.c_str()) != 0)
      throw Error(ErrorCode::kUnsupported, "generated source does not compile:\n" + source);
    std::ifstream in(library, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::unique_ptr<Module> load(const std::string& binary) override { return std::make_unique<HostModule>(*this, binary); }

  std::unique_ptr<Operation> product(const ProductShape& shape, Precision) override;
  std::unique_ptr<Operation> convolution(const ConvolutionShape& shape, Precision) override;

  void begin_recording() override { recording_ = true; }
  std::unique_ptr<Recording> end_recording() override {
    recording_ = false;
    return std::make_unique<HostRecording>(std::exchange(work_, {}));
  }
  double measure(Recording& recording, int runs) override {
    for (int r = 0; r < runs; ++r) recording.start();
    return 1e-6;
  }

  void perform(Work work) {
    if (!recording_) return work();
    work_.push_back(std::move(work));
  }

 private:
  bool libraries_, recording_ = false;
  std::vector<Work> work_;
};

HostModule::HostModule(HostDriver& driver, const std::string& binary) : driver_(driver) {
  const std::filesystem::path file = folder_.path() / "kernels.so";
  std::ofstream(file, std::ios::binary) << binary;
  library_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw Error(ErrorCode::kMissing, ::dlerror());
}

void HostModule::start(const std::string& kernel, unsigned blocks, unsigned threads, std::span<void* const> arguments) {
  using Entry = void (*)(void**, unsigned, unsigned);
  const auto entry = reinterpret_cast<Entry>(::dlsym(library_, (kernel + "_on_host").c_str()));
  if (entry == nullptr) throw Error(ErrorCode::kUnsupported, "there is no kernel " + kernel);
  driver_.perform(
      [=, list = std::vector<void*>(arguments.begin(), arguments.end())]() mutable { entry(list.data(), blocks, threads); });
}

void HostOperation::start(std::span<const std::byte* const> inputs, std::byte* output, std::byte*) {
  driver_.perform([compute = compute_, list = std::vector<const std::byte*>(inputs.begin(), inputs.end()), output] {
    compute(list, output);
  });
}

Tensor copied(DataType type, const Sizes& sizes, const std::byte* bytes) {
  Tensor t(type, sizes);
  std::memcpy(t.mutable_bytes().data(), bytes, t.byte_count());
  return t;
}

double activated(Activation activation, double v) { return activation == Activation::kRelu && v < 0 ? 0 : v; }

std::unique_ptr<Operation> HostDriver::product(const ProductShape& p, Precision) {
  if (!libraries_) return nullptr;
  return std::make_unique<HostOperation>(*this, [p](std::span<const std::byte* const> inputs, std::byte* output) {
    const auto elements = [&](const std::byte* bytes, std::int64_t count) { return copied(p.type, {count}, bytes).reals(); };
    const std::int64_t a_rows = p.a_transposed ? p.k : p.m, b_rows = p.b_transposed ? p.n : p.k;
    const auto extent = [&](std::int64_t rows, std::int64_t stride, std::int64_t width, std::int64_t batch) {
      return (rows - 1) * stride + width + (p.batch - 1) * batch;
    };
    const auto a = elements(inputs[0], extent(a_rows, p.a_stride, p.a_transposed ? p.m : p.k, p.a_batch));
    const auto b = elements(inputs[1], extent(b_rows, p.b_stride, p.b_transposed ? p.k : p.n, p.b_batch));
    const auto bias = p.bias ? elements(inputs[2], p.n) : std::vector<double>(static_cast<std::size_t>(p.n));
    std::vector<double> y(static_cast<std::size_t>(extent(p.m, p.y_stride, p.n, p.y_batch)));
    for (std::int64_t i = 0; i < p.batch; ++i)
      for (std::int64_t m = 0; m < p.m; ++m)
        for (std::int64_t n = 0; n < p.n; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < p.k; ++k)
            sum += a[static_cast<std::size_t>(i * p.a_batch + (p.a_transposed ? k * p.a_stride + m : m * p.a_stride + k))] *
                   b[static_cast<std::size_t>(i * p.b_batch + (p.b_transposed ? n * p.b_stride + k : k * p.b_stride + n))];
          y[static_cast<std::size_t>(i * p.y_batch + m * p.y_stride + n)] =
              activated(p.activation, p.alpha * sum + bias[static_cast<std::size_t>(n)]);
        }
    const Tensor result = Tensor::from_reals(p.type, {static_cast<std::int64_t>(y.size())}, y);
    std::memcpy(output, result.bytes().data(), result.byte_count());
  });
}

std::unique_ptr<Operation> HostDriver::convolution(const ConvolutionShape& c, Precision) {
  if (!libraries_) return nullptr;
  return std::make_unique<HostOperation>(*this, [c](std::span<const std::byte* const> inputs, std::byte* output) {
    const Operator& op = registry().get("Conv");
    Attributes attributes = op.defaults();
    const auto set = [&](const char* name, AttributeValue value) { attributes.at(op.field(name).value()) = std::move(value); };
    set("strides", to_indices(c.strides)), set("dilations", to_indices(c.dilations));
    set("pads_begin", to_indices(c.pads_begin)), set("pads_end", to_indices(c.pads_end)), set("group", Index(c.groups));
    std::vector<Tensor> operands{copied(c.type, c.x, inputs[0]), copied(c.type, c.w, inputs[1])};
    if (c.bias) operands.push_back(copied(c.type, {c.y[1]}, inputs[2]));
    std::vector<double> y = interpret(op, attributes, operands)[0].reals();
    const std::vector<double> more = c.residual ? copied(c.type, c.y, inputs.back()).reals() : std::vector<double>(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = activated(c.activation, y[i] + more[i]);
    const Tensor result = Tensor::from_reals(c.type, c.y, y);
    std::memcpy(output, result.bytes().data(), result.byte_count());
  });
}

}  // namespace

std::shared_ptr<Driver> make_host_driver(bool libraries) { return std::make_shared<HostDriver>(libraries); }

}  // namespace rewright::cuda
