// Running sums and products: reductions over all positions up to each one, or from each one on.
#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "expressions/free_variables.h"
#include "expressions/tensor.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/loops.h"
#include "runtime/cpu/tile/stages.h"

namespace rewright::cpu {

namespace {

struct Prefix {
  Element body;  // at the output's own position
  std::size_t axis;
  Reduction reduction;
  bool exclusive, reverse;
};

// An element of 16 bits.
template <float (*kToFloat)(std::uint16_t), std::uint16_t (*kFromFloat)(float)>
struct ShortFloat {
  std::uint16_t bits;
  explicit ShortFloat(double v) : bits(kFromFloat(static_cast<float>(v))) {}
  explicit operator double() const { return static_cast<double>(kToFloat(bits)); }
};
using Half = ShortFloat<half_to_float, float_to_half>;
using Bfloat16 = ShortFloat<bfloat16_to_float, float_to_bfloat16>;

// The tile engine's loops for elements of type T; null: it has none.
template <class T>
const auto* running_loops(Isa isa) {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return static_cast<const Arithmetic<std::int64_t>*>(&loops_for<LoopTables>(isa).i64);
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<const Arithmetic<T>*>(&real_loops<T>(isa));
  else
    return static_cast<const Arithmetic<std::int64_t>*>(nullptr);
}

// The elements that are added up: an operand as it is, or what a program computes.
struct PrefixBody {
  int operand = -1;
  std::optional<StagedProgram> program;
};

// Accumulates an operand, or in place what a tile program computes; floats in double.
template <class T>
class PrefixKernel final : public Kernel {
 public:
  PrefixKernel(const Prefix& prefix, PrefixBody body, const Sizes& sizes, Isa isa)
      : body_(std::move(body)),
        reduction_(prefix.reduction),
        exclusive_(prefix.exclusive),
        reverse_(prefix.reverse),
        length_(sizes[prefix.axis]),
        inner_(element_count(std::span(sizes).subspan(prefix.axis + 1))),
        outer_(element_count(std::span(sizes).first(prefix.axis))),
        loops_(running_loops<T>(isa)),
        tables_(loops_for<LoopTables>(isa)) {}

  std::size_t scratch_bytes() const override { return body_.program ? body_.program->scratch_bytes() : 0; }

  // Along the last axis row by row, else for some columns at a time.
  void run(const Call& call) const override {
    constexpr double kElements = 0.5;  // a nanosecond
    if (body_.program) body_.program->run(call.inputs, call.outputs.first(1), call.scratch, call.workers);
    T* const y = reinterpret_cast<T*>(call.outputs[0]);
    const T* const x = body_.program ? y : reinterpret_cast<const T*>(call.inputs[static_cast<std::size_t>(body_.operand)]);
    const double nanoseconds = static_cast<double>(outer_ * inner_ * length_) / kElements;
    if (length_ == 1 && !exclusive_) {
      if (x != y) std::copy_n(x, outer_ * inner_, y);
      return;
    }
    if (inner_ == 1)
      return call.workers.for_each(outer_, nanoseconds, [&](std::int64_t row, int) {
        const std::int64_t first = reverse_ ? (row + 1) * length_ - 1 : row * length_;
        accumulate(y + first, x + first);
      });
    const std::int64_t blocks = (inner_ + kColumns - 1) / kColumns;
    call.workers.for_each(outer_ * blocks, nanoseconds, [&](std::int64_t number, int) {
      const std::int64_t column = number % blocks * kColumns;
      const std::int64_t first = number / blocks * length_ * inner_ + column;
      accumulate_columns(y + first, x + first, std::min(kColumns, inner_ - column));
    });
  }

 private:
  using Total = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  static constexpr std::int64_t kColumns = 1024;

  bool is_product() const { return reduction_ == Reduction::kProduct; }

  void accumulate_columns(T* y, const T* x, std::int64_t columns) const {
    const std::int64_t first = reverse_ ? (length_ - 1) * inner_ : 0, stride = reverse_ ? -inner_ : inner_;
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, std::int64_t>) {
      Total totals[kColumns];
      std::fill_n(totals, columns, Total(is_product() ? 1 : 0));
      loops_->run_on(y + first, x + first, stride, length_, totals, is_product(), exclusive_, columns);
    } else {
      add_rows(y + first, x + first, stride, columns);
    }
  }

  // Integers of one width wrap alike, whether they have a sign or not.
  void combine_rows(T* to, const T* a, const T* b, std::int64_t columns) const {
    const auto combine = [&]<class N>(const Elements<N, N>& loops) {
      const auto f = is_product() ? loops.multiply : loops.add;
      f(reinterpret_cast<N*>(to), reinterpret_cast<const N*>(a), reinterpret_cast<const N*>(b), columns);
    };
    if constexpr (sizeof(T) == 1)
      combine(tables_.i8);
    else if constexpr (sizeof(T) == 2)
      combine(tables_.i16);
    else if constexpr (sizeof(T) == 4)
      combine(tables_.i32);
  }

  // Rows of narrow integers, whose sums wrap, are added by vectors to the row before them.
  void add_rows(T* y, const T* x, std::int64_t stride, std::int64_t columns) const {
    if constexpr (std::is_integral_v<T>) {
      if (x != y) {
        const std::int64_t behind = exclusive_ ? 1 : 0;
        if (length_ > 0)
          exclusive_ ? static_cast<void>(std::fill_n(y, columns, static_cast<T>(is_product() ? 1 : 0)))
                     : static_cast<void>(std::copy_n(x, columns, y));
        for (std::int64_t r = 1; r < length_; ++r)
          combine_rows(y + r * stride, y + (r - 1) * stride, x + (r - behind) * stride, columns);
        return;
      }
    }
    Total totals[kColumns];
    std::fill_n(totals, columns, Total(is_product() ? 1 : 0));
    with_function([&](auto f) {
      for (std::int64_t r = 0; r < length_; ++r)
        for (std::int64_t c = 0; c < columns; ++c) advance(totals[c], y[r * stride + c], x[r * stride + c], f);
    });
  }

  // Calls use(f) with the function that combines totals; integers wrap.
  template <class Use>
  void with_function(const Use& use) const {
    if (is_product())
      return use([](Total a, Total b) {
        if constexpr (std::is_integral_v<Total>)
          return static_cast<Total>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
        else
          return a * b;
      });
    use([](Total a, Total b) {
      if constexpr (std::is_integral_v<Total>)
        return static_cast<Total>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      else
        return a + b;
    });
  }
  template <class F>
  void advance(Total& total, T& to, const T& from, const F& f) const {
    const Total next = f(total, static_cast<Total>(from));
    to = static_cast<T>(exclusive_ ? total : next);
    total = next;
  }

  void accumulate(T* to, const T* from) const {
    const std::int64_t step = reverse_ ? -inner_ : inner_;
    with_function([&](auto f) {
      Total total(is_product() ? 1 : 0);
      for (std::int64_t n = 0; n < length_; ++n) advance(total, to[n * step], from[n * step], f);
    });
  }

  PrefixBody body_;
  Reduction reduction_;
  bool exclusive_, reverse_;
  std::int64_t length_, inner_, outer_;
  decltype(running_loops<T>(Isa::kBaseline)) loops_;
  const LoopTables& tables_;
};

// nullopt if the expression is not such a reduction along an axis of the output.
std::optional<Prefix> match_prefix(const Element& element, const Indices& position, const Sizes& sizes) {
  const ElementNode& e = *element;
  if (e.kind != ElementNode::Kind::kReduce || e.conditions.size() != 1) return std::nullopt;
  if (e.reduction != Reduction::kSum && e.reduction != Reduction::kProduct) return std::nullopt;
  const Atom* const variable = e.index.as_atom();
  const Condition& c = e.conditions[0];
  if (variable == nullptr || (c.relation != Condition::Relation::kLess && c.relation != Condition::Relation::kLessEqual))
    return std::nullopt;
  for (std::size_t axis = 0; axis < position.size(); ++axis) {
    const Atom* const here = position[axis].as_atom();
    if (here == nullptr || e.bound.constant() != sizes[axis]) continue;
    // variable < here, or here < variable, with or without equality.
    const Index difference = c.left - c.right;
    const bool before = difference == e.index - position[axis], behind = difference == position[axis] - e.index;
    if ((!before && !behind) || FreeVariables().of(*e.arguments[0]).contains(here->id)) continue;
    const Element body = rewrite(e.arguments[0], {}, [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind == Atom::Kind::kBound && atom.id == variable->id) return position[axis];
      return std::nullopt;
    });
    return Prefix{body, axis, e.reduction, c.relation == Condition::Relation::kLess, behind};
  }
  return std::nullopt;
}

// Null for types without a kernel.
std::unique_ptr<Kernel> make_prefix(const Prefix& prefix, PrefixBody body, DataType type, const Sizes& sizes, Isa isa) {
  const auto make = [&]<class T>(T*) -> std::unique_ptr<Kernel> {
    return std::make_unique<PrefixKernel<T>>(prefix, std::move(body), sizes, isa);
  };
  switch (type) {
    case DataType::kFloat:
      return make(static_cast<float*>(nullptr));
    case DataType::kDouble:
      return make(static_cast<double*>(nullptr));
    case DataType::kHalf:
      return make(static_cast<Half*>(nullptr));
    case DataType::kBfloat16:
      return make(static_cast<Bfloat16*>(nullptr));
    case DataType::kInt8:
      return make(static_cast<std::int8_t*>(nullptr));
    case DataType::kUint8:
      return make(static_cast<std::uint8_t*>(nullptr));
    case DataType::kInt16:
      return make(static_cast<std::int16_t*>(nullptr));
    case DataType::kUint16:
      return make(static_cast<std::uint16_t*>(nullptr));
    case DataType::kInt32:
      return make(static_cast<std::int32_t*>(nullptr));
    case DataType::kUint32:
      return make(static_cast<std::uint32_t*>(nullptr));
    case DataType::kInt64:
      return make(static_cast<std::int64_t*>(nullptr));
    case DataType::kUint64:
      return make(static_cast<std::int64_t*>(nullptr));
    default:
      return nullptr;
  }
}

}  // namespace

bool plan_prefix(Planner& planner, const Expression& e) {
  const ValueInfo& out = planner.info(e.result);
  const auto prefix = match_prefix(e.element, e.position, out.sizes);
  if (!prefix || std::find(e.operands.begin(), e.operands.end(), kNoValue) != e.operands.end()) return false;
  std::vector<TileOperand> types;
  for (const ValueId v : e.operands) types.push_back({planner.info(v).type, planner.info(v).sizes, kPlain});
  PrefixBody body;
  const ElementNode& read = *prefix->body;
  if (read.kind == ElementNode::Kind::kRead && !read.zero_outside && read.position == e.position &&
      types[static_cast<std::size_t>(read.operand)].type == out.type &&
      types[static_cast<std::size_t>(read.operand)].sizes == out.sizes) {
    body.operand = read.operand;
  } else {
    const GroupValue output{prefix->body, e.position, {out.type, out.sizes, kPlain}};
    body.program = compile_stages({&output, 1}, types, {planner.options().isa, false, false, planner.options().threads});
    if (!body.program) return false;
  }
  auto kernel = make_prefix(*prefix, std::move(body), out.type, out.sizes, planner.options().isa);
  if (!kernel) return false;
  std::vector<int> inputs;
  for (const ValueId v : e.operands) inputs.push_back(planner.storage(v, kPlain));
  const int target = planner.add_value(e.result, kPlain);
  planner.add_step(std::move(kernel), std::move(inputs), {target});
  return true;
}

}  // namespace rewright::cpu
