#include "equivalence/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include "base/error.h"
#include "equivalence/place.h"
#include "expressions/code_evaluator.h"
#include "expressions/difference.h"
#include "operators/readings/number_system.h"
#include "optimizer/inputs/sizes.h"

namespace rewright::equivalence {

namespace {

// A real within a range, and how far its computed value may be from it.
struct Ranged {
  double low = 0, high = 0, error = 0;
  double magnitude = 0;    // of an unfinished sum: the sum of its terms' magnitudes
  std::int64_t terms = 0;  // 0: a number
  double largest() const { return std::max(std::fabs(low), std::fabs(high)); }
  bool is(double v) const { return low == v && high == v && error == 0; }
};

constexpr double kFunctionUnits = 16;   // what a function of a library may be off by, in roundings
constexpr double kTiny = 0x1p-149;      // an underflow
constexpr double kSlack = 1 + 0x1p-30;  // for the roundings of this computation in double

[[noreturn]] void no_bound(const std::string& why) { throw Error(ErrorCode::kUnsupported, why); }

class RangedArithmetic {
 public:
  using Value = Ranged;
  static constexpr bool kChecksPositions = true;
  RangedArithmetic(double unit, double tolerance) : unit_(unit), tolerance_(tolerance) {}

  Value from(const Real& r) const {
    const double v = exact_.from(r);
    // A number of a definition may be written with as many digits as the type has.
    return {v, v, static_cast<double>(static_cast<float>(v)) == v ? 0 : tolerance_ * std::fabs(v)};
  }
  Value from_integer(std::int64_t n) const {
    const auto v = static_cast<double>(n);
    return {v, v, std::fabs(v) <= 0x1p24 ? 0 : unit_ * std::fabs(v)};
  }
  std::int64_t to_integer(const Value& v) const {
    const std::int64_t low = exact_.to_integer(v.low - v.error), high = exact_.to_integer(v.high + v.error);
    if (low != high) no_bound("an integer depends on rounding");
    return low;
  }
  bool to_boolean(const Value& v) const {
    if (v.is(0)) return false;
    if (v.low - v.error > 0 || v.high + v.error < 0) return true;
    no_bound("a choice depends on rounding");
  }
  Value zero() const { return {}; }
  Value one() const { return {1, 1, 0}; }
  Value lowest() const { return {exact_.lowest(), exact_.lowest(), 0}; }
  Value highest() const { return {exact_.highest(), exact_.highest(), 0}; }
  Value add(const Value& a, const Value& b) const {
    if (a.is(0)) return b;
    if (b.is(0)) return a;
    return rounded(a.low + b.low, a.high + b.high, a.error + b.error, 1);
  }
  Value multiply(const Value& a, const Value& b) const {
    if (a.is(0) || b.is(0)) return {};
    const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
    const double error = a.largest() * b.error + b.largest() * a.error + a.error * b.error;
    const bool is_exact = a.is(1) || a.is(-1) || b.is(1) || b.is(-1);
    return is_exact ? Value{low, high, error} : rounded(low, high, error, 1);
  }
  Value divide(const Value& a, const Value& b) const {
    if (b.is(1)) return a;
    const double least = std::min(std::fabs(b.low), std::fabs(b.high)) - b.error;
    if (!(least > 0) || (b.low < 0) != (b.high < 0)) no_bound("a divisor may be zero");
    const auto [low, high] = std::minmax({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high});
    const double quotient = std::max(std::fabs(low), std::fabs(high));
    return rounded(low, high, (a.error + quotient * b.error) / least, 3);  // kernels may multiply by the reciprocal
  }
  Value maximum(const Value& a, const Value& b) const {
    return {std::max(a.low, b.low), std::max(a.high, b.high), std::max(a.error, b.error)};
  }
  Value minimum(const Value& a, const Value& b) const {
    return {std::min(a.low, b.low), std::min(a.high, b.high), std::max(a.error, b.error)};
  }

  Value apply(const Function& f, const Value* x) const {
    const Value& a = x[0];
    if (&f == &functions::abs) {
      const double low = a.low > 0 ? a.low : a.high < 0 ? -a.high : 0;
      return {low, a.largest(), a.error};
    }
    if (&f == &functions::pow && x[1].is(2)) return multiply_by_itself(a);
    if (&f == &functions::sin || &f == &functions::cos) return rounded(-1, 1, a.error, kFunctionUnits);
    const double end = a.high + a.error, begin = a.low - a.error;
    if ((&f == &functions::sqrt || &f == &functions::rsqrt || &f == &functions::log) && !(begin > 0))
      no_bound("a root or logarithm of what may be zero");
    // The largest slope between the ends.
    double slope = 0;
    if (&f == &functions::sqrt)
      slope = 0.5 / std::sqrt(begin);
    else if (&f == &functions::rsqrt)
      slope = 0.5 / (begin * std::sqrt(begin));
    else if (&f == &functions::log)
      slope = 1 / begin;
    else if (&f == &functions::exp)
      slope = std::exp(end);
    else if (&f == &functions::tanh || &f == &functions::softplus)
      slope = 1;
    else if (&f == &functions::erf)
      slope = 1.1283791670955126;  // 2 / sqrt(pi)
    else if (&f == &functions::sigmoid)
      slope = 0.25;
    else
      no_bound("function " + std::string(f.name) + " has no bound");
    const double p = exact_.apply(f, &a.low), q = exact_.apply(f, &a.high);  // all are monotone
    return rounded(std::min(p, q), std::max(p, q), slope * a.error, kFunctionUnits);
  }

  bool test(const Function& f, const Value* x) const {
    if (&f == &functions::is_nan || &f == &functions::is_infinite) return false;
    const double below = (x[1].low - x[1].error) - (x[0].high + x[0].error);  // > 0: x[0] is less
    const double above = (x[0].low - x[0].error) - (x[1].high + x[1].error);
    if (&f == &functions::less && (below > 0 || above >= 0)) return below > 0;
    if (&f == &functions::less_equal && (below >= 0 || above > 0)) return below >= 0;
    if (&f == &functions::equal && (below > 0 || above > 0)) return false;
    no_bound("a comparison depends on rounding");
  }

  // A sum of n terms in any order is off by at most n units of the sum of their magnitudes, to first order; rigorously by
  // n u / (1 - n u) (N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 4).
  Value accumulate(const Value& total, const Value& term) const {
    if (term.is(0) && term.terms == 0) return total;
    return {total.low + term.low, total.high + term.high, total.error + term.error,
            total.magnitude + (term.terms > 0 ? term.magnitude : term.largest() + term.error),
            total.terms + std::max<std::int64_t>(term.terms, 1)};
  }
  Value summed(const Value& total) const {
    const double n = static_cast<double>(std::max<std::int64_t>(total.terms - 1, 0)) * unit_;
    if (n >= 0.5) no_bound("a sum of too many terms");
    return {total.low, total.high, total.error + n / (1 - n) * total.magnitude};
  }

 private:
  Value rounded(double low, double high, double error, double units) const {
    const double largest = std::max(std::fabs(low), std::fabs(high)) + error;
    if (!std::isfinite(largest)) no_bound("an element may be infinite");
    return {low, high, error + units * unit_ * largest + kTiny};
  }
  Value multiply_by_itself(const Value& a) const {
    Value square = multiply(a, a);
    square.low = a.low <= 0 && a.high >= 0 ? 0 : std::min(a.low * a.low, a.high * a.high);
    return square;
  }

  DoubleArithmetic exact_;
  double unit_, tolerance_;
};

// The elements of a value: reals with ranges and errors, or integers that are known.
struct Elements {
  DataType type = DataType::kUndefined;
  Sizes sizes;
  std::vector<Ranged> reals;
  std::vector<std::int64_t> integers;
};
using ElementsPointer = std::shared_ptr<const Elements>;

Elements elements_of(const Tensor& tensor) {
  Elements result{tensor.type(), tensor.sizes(), {}, {}};
  if (!is_real(tensor.type())) {
    result.integers = tensor.integers();
    return result;
  }
  for (const double v : tensor.reals()) {
    if (!std::isfinite(v)) no_bound("a constant is infinite");
    result.reals.push_back({v, v, 0});
  }
  return result;
}

struct Operands {
  const std::vector<ElementsPointer>* of;
  const Sizes& sizes(int operand) const { return (*of)[static_cast<std::size_t>(operand)]->sizes; }
  Ranged real(int operand, std::int64_t at) const {
    return (*of)[static_cast<std::size_t>(operand)]->reals.at(static_cast<std::size_t>(at));
  }
  std::int64_t integer(int operand, std::int64_t at) const {
    return (*of)[static_cast<std::size_t>(operand)]->integers.at(static_cast<std::size_t>(at));
  }
};

enum class Errors {
  kOfComputation,  // from the exact result
  kOfTheSame,      // between two computations of one kind: none where the operands have none, else each of them rounds
};

class Bounds {
 public:
  Bounds(const Joint& joint, const std::vector<Step>& steps, const RoundingOptions& options)
      : joint_(joint), options_(options), graph_(with_named_sizes(joint.graph(), options.sizes)) {
    for (const Step& step : steps)
      if ((step.kind == Step::Kind::kRewriting || step.kind == Step::Kind::kRule) && joint.is_of_first(step.equation.a))
        equations_[step.equation.b] = &step.equation;
    for (ValueId id = 0; id < graph_.value_count() && joint.is_of_first(id); ++id) of_first_[joint.find(id)].push_back(id);
  }

  RoundingBound bound(std::size_t output) {
    RoundingBound result{graph_.outputs()[output].name, std::nullopt, {}};
    try {
      double most = 0;
      for (const Ranged& r : difference(joint_.outputs()[output].second)->reals) most = std::max(most, r.error);
      result.bound = most * kSlack;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      result.reason = error.what();
    }
    return result;
  }

 private:
  using Leaves = std::map<ValueId, ElementsPointer>;  // by class

  const Node* node_of(ValueId id) const {
    const std::int32_t position = joint_.producer(id);
    return position < 0 ? nullptr : graph_.nodes()[static_cast<std::size_t>(position)].get();
  }

  // ---- Evaluating

  ElementsPointer evaluate(const Node& node, ValueId id, const std::vector<ElementsPointer>& operands, Errors errors) {
    if (!node.op || node.op->random()) no_bound("node \"" + place_name(joint_, id) + "\" has no denotation");
    const Definition definition =
        node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(graph_.operand_types(node))));
    const auto number =
        static_cast<std::size_t>(std::find(node.outputs.begin(), node.outputs.end(), id) - node.outputs.begin());
    const Output& output = definition.outputs().at(number);
    if (!output.element) no_bound("node \"" + place_name(joint_, id) + "\" has no denotation");
    auto result = std::make_shared<Elements>(Elements{output.type.type, values(output.type.shape), {}, {}});
    const bool is_of_reals = is_real(result->type);
    if (is_of_reals && result->type != DataType::kFloat && result->type != DataType::kDouble)
      no_bound("node \"" + place_name(joint_, id) + "\" is of " + std::string(name(result->type)));
    std::vector<Sizes> sizes;
    for (const ElementsPointer& operand : operands) sizes.push_back(operand ? operand->sizes : Sizes());
    Flattener flattener(sizes, std::int64_t{1} << 30);
    std::vector<int> position;
    std::int64_t count = 1;
    for (std::size_t a = 0; a < result->sizes.size(); ++a) {
      position.push_back(flattener.variable(output.position[a], result->sizes[a]));
      count *= result->sizes[a];
    }
    const CodePointer code = flattener.flatten(output.element);
    const double unit = unit_roundoff(result->type == DataType::kDouble ? DataType::kDouble : DataType::kFloat);
    CodeEvaluator<RangedArithmetic, Operands> evaluator(
        RangedArithmetic(errors == Errors::kOfTheSame ? 2 * unit : unit, options_.tolerance), Operands{&operands});
    evaluator.slots.assign(flattener.slot_count(), 0);
    evaluator.set_memory_count(flattener.memory_count());
    const bool may_differ =
        errors == Errors::kOfComputation || std::any_of(operands.begin(), operands.end(), [](const ElementsPointer& e) {
          return e && std::any_of(e->reals.begin(), e->reals.end(), [](const Ranged& r) { return r.error > 0; });
        });
    for (std::int64_t at = 0; at < count; ++at) {
      if (at % 256 == 0 && options_.ended && options_.ended()) no_bound("the time was up");
      for (std::int64_t rest = at, a = std::ssize(result->sizes) - 1; a >= 0; --a) {
        const auto axis = static_cast<std::size_t>(a);
        evaluator.slots[static_cast<std::size_t>(position[axis])] = rest % result->sizes[axis];
        rest /= result->sizes[axis];
      }
      if (!is_of_reals) {
        const std::int64_t v = evaluator.integer(*code);
        result->integers.push_back(result->type == DataType::kInt64 || result->type == DataType::kBool
                                       ? v
                                       : Tensor::from_integers(result->type, {1}, {&v, 1}).integers()[0]);
        continue;
      }
      Ranged r = evaluator.real(*code);
      if (!may_differ) r.error = 0;
      result->reals.push_back({r.low, r.high, r.error});
    }
    return result;
  }

  ElementsPointer input(ValueId id) const {
    const Value& value = graph_.value(id);
    if (!is_real(value.type.type)) no_bound("input \"" + value.name + "\" is of integers");
    const auto range = options_.ranges.find(value.name);
    const ValueRange of = range == options_.ranges.end() ? ValueRange{} : range->second;
    auto result = std::make_shared<Elements>(Elements{value.type.type, values(value.type.shape), {}, {}});
    std::int64_t count = 1;
    for (const std::int64_t size : result->sizes) count *= size;
    result->reals.assign(static_cast<std::size_t>(count), Ranged{of.low, of.high, 0});
    return result;
  }

  // A constant of the second model: its exact elements are those of its term.
  ElementsPointer constant(ValueId id) const {
    const Tensor& tensor = graph_.value(id).constant;
    auto result = std::make_shared<Elements>(elements_of(tensor));
    if (!joint_.is_explained(id) || !is_real(tensor.type())) return result;
    const std::vector<double> exact = evaluate_constant(joint_.graph(), joint_.defined_by(id)).reals();
    for (std::size_t i = 0; i < exact.size(); ++i)
      result->reals[i] = {exact[i], exact[i], std::fabs(exact[i] - result->reals[i].low)};
    return result;
  }

  // From the leaves on; without leaves from the inputs.
  ElementsPointer computed(ValueId id, const Leaves& leaves, std::map<ValueId, ElementsPointer>& known) {
    if (const auto found = known.find(id); found != known.end()) return found->second;
    const auto leaf = leaves.find(joint_.find(id));
    ElementsPointer made;
    if (leaf != leaves.end() && !joint_.is_constant(id)) {
      made = leaf->second;
    } else if (joint_.is_constant(id)) {
      made = constant(id);
    } else if (const Node* node = node_of(id)) {
      std::vector<ElementsPointer> operands;
      for (const ValueId operand : node->inputs)
        operands.push_back(operand == kNoValue ? nullptr : computed(operand, leaves, known));
      made = evaluate(*node, id, operands, Errors::kOfComputation);
    } else {
      made = input(id);
    }
    return known.emplace(id, std::move(made)).first->second;
  }

  // Elements as the first model computes them: within the range of exact results and the error of its own.
  ElementsPointer first(ValueId id) { return computed(id, {}, first_); }
  // These elements as they are in memory: a range without an error, or with another one.
  ElementsPointer in_memory(ValueId id, const Elements* errors) {
    Elements result = *first(id);
    for (std::size_t i = 0; i < result.reals.size(); ++i) {
      Ranged& r = result.reals[i];
      r = {r.low - r.error, r.high + r.error, errors ? errors->reals.at(i).error : 0};
    }
    return std::make_shared<Elements>(std::move(result));
  }

  // ---- Differences

  // The errors are the differences of the two models' elements.
  ElementsPointer difference(ValueId b) {
    if (const auto known = differences_.find(b); known != differences_.end()) return known->second;
    return differences_.emplace(b, find_difference(b)).first->second;
  }

  ElementsPointer find_difference(ValueId b) {
    const auto found = of_first_.find(joint_.find(b));
    if (found == of_first_.end()) no_bound("\"" + place_name(joint_, b) + "\" is in no equation");
    const std::vector<ValueId>& of_first = found->second;
    if (joint_.is_of_first(b)) return in_memory(b, nullptr);
    if (joint_.is_constant(b)) {
      Elements result = *in_memory(of_first.front(), nullptr);
      const Elements own = elements_of(graph_.value(b).constant);
      for (std::size_t i = 0; i < result.reals.size(); ++i)
        result.reals[i].error =
            std::max(std::fabs(own.reals[i].low - result.reals[i].low), std::fabs(own.reals[i].low - result.reals[i].high));
      return std::make_shared<Elements>(std::move(result));
    }
    const Node* node = node_of(b);
    if (!node) return in_memory(of_first.front(), nullptr);  // an input
    for (const ValueId a : of_first)
      if (const Node* other = node_of(a); other && is_same(*other, *node, a, b)) return of_same(*other, *node, a);
    const auto equation = equations_.find(b);
    if (equation == equations_.end()) no_bound("\"" + place_name(joint_, b) + "\" is in no equation");
    return of_equation(*equation->second);
  }

  bool is_same(const Node& x, const Node& y, ValueId a, ValueId b) const {
    if (!x.op || x.op != y.op || x.op->random() || !(x.attributes == y.attributes) || x.inputs.size() != y.inputs.size())
      return false;
    if (std::find(x.outputs.begin(), x.outputs.end(), a) - x.outputs.begin() !=
        std::find(y.outputs.begin(), y.outputs.end(), b) - y.outputs.begin())
      return false;
    for (std::size_t i = 0; i < x.inputs.size(); ++i) {
      const bool absent = x.inputs[i] == kNoValue || y.inputs[i] == kNoValue;
      if (absent ? x.inputs[i] != y.inputs[i] : !joint_.equal(x.inputs[i], y.inputs[i])) return false;
    }
    return true;
  }

  ElementsPointer of_same(const Node& x, const Node& y, ValueId a) {
    std::vector<ElementsPointer> operands;
    for (std::size_t i = 0; i < x.inputs.size(); ++i)
      operands.push_back(x.inputs[i] == kNoValue ? nullptr : in_memory(x.inputs[i], difference(y.inputs[i]).get()));
    const ElementsPointer result = evaluate(x, a, operands, Errors::kOfTheSame);
    return in_memory(a, result.get());
  }

  ElementsPointer of_equation(const Equation& equation) {
    Leaves in_first, moved;
    for (const ValueId leaf : equation.leaves) {
      const auto found = of_first_.find(joint_.find(leaf));
      if (found == of_first_.end()) continue;  // a value between two steps: what computes it counts
      if (joint_.is_constant(found->second.front())) continue;
      const ElementsPointer differing = leaf_difference(joint_.find(leaf), found->second.front());
      moved.emplace(joint_.find(leaf), in_memory(found->second.front(), differing.get()));
      in_first.emplace(joint_.find(leaf), in_memory(found->second.front(), nullptr));
    }
    std::map<ValueId, ElementsPointer> of_a, of_b;
    const ElementsPointer b = computed(equation.b, moved, of_b);
    // The second model may compute something else in place of a leaf: then it is compared from what both begin with, and what
    // the first one rounds up to the leaf counts.
    Leaves exact;
    for (const auto& [id, elements] : of_b)
      if (const auto leaf = in_first.find(joint_.find(id)); leaf != in_first.end()) exact.insert(*leaf);
    const ElementsPointer a = computed(equation.a, exact, of_a);
    Elements result = *in_memory(equation.a, nullptr);
    for (std::size_t i = 0; i < result.reals.size(); ++i) result.reals[i].error = a->reals.at(i).error + b->reals.at(i).error;
    return std::make_shared<Elements>(std::move(result));
  }

  // The largest difference of all values of the second model in the class: each may be the one that is read.
  ElementsPointer leaf_difference(ValueId of_class, ValueId a) {
    Elements result = *in_memory(a, nullptr);
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (!joint_.is_of_second(id) || joint_.find(id) != of_class) continue;
      const ElementsPointer one = difference(id);
      for (std::size_t i = 0; i < result.reals.size(); ++i)
        result.reals[i].error = std::max(result.reals[i].error, one->reals.at(i).error);
    }
    return std::make_shared<Elements>(std::move(result));
  }

  const Joint& joint_;
  const RoundingOptions& options_;
  const Graph graph_;
  std::map<ValueId, const Equation*> equations_;      // by the second model's value
  std::map<ValueId, std::vector<ValueId>> of_first_;  // by class
  std::map<ValueId, ElementsPointer> first_, differences_;
};

}  // namespace

std::vector<RoundingBound> rounding_bounds(const Joint& joint, const std::vector<Step>& steps, const RoundingOptions& options) {
  Bounds bounds(joint, steps, options);
  std::vector<RoundingBound> result;
  for (std::size_t k = 0; k < joint.outputs().size(); ++k) result.push_back(bounds.bound(k));
  return result;
}

}  // namespace rewright::equivalence
