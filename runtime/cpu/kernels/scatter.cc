// Elements written or combined at positions given as data, such as gradients of gathers and of maximum pools. Updates are
// applied in order on one thread: the bits do not depend on the number of threads, and the last of several writes to a position
// counts.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

std::optional<Combination> combination(const std::string& reduction) {
  if (reduction == "none") return Combination::kReplace;
  if (reduction == "add") return Combination::kAdd;
  if (reduction == "mul") return Combination::kMultiply;
  if (reduction == "max") return Combination::kMaximum;
  if (reduction == "min") return Combination::kMinimum;
  return std::nullopt;
}

// Runs of `run` elements are written to rows of the target: row n to the position given by the `depth` indices from n * depth
// on.
struct Shape {
  std::int64_t rows = 0, depth = 1, run = 1, target = 0;  // target: its elements
  std::vector<std::int64_t> sizes, strides;               // of the indexed axes
  // For ScatterElements: positions on the other axes, if the updates are smaller than the target. Empty: none.
  std::vector<std::int64_t> from, from_strides;  // sizes of the updates, and the target's strides (0 on the index's axis)
};

class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(Shape shape, Combination how, DataType type, DataType indices, const LoopTables& loops)
      : shape_(std::move(shape)), how_(how), type_(type), indices_(indices), loops_(loops) {}

  void run(const Call& call) const override {
    if (type_ == DataType::kFloat)
      run_as<float>(call, loops_.f32);
    else if (type_ == DataType::kDouble)
      run_as<double>(call, loops_.f64);
    else
      run_as<std::int64_t>(call, loops_.i64);
  }

 private:
  template <class T>
  void run_as(const Call& call, const Arithmetic<T>& loops) const {
    const T* const x = reinterpret_cast<const T*>(call.inputs[0]);
    T* const y = reinterpret_cast<T*>(call.outputs[0]);
    if (static_cast<const void*>(x) != y) std::memcpy(y, x, static_cast<std::size_t>(shape_.target) * sizeof(T));
    const T* const updates = reinterpret_cast<const T*>(call.inputs[2]);
    if (indices_ == DataType::kInt64)
      scatter(y, reinterpret_cast<const std::int64_t*>(call.inputs[1]), updates, loops);
    else
      scatter(y, reinterpret_cast<const std::int32_t*>(call.inputs[1]), updates, loops);
  }

  template <class T, class I>
  void scatter(T* y, const I* indices, const T* updates, const Arithmetic<T>& loops) const {
    std::vector<std::int64_t> at(shape_.from.size(), 0);
    std::int64_t beside = 0;  // position on the other axes
    std::array<std::int64_t, kTogether> to, from;
    for (std::int64_t first = 0; first < shape_.rows; first += kTogether) {
      const std::int64_t rows = std::min(kTogether, shape_.rows - first);
      for (std::int64_t r = 0; r < rows; ++r) {
        const I* const index = indices + (first + r) * shape_.depth;
        const auto n = static_cast<std::size_t>(r);
        to[n] = beside;
        from[n] = (first + r) * shape_.run;
        for (std::size_t d = 0; d < shape_.sizes.size(); ++d)
          to[n] += checked_index(index[d], shape_.sizes[d]) * shape_.strides[d];
        if (!at.empty()) advance(at, beside);
      }
      loops.scatter_rows(how_, y, to.data(), updates, from.data(), rows, shape_.run);
    }
  }

  void advance(std::vector<std::int64_t>& at, std::int64_t& beside) const {
    for (std::size_t a = at.size(); a-- > 0;) {
      beside += shape_.from_strides[a];
      if (++at[a] < shape_.from[a]) break;
      beside -= at[a] * shape_.from_strides[a];
      at[a] = 0;
    }
  }

  static constexpr std::int64_t kTogether = 512;  // rows whose positions are computed together
  Shape shape_;
  Combination how_;
  DataType type_, indices_;
  const LoopTables& loops_;
};

class ScatterPlan final : public NodePlan {
 public:
  // `indices`: the ones read; the node's own may repeat them.
  ScatterPlan(const Node& node, ValueId indices, Shape shape, Combination how)
      : node_(node), indices_(indices), shape_(std::move(shape)), how_(how) {}

  std::vector<ValueId> computed_ahead() const override {
    return indices_ == node_.inputs[1] ? std::vector<ValueId>{} : std::vector<ValueId>{node_.inputs[1]};
  }

  void emit(Planner& planner, ValueId result) override {
    std::vector<int> inputs;
    for (const ValueId v : {node_.inputs[0], indices_, node_.inputs[2]}) inputs.push_back(planner.storage(v, kPlain));
    const DataType type = planner.info(result).type, indices = planner.info(indices_).type;
    const int target = planner.add_value(result, kPlain);
    planner.add_step(
        std::make_unique<ScatterKernel>(std::move(shape_), how_, type, indices, loops_for<LoopTables>(planner.options().isa)),
        std::move(inputs), {target});
  }

 private:
  const Node& node_;
  ValueId indices_;
  Shape shape_;
  Combination how_;
};

// If a node makes a value by repeating a source's elements along all axes but the first, that source; else kNoValue.
ValueId repeated_by_row(const Planner& planner, ValueId value) {
  const Graph& graph = planner.graph();
  const std::int32_t producer = graph.producers()[value];
  if (producer < 0 || planner.is_constant(value)) return kNoValue;
  const Node& node = *graph.nodes()[static_cast<std::size_t>(producer)];
  if (node.op == nullptr || node.inputs.empty() || node.inputs[0] == kNoValue) return kNoValue;
  const ValueInfo source = planner.info(node.inputs[0]), repeated = planner.info(value);
  if (source.type != repeated.type || element_count(source.sizes) != repeated.sizes[0] ||
      element_count(repeated.sizes) == repeated.sizes[0])
    return kNoValue;
  const Definition& definition = planner.define(node);
  if (!definition.has_denotation()) return kNoValue;
  const Output& output = definition.outputs()[0];
  const ElementNode& read = *output.element;
  if (read.kind != ElementNode::Kind::kRead || read.operand != 0 || read.zero_outside) return kNoValue;
  for (std::size_t a = 0; a < source.sizes.size(); ++a)
    if (source.sizes[a] > 1 && !(read.position[a] == output.position[0])) return kNoValue;
  return node.inputs[0];
}

std::vector<std::int64_t> strides_of(const Sizes& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t a = sizes.size(); a-- > 1;) strides[a - 1] = strides[a] * sizes[a];
  return strides;
}

}  // namespace

std::unique_ptr<NodePlan> plan_scatter(Planner& planner, const Node& node) {
  const bool whole_rows = node.op->name() == "ScatterND";
  const ValueInfo x = planner.info(node.inputs[0]), indices = planner.info(node.inputs[1]);
  const bool served = x.type == DataType::kFloat || x.type == DataType::kDouble || x.type == DataType::kInt64;
  const bool positions = indices.type == DataType::kInt64 || indices.type == DataType::kInt32;
  const auto how = combination(AttributeReader(node).text("reduction"));
  if (!served || !positions || !how || element_count(x.sizes) == 0 || element_count(indices.sizes) == 0) return nullptr;
  const std::vector<std::int64_t> strides = strides_of(x.sizes);
  ValueId read = node.inputs[1];
  Shape shape;
  shape.target = element_count(x.sizes);
  if (whole_rows) {
    shape.depth = indices.sizes.back();
    shape.rows = element_count(indices.sizes) / shape.depth;
    shape.sizes.assign(x.sizes.begin(), x.sizes.begin() + shape.depth);
    shape.strides.assign(strides.begin(), strides.begin() + shape.depth);
    for (std::size_t a = shape.sizes.size(); a < x.sizes.size(); ++a) shape.run *= x.sizes[a];
  } else if (const auto axis = static_cast<std::size_t>(AttributeReader(node).number("axis"));
             axis == 0 && std::equal(x.sizes.begin() + 1, x.sizes.end(), indices.sizes.begin() + 1) &&
             repeated_by_row(planner, read) != kNoValue) {
    read = repeated_by_row(planner, read);
    shape.rows = indices.sizes[0];
    shape.sizes = {x.sizes[0]};
    shape.strides = {strides[0]};
    shape.run = strides[0];
  } else {
    shape.rows = element_count(indices.sizes);
    shape.sizes = {x.sizes[axis]};
    shape.strides = {strides[axis]};
    shape.from = indices.sizes;
    shape.from_strides = strides;
    shape.from_strides[axis] = 0;
  }
  return std::make_unique<ScatterPlan>(node, read, std::move(shape), *how);
}

}  // namespace rewright::cpu
