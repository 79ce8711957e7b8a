// Squared distances between the rows of two matrices, of which each element would be read anew for every pair.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/distance_loops.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/strided_read.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;
using Kind = ElementNode::Kind;

constexpr double kElements = 16;  // differences, per nanosecond
constexpr Count kPanel = DistanceLoops::kColumns;
constexpr Count kRowsTogether = 64;

// One operand of the differences: its element k of a row is at offset + row * stride + k * step.
struct Side {
  int operand = -1;
  Count offset = 0, stride = 0, step = 0;
};

struct Distances {
  Count rows = 1, columns = 1, depth = 0;
  Side a, b;  // of rows and columns of the result
};

Count panels_of(Count columns) { return (columns + kPanel - 1) / kPanel; }

// One panel: the elements of kPanel columns side by side.
template <class T>
void pack_panel(const T* from, const Distances& d, Count panel, T* to) {
  const Count first = panel * kPanel, count = std::min(kPanel, d.columns - first);
  for (Count k = 0; k < d.depth; ++k) {
    for (Count c = 0; c < count; ++c) to[k * kPanel + c] = from[d.b.offset + (first + c) * d.b.stride + k * d.b.step];
    std::fill(to + k * kPanel + count, to + (k + 1) * kPanel, T(0));
  }
}

template <class T>
class DistanceKernel final : public Kernel {
 public:
  // `packed`: all panels, if they are known.
  DistanceKernel(const Distances& distances, Tensor packed, DistanceLoops::Squares<T> squares)
      : d_(distances), packed_(std::move(packed)), squares_(squares) {}

  void run(const Call& call) const override {
    const auto* const a = reinterpret_cast<const T*>(call.inputs[0]) + d_.a.offset;
    auto* const y = reinterpret_cast<T*>(call.outputs[0]);
    const double nanoseconds = static_cast<double>(d_.rows) * static_cast<double>(d_.columns * d_.depth) / kElements;
    call.workers.for_each(panels_of(d_.columns) * blocks(), nanoseconds, [&](Count unit, int) {
      const Count panel = unit / blocks(), first = unit % blocks() * kRowsTogether;
      squares_(a + first * d_.a.stride, std::min(kRowsTogether, d_.rows - first), d_.a.stride, d_.a.step, panel_of(call, panel),
               d_.depth, std::min(kPanel, d_.columns - panel * kPanel), y + first * d_.columns + panel * kPanel, d_.columns);
    });
  }

 private:
  Count blocks() const { return (d_.rows + kRowsTogether - 1) / kRowsTogether; }

  const T* panel_of(const Call& call, Count panel) const {
    if (packed_) return packed_.data<T>().data() + panel * d_.depth * kPanel;
    static thread_local std::vector<T> made;
    made.resize(static_cast<std::size_t>(d_.depth * kPanel));
    pack_panel(reinterpret_cast<const T*>(call.inputs[1]), d_, panel, made.data());
    return made.data();
  }

  Distances d_;
  Tensor packed_;
  DistanceLoops::Squares<T> squares_;
};

// x in x * -1, or null.
const ElementNode* negated(const ElementNode& e) {
  if (e.kind != Kind::kMultiply) return nullptr;
  for (const std::size_t i : {0, 1}) {
    const ElementNode& c = *e.arguments[i];
    if (c.kind == Kind::kConstant && c.scalar == Scalar::kReal && c.real.symbol.empty() && c.real.value == -1)
      return e.arguments[1 - i].get();
  }
  return nullptr;
}

bool is_plain_read(const ElementNode& e) { return e.kind == Kind::kRead && !e.zero_outside; }

// The two reads of a difference.
std::optional<std::pair<const ElementNode*, const ElementNode*>> difference(const ElementNode& e) {
  if (e.kind != Kind::kAdd) return std::nullopt;
  for (const std::size_t i : {0, 1}) {
    const ElementNode *const other = e.arguments[1 - i].get(), *const minus = negated(*e.arguments[i]);
    if (minus != nullptr && is_plain_read(*other) && is_plain_read(*minus)) return std::pair(other, minus);
  }
  return std::nullopt;
}

// The only axis of a result that is not 1 and that a read's address depends on; -1: none, -2: several.
int only_axis(const planning::Affine& address, const Sizes& sizes) {
  int found = -1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] != 1 && address.coefficient(axis) != 0) found = found == -1 ? static_cast<int>(axis) : -2;
  return found;
}

// nullopt if the expression is no sum of squared differences.
std::optional<Distances> match_distances(const Planner& planner, const Expression& e, const Sizes& sizes) {
  const ElementNode& sum = *e.element;
  if (sum.kind != Kind::kReduce || sum.reduction != Reduction::kSum || !sum.conditions.empty()) return std::nullopt;
  const ElementNode& square = *sum.arguments[0];
  const auto depth = sum.bound.constant();
  if (square.kind != Kind::kMultiply || !depth || compare(square.arguments[0], square.arguments[1]) != 0) return std::nullopt;
  const auto reads = difference(*square.arguments[0]);
  if (!reads) return std::nullopt;

  Indices position = e.position;
  position.push_back(sum.index);
  Sizes extended = sizes;
  extended.push_back(*depth);
  Distances d;
  d.depth = *depth;
  int axes[2] = {-1, -1};
  Side sides[2];
  for (const int i : {0, 1}) {
    const ElementNode& read = i == 0 ? *reads->first : *reads->second;
    const ValueId v = e.operands[static_cast<std::size_t>(read.operand)];
    const auto address = planning::read_strides(read, position, extended, planner.info(v).sizes);
    if (!address || planner.info(v).type != planner.info(e.result).type) return std::nullopt;
    axes[i] = only_axis(*address, sizes);
    if (axes[i] == -2) return std::nullopt;
    const Count stride = axes[i] < 0 ? 0 : address->coefficient(static_cast<std::size_t>(axes[i]));
    sides[i] = {read.operand, address->constant, stride, address->coefficient(sizes.size())};
  }
  if (axes[0] == axes[1]) return std::nullopt;
  const int rows = axes[0] < axes[1] ? 0 : 1;  // a side that depends on no axis is a single row
  d.a = sides[rows], d.b = sides[1 - rows];
  if (axes[rows] >= 0) d.rows = sizes[static_cast<std::size_t>(axes[rows])];
  d.columns = sizes[static_cast<std::size_t>(axes[1 - rows])];
  if (element_count(sizes) != d.rows * d.columns) return std::nullopt;  // repeated along a third axis
  return d;
}

template <class T>
void add_distances(Planner& planner, const Expression& e, const Distances& d, DistanceLoops::Squares<T> squares) {
  const auto value = [&](const Side& side) { return e.operands[static_cast<std::size_t>(side.operand)]; };
  std::vector<int> inputs{planner.storage(value(d.a), kPlain)};
  Tensor packed;
  if (const Tensor constant = planner.constant(value(d.b))) {
    ConstantOrigin origin(constant);
    for (const Count number : {d.columns, d.depth, d.b.offset, d.b.stride, d.b.step}) origin.add(number);
    const Count panel = d.depth * kPanel, panels = panels_of(d.columns);
    const auto bytes = static_cast<std::size_t>(panels * panel) * sizeof(T);
    const Tensor made = planner.prepared(origin, "panels of distances", bytes, [&](std::byte* to) {
      for (Count p = 0; p < panels; ++p) pack_panel(constant.data<T>().data(), d, p, reinterpret_cast<T*>(to) + p * panel);
    });
    packed = Tensor(constant.type(), {panels * panel}, std::make_shared<const Tensor>(made), made.bytes().data());
  } else {
    inputs.push_back(planner.storage(value(d.b), kPlain));
  }
  const int target = planner.add_value(e.result, kPlain);
  planner.add_step(std::make_unique<DistanceKernel<T>>(d, std::move(packed), squares), std::move(inputs), {target});
}

}  // namespace

bool plan_distances(Planner& planner, const Expression& e) {
  const ValueInfo& out = planner.info(e.result);
  if ((out.type != DataType::kFloat && out.type != DataType::kDouble) || element_count(out.sizes) == 0) return false;
  const auto d = match_distances(planner, e, out.sizes);
  if (!d || d->columns < 4) return false;
  const DistanceLoops& loops = loops_for<DistanceLoops>(planner.options().isa);
  if (out.type == DataType::kFloat)
    add_distances<float>(planner, e, *d, loops.squares);
  else
    add_distances<double>(planner, e, *d, loops.squares_of_doubles);
  return true;
}

}  // namespace rewright::cpu
