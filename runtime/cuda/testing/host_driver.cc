#include "runtime/cuda/testing/host_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "base/temporary_folder.h"
#include "operators/operator.h"
#include "operators/readings/interpreter.h"
#include "runtime/cuda/driver/activation.h"
#include "runtime/cuda/planning/layout.h"
#include "runtime/cuda/testing/host_shim.h"

namespace rewright::cuda {

namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

class HostDriver;

constexpr const char* kOnlyChoice = "the only one";

// The current device of each thread, as in CUDA.
thread_local int device_of_thread = 0;

void require_device(int device) {
  if (device_of_thread != device)
    throw Error(ErrorCode::kMissing, "device " + std::to_string(device) + " is used by a thread that is with device " +
                                         std::to_string(device_of_thread));
}

// Recordings do not distinguish kernels from operations.
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

// Runs the entries in a random order that the streams allow, different at every start, so that missing waits show.
class HostRecording final : public Recording {
 public:
  struct Entry {
    Work work;
    std::vector<std::size_t> after;  // entries to come after
    double seconds;
    std::string operation;  // empty for a kernel or a copy
  };
  HostRecording(int device, std::vector<Entry> entries) : device_(device), entries_(std::move(entries)) {}
  double seconds() const {
    return std::accumulate(entries_.begin(), entries_.end(), 0.0, [](double s, const Entry& e) { return s + e.seconds; });
  }
  void start() override {
    require_device(device_);
    std::vector<std::size_t> missing, ready;
    std::vector<std::vector<std::size_t>> next(entries_.size());
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      missing.push_back(entries_[e].after.size());
      for (const std::size_t before : entries_[e].after) next[before].push_back(e);
      if (missing[e] == 0) ready.push_back(e);
    }
    while (!ready.empty()) {
      std::swap(ready[random_() % ready.size()], ready.back());
      const std::size_t e = ready.back();
      ready.pop_back();
      entries_[e].work();
      for (const std::size_t n : next[e])
        if (--missing[n] == 0) ready.push_back(n);
    }
  }

 private:
  int device_;
  std::vector<Entry> entries_;
  std::minstd_rand random_;
};

// An operation of a library, computed on the host.
class HostOperation final : public Operation {
 public:
  using Compute = std::function<void(std::span<const std::byte* const>, std::byte*)>;
  HostOperation(HostDriver& driver, Compute compute, double seconds, std::string name)
      : driver_(driver), compute_(std::move(compute)), seconds_(seconds), name_(std::move(name)) {}
  std::string choice() const override { return kOnlyChoice; }
  std::size_t workspace_bytes() const override { return 1; }
  void start(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace) override;

 private:
  HostDriver& driver_;
  Compute compute_;
  double seconds_;
  std::string name_;
};

class HostDriver final : public Driver {
 public:
  HostDriver(const HostDriverOptions& options, std::shared_ptr<HostDriverReport> report)
      : options_(options), report_(report ? std::move(report) : std::make_shared<HostDriverReport>()) {}
  std::string device_name() const override { return "host"; }
  std::string library_versions() const override { return "host compiler"; }
  int architecture() const override { return 0; }
  int processors() const override { return 1; }

  std::byte* allocate(std::size_t bytes) override {
    require_device(options_.device);
    if (report_->allocated + bytes > options_.memory) throw Error(ErrorCode::kMissing, "the device is out of memory");
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (memory == nullptr) throw Error(ErrorCode::kMissing, "out of memory");
    std::memset(memory, 0xff, bytes);  // NaN, so that reads of unwritten memory show
    report_->allocated += bytes;
    sizes_[static_cast<std::byte*>(memory)] = bytes;
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) noexcept override {
    report_->freed_elsewhere += device_of_thread != options_.device;
    report_->allocated -= sizes_.at(memory);
    sizes_.erase(memory);
    std::free(memory);
  }
  std::byte* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void release_pinned(std::byte* memory) noexcept override { release(memory); }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) override { copy_by_host(device, host, bytes); }
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) override { copy_by_host(host, device, bytes); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    perform([=, report = report_.get()] {
      std::memcpy(to, from, bytes);
      report->copied += bytes;
    });
  }
  void synchronize() override { check_there(); }
  void wait_for_default_stream() override { check_there(); }
  void* stream_handle() const override { return nullptr; }

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
    // Compiled inside its folder, and linked separately, so that a compiler cache recognizes it.
    const std::string command = "cd " + folder.path().string() +
                                " && " REWRIGHT_HOST_COMPILER
                                " -std=c++17 -O0 -w -fPIC -c -o kernels.o kernels.cc"
                                " && " REWRIGHT_HOST_LINKER " -shared -o kernels.so kernels.o";
    if (std::system(command.c_str()) != 0)
      throw Error(ErrorCode::kUnsupported, "generated source does not compile:\n" + source);
    std::ifstream in(library, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::unique_ptr<Module> load(const std::string& binary) override { return std::make_unique<HostModule>(*this, binary); }

  std::unique_ptr<Operation> operation(const LibraryShape& shape, Precision, const std::string& choice) override;

  void begin_recording() override {
    recording_ = true;
    begun_.assign(1, {});
  }
  std::unique_ptr<Recording> end_recording() override {
    if (stream_ != 0) throw Error(ErrorCode::kMissing, "a recording ends in another stream than it began in");
    for (std::size_t s = 1; s < begun_.size(); ++s)
      for (const std::size_t e : begun_[s])
        if (!reaches_end(e)) throw Error(ErrorCode::kMissing, "a stream is not joined");
    recording_ = false;
    marks_.clear();
    report_->recorded_last.clear();
    for (const HostRecording::Entry& e : entries_)
      if (!e.operation.empty()) report_->recorded_last.insert(e.operation);
    return std::make_unique<HostRecording>(options_.device, std::exchange(entries_, {}));
  }
  void abandon_recording() noexcept override {
    recording_ = false;
    stream_ = 0;
    entries_.clear();
    marks_.clear();
  }
  void use_stream(int stream) override {
    stream_ = static_cast<std::size_t>(stream);
    if (begun_.size() <= stream_) begun_.resize(stream_ + 1);
  }
  void mark(int number) override { marks_[number] = begun_[stream_]; }
  void wait_for(int number) override {
    for (const std::size_t e : marks_.at(number))
      if (std::find(begun_[stream_].begin(), begun_[stream_].end(), e) == begun_[stream_].end()) begun_[stream_].push_back(e);
  }
  // Times come from the options, not from the host's clock.
  double measure(Recording& recording, int) override { return static_cast<HostRecording&>(recording).seconds(); }

  // After the device is lost, everything fails.
  void check_there() {
    require_device(options_.device);
    if (options_.lost_after >= 0 && started_++ >= options_.lost_after) throw Error(ErrorCode::kMissing, "the device is lost");
  }

  bool starts_operations() const { return options_.start_operations; }
  bool serves(const std::string& choice) {
    if (!options_.libraries || (!choice.empty() && choice != kOnlyChoice)) return false;
    report_->measured += choice.empty();
    return true;
  }

  void perform(Work work, double seconds = 1, const std::string& operation = {}) {
    check_there();
    if (!recording_) return work();
    entries_.push_back({std::move(work), begun_[stream_], seconds, operation});
    begun_[stream_] = {entries_.size() - 1};
  }

 private:
  int enter() noexcept override { return std::exchange(device_of_thread, options_.device); }
  void leave(int before) noexcept override { device_of_thread = before; }

  void copy_by_host(std::byte* to, const std::byte* from, std::size_t bytes) {
    perform([=, report = report_.get()] {
      std::memcpy(to, from, bytes);
      report->through_host += bytes;
    });
  }

  // Is this entry ordered before later work in stream 0?
  bool reaches_end(std::size_t entry) const {
    std::vector<std::size_t> before = begun_[0];
    for (std::size_t n = 0; n < before.size(); ++n) {
      if (before[n] == entry) return true;
      for (const std::size_t e : entries_[before[n]].after)
        if (std::find(before.begin(), before.end(), e) == before.end()) before.push_back(e);
    }
    return false;
  }

  HostDriverOptions options_;
  std::shared_ptr<HostDriverReport> report_;
  std::map<std::byte*, std::size_t> sizes_;  // of allocations, in bytes
  long started_ = 0;
  bool recording_ = false;
  std::vector<HostRecording::Entry> entries_;
  std::size_t stream_ = 0;
  std::vector<std::vector<std::size_t>> begun_;  // by stream: predecessors of its next entry
  std::map<int, std::vector<std::size_t>> marks_;
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
  if (!driver_.starts_operations()) throw Error(ErrorCode::kUnsupported, "this library starts nothing");
  driver_.perform([compute = compute_, list = std::vector<const std::byte*>(inputs.begin(), inputs.end()),
                   output] { compute(list, output); },
                  seconds_, name_);
}

Tensor copied(DataType type, const Sizes& sizes, const std::byte* bytes) {
  Tensor t(type, sizes);
  std::memcpy(t.mutable_bytes().data(), bytes, t.byte_count());
  return t;
}

std::vector<double> activated(const std::vector<double>& x, Activation activation, double low, double high) {
  if (activation == Activation::kNone) return x;
  const ActivationNode node = activation_node(activation, low, high);
  std::vector<Tensor> inputs{Tensor::from_reals(DataType::kDouble, {static_cast<std::int64_t>(x.size())}, x)};
  for (const double b : node.bounds) inputs.push_back(Tensor::from_reals(DataType::kDouble, {}, std::vector<double>{b}));
  return interpret(*node.op, node.attributes, inputs)[0].reals();
}

// The tensor with its axes in this order.
Tensor transposed(const Tensor& tensor, const std::vector<std::int64_t>& order) {
  const Operator& op = registry().get("Transpose");
  Attributes attributes = op.defaults();
  attributes.at(op.field("perm").value()) = to_indices(order);
  return interpret(op, attributes, std::vector<Tensor>{tensor})[0];
}
Tensor channels_first(const Tensor& tensor) {
  std::vector<std::int64_t> order{0, static_cast<std::int64_t>(tensor.sizes().size()) - 1};
  while (order.size() < tensor.sizes().size()) order.push_back(static_cast<std::int64_t>(order.size()) - 1);
  return transposed(tensor, order);
}

// Library operations as plain loops.
using Inputs = std::span<const std::byte* const>;

void compute(const ProductShape& p, Inputs inputs, std::byte* output) {
  const auto elements = [&](const std::byte* bytes, std::int64_t count, DataType type = DataType::kUndefined) {
    return copied(type == DataType::kUndefined ? p.type : type, {count}, bytes).reals();
  };
  const std::int64_t a_rows = p.a_transposed ? p.k : p.m, b_rows = p.b_transposed ? p.n : p.k;
  const auto extent = [&](std::int64_t rows, std::int64_t stride, std::int64_t width, std::int64_t batch) {
    return (rows - 1) * stride + width + (p.batch - 1) * batch;
  };
  const auto a = elements(inputs[0], extent(a_rows, p.a_stride, p.a_transposed ? p.m : p.k, p.a_batch), p.a_type);
  const auto b = elements(inputs[1], extent(b_rows, p.b_stride, p.b_transposed ? p.k : p.n, p.b_batch), p.b_type);
  const auto bias = p.bias ? elements(inputs[2], p.n) : std::vector<double>(static_cast<std::size_t>(p.n));
  std::vector<double> y(static_cast<std::size_t>(extent(p.m, p.y_stride, p.n, p.y_batch)));
  for (std::int64_t i = 0; i < p.batch; ++i)
    for (std::int64_t m = 0; m < p.m; ++m)
      for (std::int64_t n = 0; n < p.n; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k)
          sum += a[static_cast<std::size_t>(i * p.a_batch + (p.a_transposed ? k * p.a_stride + m : m * p.a_stride + k))] *
                 b[static_cast<std::size_t>(i * p.b_batch + (p.b_transposed ? n * p.b_stride + k : k * p.b_stride + n))];
        y[static_cast<std::size_t>(i * p.y_batch + m * p.y_stride + n)] = p.alpha * sum + bias[static_cast<std::size_t>(n)];
      }
  y = activated(y, p.activation, 0, 0);
  const Tensor result = Tensor::from_reals(p.type, {static_cast<std::int64_t>(y.size())}, y);
  std::memcpy(output, result.bytes().data(), result.byte_count());
}

Tensor read(const Sizes& sizes, DataType type, bool last, const std::byte* bytes) {
  return last ? channels_first(copied(type, channels_last(sizes), bytes)) : copied(type, sizes, bytes);
}

void write(const Tensor& result, bool last, std::byte* output) {
  std::vector<std::int64_t> order(result.sizes().size());
  std::iota(order.begin(), order.end(), 0);
  const Tensor moved = last ? transposed(result, channels_last(order)) : result;
  std::memcpy(output, moved.bytes().data(), moved.byte_count());
}

void compute(const ConvolutionShape& c, Inputs inputs, std::byte* output) {
  using enum ConvolutionPass;
  const Operator& op = registry().get(c.pass == kForward        ? "Conv"
                                      : c.pass == kBackwardData ? "ConvTranspose"
                                                                : "ConvWeightGradient");
  Attributes attributes = op.defaults();
  const auto set = [&](const char* name, AttributeValue value) { attributes.at(op.field(name).value()) = std::move(value); };
  set("strides", to_indices(c.strides)), set("dilations", to_indices(c.dilations));
  set("pads_begin", to_indices(c.pads_begin)), set("group", Index(c.groups));
  if (c.pass != kBackwardFilter) set("pads_end", to_indices(c.pads_end));
  if (c.pass == kBackwardFilter) set("kernel", to_indices(Sizes(c.w.begin() + 2, c.w.end())));
  if (c.pass == kBackwardData) {
    Sizes rest;  // positions at the end that no window reaches
    for (std::size_t a = 0; a < c.strides.size(); ++a)
      rest.push_back(c.x[a + 2] + c.pads_begin[a] + c.pads_end[a] - c.strides[a] * (c.y[a + 2] - 1) -
                     c.dilations[a] * (c.w[a + 2] - 1) - 1);
    set("output_padding", to_indices(rest));
  }
  const auto image = [&](const Sizes& sizes, const std::byte* bytes) { return read(sizes, c.type, c.channels_last, bytes); };
  std::vector<Tensor> operands{image(c.pass == kBackwardData ? c.y : c.x, inputs[0]),
                               image(c.pass == kBackwardFilter ? c.y : c.w, inputs[1])};
  if (c.bias) operands.push_back(copied(c.type, {c.result()[1]}, inputs[2]));
  std::vector<double> y = interpret(op, attributes, operands)[0].reals();
  if (c.residual) {
    const std::vector<double> more = image(c.result(), inputs.back()).reals();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += more[i];
  }
  write(Tensor::from_reals(c.type, c.result(), activated(y, c.activation, c.low, c.high)), c.channels_last, output);
}

void compute(const AttentionShape& a, Inputs inputs, std::byte* output) {
  const auto element = [](DataType type, const std::byte* bytes, std::int64_t at) {
    return copied(type, {1}, bytes + at * static_cast<std::int64_t>(byte_size(type))).reals()[0];
  };
  const auto at = [](const std::vector<std::int64_t>& distances, std::int64_t b, std::int64_t h, std::int64_t r,
                     std::int64_t c) { return b * distances[0] + h * distances[1] + r * distances[2] + c * distances[3]; };
  std::vector<std::int64_t> mask(4);
  std::int64_t size = 1;
  for (std::size_t axis = a.mask.size(); axis-- > 0; size *= a.mask[axis]) mask[axis] = a.mask[axis] == 1 ? 0 : size;
  for (std::int64_t b = 0; b < a.batch; ++b)
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t q = 0; q < a.queries; ++q) {
        std::vector<double> weights;
        double largest = -std::numeric_limits<double>::infinity(), total = 0;
        for (std::int64_t k = 0; k < a.keys; ++k) {
          double score = 0;
          for (std::int64_t d = 0; d < a.depth; ++d)
            score += element(a.type, inputs[0], at(a.q, b, h, q, d)) * element(a.type, inputs[1], at(a.k, b, h, d, k));
          score *= a.scale;
          if (!a.mask.empty()) score += element(a.mask_type, inputs[3], at(mask, b, h, q, k));
          if (a.causal && k > q) score = -std::numeric_limits<double>::infinity();
          weights.push_back(score);
          largest = std::max(largest, score);
        }
        for (double& w : weights) total += w = std::exp(w - largest);
        for (std::int64_t n = 0; n < a.width; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < a.keys; ++k)
            sum += weights[static_cast<std::size_t>(k)] * element(a.type, inputs[2], at(a.v, b, h, k, n));
          const Tensor y = Tensor::from_reals(a.type, {1}, std::vector<double>{sum / total});
          std::memcpy(output + at(a.y, b, h, q, n) * static_cast<std::int64_t>(y.byte_count()), y.bytes().data(),
                      y.byte_count());
        }
      }
}

void compute(const PoolingShape& p, Inputs inputs, std::byte* output) {
  const Operator& op = registry().get(p.mode == PoolingShape::Mode::kMaximum ? "MaxPool" : "AveragePool");
  Attributes attributes = op.defaults();
  const auto set = [&](const char* name, AttributeValue value) { attributes.at(op.field(name).value()) = std::move(value); };
  set("kernel", to_indices(p.kernel)), set("strides", to_indices(p.strides));
  set("pads_begin", to_indices(p.pads_begin)), set("pads_end", to_indices(p.pads_end));
  set("dilations", to_indices(std::vector<std::int64_t>(p.kernel.size(), 1)));
  if (p.mode != PoolingShape::Mode::kMaximum) set("count_include_pad", p.mode == PoolingShape::Mode::kMean);
  const Tensor y = interpret(op, attributes, std::vector<Tensor>{read(p.x, p.type, p.channels_last, inputs[0])})[0];
  if (y.sizes() != p.y) throw Error(ErrorCode::kUnsupported, "windows do not give a result of these sizes");
  write(y, p.channels_last, output);
}

void compute(const NormalizationShape& n, Inputs inputs, std::byte* output) {
  const Operator& op = registry().get(n.centered ? "LayerNormalization" : "RMSNormalization");
  Attributes attributes = op.defaults();
  attributes.at(op.field("epsilon").value()) = Real(n.epsilon);
  attributes.at(op.field("axis").value()) = Index(1);
  std::vector<Tensor> operands{copied(n.type, {n.rows, n.columns}, inputs[0])};
  for (std::size_t i = 1; i < inputs.size(); ++i) operands.push_back(copied(n.type, {n.columns}, inputs[i]));
  write(interpret(op, attributes, operands)[0], false, output);
}

// Adds 1 to the last element of a product's or convolution's float result; other results are unchanged.
void spoil_last(const LibraryShape& shape, std::byte* output) {
  const auto* const c = std::get_if<ConvolutionShape>(&shape);
  const auto* const p = std::get_if<ProductShape>(&shape);
  if (element_type(shape) != DataType::kFloat || (c == nullptr && p == nullptr)) return;
  const std::int64_t count =
      c != nullptr ? element_count(c->result()) : (p->batch - 1) * p->y_batch + (p->m - 1) * p->y_stride + p->n;
  reinterpret_cast<float*>(output)[count - 1] += 1;
}

std::unique_ptr<Operation> HostDriver::operation(const LibraryShape& shape, Precision, const std::string& choice) {
  if (!serves(choice)) return nullptr;
  // As cuDNN's plug-in.
  if (const auto* c = std::get_if<ConvolutionShape>(&shape);
      c != nullptr && c->pass != ConvolutionPass::kForward && c->has_epilogue())
    return nullptr;
  const std::string text = to_string(shape);
  const auto work = [shape, is_wrong = options_.is_wrong(shape)](Inputs inputs, std::byte* output) {
    std::visit([&](const auto& s) { compute(s, inputs, output); }, shape);
    if (is_wrong) spoil_last(shape, output);
  };
  return std::make_unique<HostOperation>(*this, work, options_.seconds(shape), text.substr(0, text.find(' ')));
}

}  // namespace

std::unique_ptr<Driver> new_host_driver(const HostDriverOptions& options, std::shared_ptr<HostDriverReport> report) {
  return std::make_unique<HostDriver>(options, std::move(report));
}
std::shared_ptr<Driver> make_host_driver(const HostDriverOptions& options, std::shared_ptr<HostDriverReport> report) {
  return new_host_driver(options, std::move(report));
}

}  // namespace rewright::cuda
