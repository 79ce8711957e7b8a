#include "runtime/cuda/plugin/graph_operation.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "runtime/cuda/plugin/check.h"
#include "runtime/cuda/plugin/device.h"

namespace rewright::cuda {

namespace {

constexpr std::size_t kMeasured = 16;     // engines of one way to propose them
constexpr std::int64_t kProposals = 256;  // at most, most of which may not be allowed
constexpr int kRuns = 4;
// Ways to propose engines: by the heuristics, or all there are, each with its own defaults. On devices with tensor cores the
// heuristics may propose nothing else for factors of type float.
constexpr std::size_t kByHeuristics = 2, kAll = 2, kWays = 3;
constexpr cudnnBackendHeurMode_t kModes[kByHeuristics] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B};

class GraphOperation final : public Operation {
 public:
  GraphOperation(Device& device, std::shared_ptr<const OperationGraph> graph, EngineLimits limits)
      : device_(device), graph_(std::move(graph)), limits_(limits) {}

  // False if no engine of cuDNN computes the graph.
  bool choose() {
    const Descriptor graph = with_handle();
    std::vector<std::unique_ptr<Scratch>> operands;
    std::vector<const std::byte*> inputs;
    const auto scratch = [&](std::size_t bytes) {
      return operands.emplace_back(std::make_unique<Scratch>(device_, bytes))->data();
    };
    for (const OperationGraph::Operand& input : graph_->inputs()) inputs.push_back(scratch(input.bytes));
    std::byte* const output = scratch(graph_->output().bytes);
    std::byte* const workspace = scratch(kWorkspaceLimit);
    double best = std::numeric_limits<double>::infinity();
    std::unique_ptr<Descriptor> fastest;
    for (std::size_t way = 0; way < kWays; ++way) {
      if (way == kAll && fastest && limits_.may_round) break;
      const std::vector<Descriptor> found = proposals(graph, way);
      std::size_t measured = 0;
      for (std::size_t n = 0; n < found.size() && measured < kMeasured; ++n) {
        if (!prepare(found[n])) continue;
        const double seconds = device_.time([&] { return execute(inputs, output, workspace); }, kRuns);
        ++measured;
        if (seconds >= best) continue;
        best = seconds;
        fastest = std::move(plan_);
        chosen_bytes_ = workspace_bytes_;
        choice_ = std::to_string(way) + " " + std::to_string(n);
      }
    }
    plan_ = std::move(fastest);
    workspace_bytes_ = chosen_bytes_;
    return plan_ != nullptr;
  }

  // Uses the engine that was chosen before: one version of cuDNN has the same heuristics on one device.
  bool take(const std::string& choice) {
    std::istringstream in(choice);
    std::size_t way = 0, number = 0;
    if (!(in >> way >> number) || way >= kWays) return false;
    const std::vector<Descriptor> found = proposals(with_handle(), way);
    choice_ = choice;
    return number < found.size() && prepare(found[number]);
  }

  std::string choice() const override { return choice_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void start(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace) override {
    if (!execute(inputs, output, workspace)) throw Error(ErrorCode::kUnsupported, "cuDNN does not start an operation");
  }

 private:
  Descriptor with_handle() const {
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    std::vector<cudnnBackendDescriptor_t> handles;
    for (const Descriptor& o : graph_->operations()) handles.push_back(o.get());
    const cudnnHandle_t dnn = device_.dnn();
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()),
              handles.data());
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn);
    graph.finalize();
    return graph;
  }

  // False if the engine does not support the graph after all, or needs too much memory.
  bool prepare(const Descriptor& configuration) {
    plan_.reset();
    try {
      if (!allowed(configuration)) return false;
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

  static std::vector<Descriptor> proposals(const Descriptor& graph, std::size_t way) {
    try {
      return way == kAll ? all_engines(graph) : proposals_of(graph, kModes[way]);
    } catch (const Error&) {
      return {};  // the heuristic does not know the graph
    }
  }

  static std::vector<Descriptor> proposals_of(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristics.set_one(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    heuristics.finalize();
    const auto ask = [&](std::int64_t room, cudnnBackendDescriptor_t* handles) {
      std::int64_t count = 0;
      check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, room,
                                     &count, handles),
            "heuristics");
      return count;
    };
    std::vector<Descriptor> result;
    std::vector<cudnnBackendDescriptor_t> handles;
    for (std::int64_t i = std::min(ask(0, nullptr), kProposals); i > 0; --i) {
      result.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      handles.push_back(result.back().get());
    }
    const std::int64_t count = ask(static_cast<std::int64_t>(handles.size()), handles.data());
    while (result.size() > static_cast<std::size_t>(count)) result.pop_back();
    return result;
  }

  static std::vector<Descriptor> all_engines(const Descriptor& graph) {
    std::int64_t engines = 0, count = 0;
    check(cudnnBackendGetAttribute(graph.get(), CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, &count,
                                   &engines),
          "engines");
    std::vector<Descriptor> result;
    for (std::int64_t i = 0; i < std::min(engines, kProposals); ++i) {
      try {
        Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR), configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        engine.set_descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
        engine.set_number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, i);
        engine.finalize();
        configuration.set_descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
        configuration.finalize();
        result.push_back(std::move(configuration));
      } catch (const Error&) {  // not for this graph
      }
    }
    return result;
  }

  // On tensor cores, factors of type float are rounded to TF32. An engine that cuDNN compiles takes seconds in every process.
  // Engines whose threads add in any order give other bits in each run.
  bool allowed(const Descriptor& configuration) const {
    const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t handle = engine.get();
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                   &handle),
          "an engine");
    const auto has = [&](cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, auto note,
                         std::int64_t kinds) {
      std::vector<decltype(note)> notes(static_cast<std::size_t>(kinds));
      std::int64_t found = 0;
      check(cudnnBackendGetAttribute(handle, attribute, type, kinds, &found, notes.data()), "an engine");
      return std::find(notes.begin(), notes.begin() + found, note) != notes.begin() + found;
    };
    const auto computes = [&](cudnnBackendNumericalNote_t note) {
      return has(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, note, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    };
    if (computes(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
    if (!limits_.may_round &&
        (computes(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) || computes(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)))
      return false;
    return limits_.may_compile || !has(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                       CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  }

  bool execute(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace) {
    std::vector<std::int64_t> numbers;
    std::vector<const void*> addresses;
    const auto add = [&](std::int64_t number, const void* address) {
      numbers.push_back(number);
      addresses.push_back(address);
    };
    for (std::size_t i = 0; i < graph_->inputs().size(); ++i) add(graph_->inputs()[i].number, inputs[i]);
    add(graph_->output().number, output);
    for (const auto& [number, value] : graph_->numbers()) add(number, &value);
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(addresses.size()),
             addresses.data());
    pack.set_numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers);
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    pack.finalize();
    return cudnnBackendExecute(device_.dnn(), plan_->get(), pack.get()) == CUDNN_STATUS_SUCCESS;
  }

  Device& device_;
  std::shared_ptr<const OperationGraph> graph_;
  EngineLimits limits_;
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

cudnnDataType_t cudnn_type(DataType type) {
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

std::vector<std::int64_t> packed(const std::vector<std::int64_t>& sizes, bool channels_last) {
  std::vector<std::int64_t> distances(sizes.size(), 1);
  std::int64_t distance = channels_last ? sizes[1] : 1;
  for (std::size_t a = sizes.size(); a-- > 0;) {
    if (channels_last && a == 1) continue;
    distances[a] = distance;
    distance *= sizes[a];
  }
  return distances;
}

// ---- Graphs
const Descriptor& OperationGraph::tensor(Tensor t, const Sizes& sizes, const Sizes& distances, cudnnDataType_t type) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set_one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  d.set_numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  d.set_numbers(CUDNN_ATTR_TENSOR_STRIDES, distances);
  d.set_number(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.number);
  d.set_number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
  d.set_one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, t.is_virtual);
  d.set_one(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, t.by_value);
  d.finalize();
  return keep(std::move(d));
}

namespace {

std::size_t extent(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& distances, DataType type) {
  std::int64_t last = 0;
  for (std::size_t a = 0; a < sizes.size(); ++a) last += (sizes[a] - 1) * distances[a];
  return static_cast<std::size_t>(last + 1) * byte_size(type);
}

}  // namespace

const Descriptor& OperationGraph::input(const Sizes& sizes, const Sizes& distances, DataType type) {
  inputs_.push_back({next_, extent(sizes, distances, type)});
  return tensor({next_++}, sizes, distances, cudnn_type(type));
}
const Descriptor& OperationGraph::output(const Sizes& sizes, const Sizes& distances, DataType type) {
  output_ = {next_, extent(sizes, distances, type)};
  return tensor({next_++}, sizes, distances, cudnn_type(type));
}
const Descriptor& OperationGraph::number(float value, std::size_t rank) {
  numbers_.emplace_back(next_, value);
  const Sizes ones(rank, 1);
  return tensor({next_++, false, true}, ones, ones, CUDNN_DATA_FLOAT);
}
const Descriptor& OperationGraph::between(const Sizes& sizes, cudnnDataType_t type) {
  return between(sizes, packed(sizes), type);
}
const Descriptor& OperationGraph::between(const Sizes& sizes, const Sizes& distances, cudnnDataType_t type) {
  return tensor({next_++, true}, sizes, distances, type);
}

void OperationGraph::pointwise(const Pointwise& what, const Descriptor& x, const Descriptor* b, const Descriptor* t,
                               const Descriptor& y) {
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set_one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, what.mode);
  kind.set_one(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, what.compute);
  if (what.axis >= 0) kind.set_number(CUDNN_ATTR_POINTWISE_AXIS, what.axis);
  if (what.clips) {
    kind.set_one(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, what.low);
    kind.set_one(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, what.high);
  }
  kind.finalize();
  Descriptor o(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(kind)));
  o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  if (t != nullptr) o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
  o.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  o.finalize();
  add(std::move(o));
}

std::unique_ptr<Operation> make_graph_operation(Device& device, std::shared_ptr<const OperationGraph> graph,
                                                EngineLimits limits, const std::string& choice) {
  auto operation = std::make_unique<GraphOperation>(device, std::move(graph), limits);
  if (!(choice.empty() ? operation->choose() : operation->take(choice))) return nullptr;
  return operation;
}

}  // namespace rewright::cuda
