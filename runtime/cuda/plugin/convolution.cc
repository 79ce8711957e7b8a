#include "runtime/cuda/plugin/convolution.h"

#include <iterator>
#include <limits>
#include <sstream>
#include <utility>

#include "runtime/cuda/plugin/check.h"
#include "runtime/cuda/plugin/device.h"

namespace rewright::cuda {

namespace {

constexpr int kProposals = 16;
constexpr int kRuns = 4;
constexpr cudnnBackendHeurMode_t kModes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};
constexpr std::int64_t kX = 1, kW = 2, kY = 3, kBias = 4, kResidual = 5, kFirstVirtual = 10;

cudnnDataType_t data_type(DataType type) {
  switch (type) {
    case DataType::kHalf:
      return CUDNN_DATA_HALF;
    case DataType::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    case DataType::kDouble:
      return CUDNN_DATA_DOUBLE;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

// cuDNN's convolutions have two or three spatial axes: one gets a second of size 1 before it.
std::vector<std::int64_t> widened(std::vector<std::int64_t> list, std::size_t rank, std::int64_t value, std::size_t at) {
  if (rank == 1) list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), value);
  return list;
}

std::size_t byte_count(const std::vector<std::int64_t>& sizes, DataType type) {
  std::size_t bytes = byte_size(type);
  for (const std::int64_t s : sizes) bytes *= static_cast<std::size_t>(s);
  return bytes;
}

Descriptor tensor(std::int64_t number, const std::vector<std::int64_t>& sizes, cudnnDataType_t type, bool channels_last) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  std::int64_t stride = channels_last ? sizes[1] : 1;
  for (std::size_t a = sizes.size(); a-- > 0;) {
    if (channels_last && a == 1) continue;
    strides[a] = stride;
    stride *= sizes[a];
  }
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  d.set_numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  d.set_numbers(CUDNN_ATTR_TENSOR_STRIDES, strides);
  d.set_number(CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
  d.set_number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
  const bool is_virtual = number >= kFirstVirtual;
  d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  d.finalize();
  return d;
}

cudnnPointwiseMode_t pointwise_mode(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
    case Activation::kSilu:
      return CUDNN_POINTWISE_SWISH_FWD;
    case Activation::kSigmoid:
      return CUDNN_POINTWISE_SIGMOID_FWD;
    default:
      return CUDNN_POINTWISE_RELU_FWD;  // kClip, too, with its bounds
  }
}

class Convolution final : public Operation {
 public:
  Convolution(Device& device, const ConvolutionShape& shape) : device_(device), shape_(shape) {}

  // False if no engine of cuDNN's computes it.
  bool choose(Precision precision) {
    const ConvolutionOperations operations(shape_);
    const Descriptor graph = operation_graph(operations);
    Scratch x(device_, byte_count(shape_.x, shape_.type)), w(device_, byte_count(shape_.w, shape_.type));
    Scratch y(device_, byte_count(shape_.y, shape_.type));
    Scratch bias(device_, shape_.bias ? byte_count({shape_.y[1]}, shape_.type) : 0);
    Scratch residual(device_, shape_.residual ? byte_count(shape_.y, shape_.type) : 0);
    Scratch workspace(device_, kWorkspaceLimit);
    std::vector<const std::byte*> inputs{x.data(), w.data()};
    if (shape_.bias) inputs.push_back(bias.data());
    if (shape_.residual) inputs.push_back(residual.data());
    double best = std::numeric_limits<double>::infinity();
    std::unique_ptr<Descriptor> fastest;
    for (std::size_t mode = 0; mode < std::size(kModes); ++mode) {
      if (kModes[mode] == CUDNN_HEUR_MODE_FALLBACK && fastest) break;
      const std::vector<Descriptor> found = proposals(graph, kModes[mode]);
      for (std::size_t n = 0; n < found.size(); ++n) {
        if (!prepare(found[n], precision)) continue;
        const double seconds = device_.time([&] { return execute(inputs, y.data(), workspace.data()); }, kRuns);
        if (seconds >= best) continue;
        best = seconds;
        fastest = std::move(plan_);
        chosen_bytes_ = workspace_bytes_;
        choice_ = std::to_string(mode) + " " + std::to_string(n);
      }
    }
    plan_ = std::move(fastest);
    workspace_bytes_ = chosen_bytes_;
    return plan_ != nullptr;
  }

  // The engine that was chosen before: the heuristics say the same for one version of cuDNN on one device.
  bool take(Precision precision, const std::string& choice) {
    std::istringstream in(choice);
    std::size_t mode = 0, number = 0;
    if (!(in >> mode >> number) || mode >= std::size(kModes)) return false;
    const ConvolutionOperations operations(shape_);
    const std::vector<Descriptor> found = proposals(operation_graph(operations), kModes[mode]);
    choice_ = choice;
    return number < found.size() && prepare(found[number], precision);
  }

  std::string choice() const override { return choice_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void start(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace) override {
    if (!execute(inputs, output, workspace)) throw Error(ErrorCode::kUnsupported, "cuDNN does not start a convolution");
  }

 private:
  Descriptor operation_graph(const ConvolutionOperations& operations) const {
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    std::vector<cudnnBackendDescriptor_t> handles;
    for (const Descriptor& o : operations.operations) handles.push_back(o.get());
    const cudnnHandle_t dnn = device_.dnn();
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()),
              handles.data());
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn);
    graph.finalize();
    return graph;
  }

  // False if the engine does not serve this after all, or wants too much memory.
  bool prepare(const Descriptor& configuration, Precision precision) {
    plan_.reset();
    try {
      if (!allowed(configuration, precision)) return false;
      const cudnnHandle_t dnn = device_.dnn();
      auto plan = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn);
      plan->set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      plan->finalize();
      std::int64_t bytes = 0, count = 0;
      check(
          cudnnBackendGetAttribute(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
          "a workspace");
      if (bytes > static_cast<std::int64_t>(kWorkspaceLimit)) return false;
      workspace_bytes_ = static_cast<std::size_t>(bytes);
      plan_ = std::move(plan);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  static std::vector<Descriptor> proposals(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
    std::vector<Descriptor> result;
    try {
      Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
      heuristics.finalize();
      std::vector<cudnnBackendDescriptor_t> handles;
      for (int i = 0; i < kProposals; ++i) {
        result.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        handles.push_back(result.back().get());
      }
      std::int64_t count = 0;
      check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kProposals,
                                     &count, handles.data()),
            "heuristics");
      while (result.size() > static_cast<std::size_t>(count)) result.pop_back();
    } catch (const Error&) {
      result.clear();  // this heuristic knows no such graph
    }
    return result;
  }

  // Tensor cores round factors of float to TF32.
  bool allowed(const Descriptor& configuration, Precision precision) const {
    if (shape_.type != DataType::kFloat || precision == Precision::kTf32) return true;
    const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t handle = engine.get();
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                   &handle),
          "an engine");
    std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    check(cudnnBackendGetAttribute(handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()),
          "an engine");
    for (std::int64_t n = 0; n < count; ++n)
      if (notes[static_cast<std::size_t>(n)] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
          notes[static_cast<std::size_t>(n)] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
        return false;
    return true;
  }

  bool execute(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace) {
    std::vector<std::int64_t> numbers{kX, kW, kY};
    std::vector<const void*> addresses{inputs[0], inputs[1], output};
    std::size_t next = 2;
    if (shape_.bias) numbers.push_back(kBias), addresses.push_back(inputs[next++]);
    if (shape_.residual) numbers.push_back(kResidual), addresses.push_back(inputs[next++]);
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(addresses.size()),
             addresses.data());
    pack.set_numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers);
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    pack.finalize();
    return cudnnBackendExecute(device_.dnn(), plan_->get(), pack.get()) == CUDNN_STATUS_SUCCESS;
  }

  Device& device_;
  ConvolutionShape shape_;
  std::unique_ptr<Descriptor> plan_;
  std::size_t workspace_bytes_ = 0, chosen_bytes_ = 0;
  std::string choice_;
};

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &handle_), "a descriptor");
}
Descriptor::~Descriptor() {
  if (handle_ != nullptr) cudnnBackendDestroyDescriptor(handle_);
}
void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                     const void* values) {
  check(cudnnBackendSetAttribute(handle_, name, type, count, values), "a descriptor");
}
void Descriptor::finalize() { check(cudnnBackendFinalize(handle_), "a descriptor"); }

ConvolutionOperations::ConvolutionOperations(const ConvolutionShape& c) {
  const std::size_t rank = c.x.size() - 2;
  const cudnnDataType_t type = data_type(c.type);
  const cudnnDataType_t compute = c.type == DataType::kDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const auto sizes = [&](const std::vector<std::int64_t>& list) { return widened(list, rank, 1, 2); };
  const auto add = [&](Descriptor d) -> const Descriptor& { return parts.emplace_back(std::move(d)); };
  parts.reserve(16);  // references stay good
  const Descriptor& x = add(tensor(kX, sizes(c.x), type, c.channels_last));
  const Descriptor& w = add(tensor(kW, sizes(c.w), type, c.channels_last));
  const int behind = (c.bias ? 1 : 0) + (c.residual ? 1 : 0) + (c.activation != Activation::kNone ? 1 : 0);
  int made = 0;
  // The result of the next operation: y itself for the last one.
  const auto result = [&]() -> const Descriptor& {
    const bool last = made == behind;
    return add(tensor(last ? kY : kFirstVirtual + made++, sizes(c.y), last ? type : compute, c.channels_last));
  };

  Descriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  window.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  window.set_number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(std::max<std::size_t>(rank, 2)));
  window.set_numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS, widened(c.dilations, rank, 1, 0));
  window.set_numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, widened(c.strides, rank, 1, 0));
  window.set_numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, widened(c.pads_begin, rank, 0, 0));
  window.set_numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, widened(c.pads_end, rank, 0, 0));
  window.finalize();
  const Descriptor& convolution = add(std::move(window));

  const Descriptor* last = &result();
  {
    Descriptor o(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    o.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    o.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    o.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *last);
    o.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution);
    const double one_wide = 1, zero_wide = 0;
    const float one = 1, zero = 0;
    const bool wide = compute == CUDNN_DATA_DOUBLE;
    const cudnnBackendAttributeType_t scalar = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    o.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, scalar, 1, wide ? static_cast<const void*>(&one_wide) : &one);
    o.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, scalar, 1, wide ? static_cast<const void*>(&zero_wide) : &zero);
    o.finalize();
    operations.push_back(std::move(o));
  }
  const auto pointwise = [&](cudnnPointwiseMode_t what, const Descriptor* other) {
    Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &what);
    kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (c.activation == Activation::kClip && what == CUDNN_POINTWISE_RELU_FWD) {
      kind.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 1, &c.low);
      kind.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &c.high);
    }
    kind.finalize();
    const Descriptor& function = add(std::move(kind));
    const Descriptor* to = &result();
    Descriptor o(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
    o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *last);
    if (other != nullptr) o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
    o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *to);
    o.finalize();
    operations.push_back(std::move(o));
    last = to;
  };
  if (c.bias) {
    std::vector<std::int64_t> by_channel(std::max<std::size_t>(rank, 2) + 2, 1);
    by_channel[1] = c.y[1];
    pointwise(CUDNN_POINTWISE_ADD, &add(tensor(kBias, by_channel, type, c.channels_last)));
  }
  if (c.residual) pointwise(CUDNN_POINTWISE_ADD, &add(tensor(kResidual, sizes(c.y), type, c.channels_last)));
  if (c.activation != Activation::kNone) pointwise(pointwise_mode(c.activation), nullptr);
}

std::unique_ptr<Operation> make_convolution(Device& device, const ConvolutionShape& shape, Precision precision,
                                            const std::string& choice) {
  auto convolution = std::make_unique<Convolution>(device, shape);
  try {
    if (!(choice.empty() ? convolution->choose(precision) : convolution->take(precision, choice))) return nullptr;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    return nullptr;  // cuDNN knows no such graph
  }
  return convolution;
}

}  // namespace rewright::cuda
