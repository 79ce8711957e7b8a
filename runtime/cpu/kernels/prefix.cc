// Running sums and products: reductions over all positions up to each one, or from each one on.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "expressions/free_variables.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/stages.h"

namespace rewright::cpu {

namespace {

struct Prefix {
  Element body;  // at the output's own position
  std::size_t axis;
  Reduction reduction;
  bool exclusive, reverse;
};

// Computes the body by a tile program, then accumulates in place; floats in double.
template <class T>
class PrefixKernel final : public Kernel {
 public:
  PrefixKernel(const Prefix& prefix, StagedProgram program, const Sizes& sizes)
      : program_(std::move(program)),
        reduction_(prefix.reduction),
        exclusive_(prefix.exclusive),
        reverse_(prefix.reverse),
        length_(sizes[prefix.axis]),
        inner_(element_count(std::span(sizes).subspan(prefix.axis + 1))),
        rows_(element_count(std::span(sizes).first(prefix.axis)) * inner_) {}

  std::size_t scratch_bytes() const override { return program_.scratch_bytes(); }

  void run(const Call& call) const override {
    constexpr double kElements = 0.5;  // a nanosecond
    program_.run(call.inputs, call.outputs[0], call.scratch, call.workers);
    T* const y = reinterpret_cast<T*>(call.outputs[0]);
    call.workers.for_each(rows_, static_cast<double>(rows_ * length_) / kElements, [&](std::int64_t row, int) {
      T* const first = y + row / inner_ * length_ * inner_ + row % inner_;
      const std::int64_t step = reverse_ ? -inner_ : inner_;
      accumulate(reverse_ ? first + (length_ - 1) * inner_ : first, step);
    });
  }

 private:
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, T>;

  void accumulate(T* at, std::int64_t step) const {
    switch (reduction_) {
      case Reduction::kSum:
        return accumulate(at, step, Total(0), [](Total a, Total b) {
          if constexpr (std::is_integral_v<Total>)
            return static_cast<Total>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
          else
            return a + b;
        });
      default:
        return accumulate(at, step, Total(1), [](Total a, Total b) {
          if constexpr (std::is_integral_v<Total>)
            return static_cast<Total>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
          else
            return a * b;
        });
    }
  }

  template <class F>
  void accumulate(T* at, std::int64_t step, Total total, F f) const {
    for (std::int64_t n = 0; n < length_; ++n, at += step) {
      const Total next = f(total, static_cast<Total>(*at));
      *at = static_cast<T>(exclusive_ ? total : next);
      total = next;
    }
  }

  StagedProgram program_;
  Reduction reduction_;
  bool exclusive_, reverse_;
  std::int64_t length_, inner_, rows_;
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
std::unique_ptr<Kernel> make_prefix(const Prefix& prefix, StagedProgram program, DataType type, const Sizes& sizes) {
  switch (type) {
    case DataType::kFloat:
      return std::make_unique<PrefixKernel<float>>(prefix, std::move(program), sizes);
    case DataType::kDouble:
      return std::make_unique<PrefixKernel<double>>(prefix, std::move(program), sizes);
    case DataType::kInt64:
      return std::make_unique<PrefixKernel<std::int64_t>>(prefix, std::move(program), sizes);
    default:
      return nullptr;
  }
}

}  // namespace

bool plan_prefix(Planner& planner, const Expression& e) {
  const ValueInfo out = planner.info(e.result);
  const auto prefix = match_prefix(e.element, e.position, out.sizes);
  if (!prefix || std::find(e.operands.begin(), e.operands.end(), kNoValue) != e.operands.end()) return false;
  std::vector<TileOperand> types;
  for (const ValueId v : e.operands) types.push_back({planner.info(v).type, planner.info(v).sizes, kPlain});
  auto program = compile_stages(prefix->body, e.position, {out.type, out.sizes, kPlain}, types, {planner.options().isa, false});
  if (!program) return false;
  auto kernel = make_prefix(*prefix, std::move(*program), out.type, out.sizes);
  if (!kernel) return false;
  std::vector<int> inputs;
  for (const ValueId v : e.operands) inputs.push_back(planner.storage(v, kPlain));
  const int target = planner.add_value(e.result, kPlain);
  planner.add_step(std::move(kernel), std::move(inputs), {target});
  return true;
}

}  // namespace rewright::cpu
