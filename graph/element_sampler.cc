#include "graph/element_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "expressions/code_evaluator.h"
#include "expressions/difference.h"
#include "operators/readings/number_system.h"

namespace rewright::graph {

namespace {

// ---- Numbers with bounds of their errors

struct Approximate {
  double value = 0, error = 0;
  double magnitude = 0;    // for an unfinished sum: the sum of its terms' magnitudes
  std::int64_t terms = 0;  // 0: a number
};

constexpr double kRoundings = 4;           // an operation's, in units of unit_roundoff
constexpr double kFunctionRoundings = 24;  // the same for vectorized functions
constexpr double kSumRoundings = 4;

// Doubles with a bound of what a computation in floats may be off by.
class ApproximateArithmetic {
 public:
  using Value = Approximate;
  static constexpr bool kChecksPositions = false;  // a position that depends on rounding may be wrong
  ApproximateArithmetic(double rounding, bool& certain) : rounding_(rounding), certain_(&certain) {}

  Value from(const Real& r) const { return {exact_.from(r)}; }
  Value from_integer(std::int64_t v) const {
    const auto value = static_cast<double>(v);
    return is_exact(value) ? Value{value} : rounded(value, 0);
  }
  std::int64_t to_integer(const Value& v) const {
    const std::int64_t result = exact_.to_integer(v.value);
    settle(v.error == 0 || (exact_.to_integer(v.value - v.error) == result && exact_.to_integer(v.value + v.error) == result));
    return result;
  }
  bool to_boolean(const Value& v) const {
    settle(v.error == 0 || std::fabs(v.value) > v.error);
    return v.value != 0;
  }
  Value zero() const { return {}; }
  Value one() const { return {1}; }
  Value lowest() const { return {exact_.lowest()}; }
  Value highest() const { return {exact_.highest()}; }
  Value add(const Value& a, const Value& b) const { return rounded(a.value + b.value, a.error + b.error); }
  Value multiply(const Value& a, const Value& b) const {
    if (a.error == 0 && b.error == 0) return rounded(a.value * b.value, 0);
    return rounded(a.value * b.value, std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
  }
  Value divide(const Value& a, const Value& b) const {
    const double quotient = a.value / b.value, least = std::fabs(b.value) - b.error;
    const double own = kRoundings * rounding_ * finite(quotient);  // kernels may multiply by the reciprocal
    if (a.error == 0 && b.error == 0) return {quotient, own};
    if (!(least > 0)) return {quotient, kUnbounded};
    return {quotient, own + (a.error + std::fabs(quotient) * b.error) / least};
  }
  Value maximum(const Value& a, const Value& b) const { return {exact_.maximum(a.value, b.value), std::max(a.error, b.error)}; }
  Value minimum(const Value& a, const Value& b) const { return {exact_.minimum(a.value, b.value), std::max(a.error, b.error)}; }
  Value apply(const Function& f, const Value* x) const {
    double arguments[4], error = 0;
    for (int i = 0; i < f.arity; ++i) arguments[i] = x[i].value;
    const double result = exact_.apply(f, arguments);
    for (int i = 0; i < f.arity; ++i) {
      if (x[i].error == 0) continue;
      double off = 0;
      for (const double sign : {-1.0, 1.0}) {
        arguments[i] = x[i].value + sign * x[i].error;
        const double moved = exact_.apply(f, arguments);
        off = std::max(off, std::isnan(moved) != std::isnan(result) ? kUnbounded : std::fabs(moved - result));
      }
      arguments[i] = x[i].value;
      error += std::isnan(off) ? (std::isfinite(result) ? kUnbounded : 0) : off;
    }
    static constexpr const Function* kExact[] = {&functions::abs, &functions::sign, &functions::floor, &functions::ceil,
                                                 &functions::round_even};
    if (std::find(std::begin(kExact), std::end(kExact), &f) != std::end(kExact)) return {result, error};
    return {result, error + kFunctionRoundings * rounding_ * finite(result)};
  }
  bool test(const Function& f, const Value* x) const {
    double arguments[4];
    for (int i = 0; i < f.arity; ++i) arguments[i] = x[i].value;
    const bool result = exact_.test(f, arguments);
    for (int i = 0; i < f.arity; ++i)
      for (const double sign : {-1.0, 1.0}) {
        if (x[i].error == 0) continue;
        // Both sides of a comparison have errors.
        double others = 0;
        for (int k = 0; k < f.arity; ++k) others += x[k].error;
        arguments[i] = x[i].value + sign * others;
        settle(exact_.test(f, arguments) == result);
        arguments[i] = x[i].value;
      }
    return result;
  }

  // Adds the rounding errors of a sum, once it is complete.
  Value accumulate(const Value& total, const Value& term) const {
    return {total.value + term.value, total.error + term.error,
            total.magnitude + (term.terms > 0 ? term.magnitude : finite(term.value)),
            total.terms + std::max<std::int64_t>(term.terms, 1)};
  }
  Value summed(const Value& total) const {
    return {total.value,
            total.error + kSumRoundings * rounding_ * std::sqrt(static_cast<double>(total.terms)) * total.magnitude};
  }

  void settle(bool certain) const { *certain_ = *certain_ && certain; }

 private:
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  static double finite(double v) { return std::isfinite(v) ? std::fabs(v) : 0; }
  // Whole numbers that are not too large are added and multiplied exactly in float.
  static bool is_exact(double value) { return std::fabs(value) <= 0x1p24 && value == std::trunc(value); }
  Value rounded(double value, double error) const {
    if (error == 0 && is_exact(value)) return {value};
    return {value, error + kRoundings * rounding_ * finite(value)};
  }

  DoubleArithmetic exact_;
  double rounding_;
  bool* certain_;
};

// ---- Elements in memory

template <class T>
class PlainElements final : public StoredElements {
 public:
  PlainElements(const std::byte* bytes, std::function<std::int64_t(std::int64_t)> place)
      : elements_(reinterpret_cast<const T*>(bytes)), place_(std::move(place)) {}
  double real(std::int64_t at) const override { return static_cast<double>(elements_[place(at)]); }
  std::int64_t integer(std::int64_t at) const override { return static_cast<std::int64_t>(elements_[place(at)]); }

 private:
  std::int64_t place(std::int64_t at) const { return place_ ? place_(at) : at; }
  const T* elements_;
  std::function<std::int64_t(std::int64_t)> place_;
};

// Types without a C++ type, converted as a whole.
class WidenedElements final : public StoredElements {
 public:
  WidenedElements(DataType type, std::int64_t count, const std::byte* bytes, std::function<std::int64_t(std::int64_t)> place)
      : place_(std::move(place)) {
    const Tensor tensor(type, {count}, nullptr, bytes);
    if (scalar(type) == Scalar::kReal)
      reals_ = tensor.reals();
    else
      integers_ = tensor.integers();
  }
  double real(std::int64_t at) const override { return reals_[static_cast<std::size_t>(place_ ? place_(at) : at)]; }
  std::int64_t integer(std::int64_t at) const override { return integers_[static_cast<std::size_t>(place_ ? place_(at) : at)]; }

 private:
  std::function<std::int64_t(std::int64_t)> place_;
  std::vector<double> reals_;
  std::vector<std::int64_t> integers_;
};

// Thrown if an element needs more reads than allowed.
struct TooManyReads {};

}  // namespace

std::unique_ptr<StoredElements> stored_elements_of(DataType type, std::int64_t stored_count, const std::byte* bytes,
                                                   std::function<std::int64_t(std::int64_t)> place) {
  switch (type) {
    case DataType::kFloat:
      return std::make_unique<PlainElements<float>>(bytes, std::move(place));
    case DataType::kDouble:
      return std::make_unique<PlainElements<double>>(bytes, std::move(place));
    case DataType::kInt64:
      return std::make_unique<PlainElements<std::int64_t>>(bytes, std::move(place));
    case DataType::kInt32:
      return std::make_unique<PlainElements<std::int32_t>>(bytes, std::move(place));
    case DataType::kBool:
    case DataType::kUint8:
      return std::make_unique<PlainElements<std::uint8_t>>(bytes, std::move(place));
    case DataType::kInt8:
      return std::make_unique<PlainElements<std::int8_t>>(bytes, std::move(place));
    default:
      return std::make_unique<WidenedElements>(type, stored_count, bytes, std::move(place));
  }
}

struct ElementSampler::State {
  struct Computed;

  // The operands of a node's denotation: stored elements, or elements computed here.
  struct Operands {
    State* state;
    Computed* of;
    const Sizes& sizes(int operand) const { return of->sizes[static_cast<std::size_t>(operand)]; }
    Approximate real(int operand, std::int64_t at) const {
      return state->real(of->operands[static_cast<std::size_t>(operand)], at);
    }
    std::int64_t integer(int operand, std::int64_t at) const {
      return state->integer(of->operands[static_cast<std::size_t>(operand)], at);
    }
  };

  // A value that is computed element by element.
  struct Computed {
    DataType type = DataType::kUndefined;
    Sizes result;
    std::vector<ValueId> operands;
    std::vector<Sizes> sizes;
    CodePointer code;
    std::vector<int> position;
    std::optional<CodeEvaluator<ApproximateArithmetic, Operands>> evaluator;
    std::unordered_map<std::int64_t, Approximate> reals;
    std::unordered_map<std::int64_t, std::int64_t> integers;
  };

  State(const Graph& g, Find f) : graph(g), find(std::move(f)), producers(g.producers()) {}

  const Graph& graph;
  Find find;
  std::vector<std::int32_t> producers;
  std::unordered_map<ValueId, std::unique_ptr<Computed>> computed;
  std::unordered_map<ValueId, std::unique_ptr<StoredElements>> constants;
  std::set<ValueId> refused;
  bool certain = true;
  std::int64_t reads = 0, most_reads = 0;

  Approximate real(ValueId value, std::int64_t at) {
    if (++reads > most_reads) throw TooManyReads();
    if (const StoredElements* const stored = known(value)) return {stored->real(at)};
    Computed& c = computation(value);
    if (const auto found = c.reals.find(at); found != c.reals.end()) return found->second;
    return c.reals.emplace(at, compute_real(c, at)).first->second;
  }

  std::int64_t integer(ValueId value, std::int64_t at) {
    if (++reads > most_reads) throw TooManyReads();
    if (const StoredElements* const stored = known(value)) return stored->integer(at);
    Computed& c = computation(value);
    if (const auto found = c.integers.find(at); found != c.integers.end()) return found->second;
    return c.integers.emplace(at, compute_integer(c, at)).first->second;
  }

  const StoredElements* known(ValueId value) {
    if (const StoredElements* const stored = find(value)) return stored;
    const Tensor& constant = graph.value(value).constant;
    if (!constant) return nullptr;
    auto& elements = constants[value];
    if (!elements) elements = stored_elements_of(constant.type(), constant.size(), constant.bytes().data());
    return elements.get();
  }

  // Rounded to its type, as the interpreter does.
  Approximate compute_real(Computed& c, std::int64_t at) {
    set_position(c, at);
    Approximate result = c.evaluator->real(*c.code);
    if (c.type == DataType::kDouble) return result;
    if (c.type == DataType::kFloat) {
      const double before = result.value;
      result.value = static_cast<float>(before);
      if (std::isfinite(result.value)) result.error += std::fabs(result.value) * unit_roundoff(DataType::kFloat);
      return result;
    }
    const double value = result.value;
    result.value = Tensor::from_reals(c.type, {1}, {&value, 1}).reals()[0];
    // A computation in float may round to the neighbouring value.
    if (std::isfinite(result.value))
      result.error += 2 * std::fabs(result.value - value) + type_rounding(c.type) * std::fabs(value);
    return result;
  }

  std::int64_t compute_integer(Computed& c, std::int64_t at) {
    set_position(c, at);
    const std::int64_t value = c.evaluator->integer(*c.code);
    if (c.type == DataType::kInt64 || c.type == DataType::kBool) return value;
    return Tensor::from_integers(c.type, {1}, {&value, 1}).integers()[0];
  }

  static double type_rounding(DataType type) {
    return type == DataType::kHalf || type == DataType::kBfloat16 ? 2 * unit_roundoff(type) : 0.5;  // types of at most 8 bits
  }

  static void set_position(Computed& c, std::int64_t at) {
    for (std::size_t a = c.result.size(); a-- > 0; at /= c.result[a])
      c.evaluator->slots[static_cast<std::size_t>(c.position[a])] = at % c.result[a];
  }

  Computed& computation(ValueId value) {
    auto& found = computed[value];
    if (!found) {
      if (refused.contains(value)) throw Error(ErrorCode::kUnsupported, "a value has no denotation here");
      try {
        found = prepare(value);
      } catch (const Error&) {
        refused.insert(value);
        throw;
      }
    }
    return *found;
  }

  std::unique_ptr<Computed> prepare(ValueId value) {
    const Error none(ErrorCode::kUnsupported, "a value has no denotation here");
    if (producers[value] < 0) throw none;
    const Node& node = *graph.nodes()[static_cast<std::size_t>(producers[value])];
    if (node.op == nullptr || node.op->random() || node.op->execute()) throw none;
    const Definition definition =
        node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(graph.operand_types(node))));
    const auto number =
        static_cast<std::size_t>(std::find(node.outputs.begin(), node.outputs.end(), value) - node.outputs.begin());
    const Output& output = definition.outputs().at(number);
    if (!output.element) throw none;
    auto c = std::make_unique<Computed>();
    c->type = output.type.type;
    c->result = values(output.type.shape);
    c->operands = node.inputs;
    bool in_double = c->type == DataType::kDouble;
    for (const ValueId operand : node.inputs) {
      if (operand == kNoValue) {
        c->sizes.emplace_back();
        continue;
      }
      const Value& v = graph.value(operand);
      c->sizes.push_back(v.constant ? v.constant.sizes() : values(v.type.shape));
      const DataType type = v.constant ? v.constant.type() : v.type.type;
      in_double = in_double && (type == DataType::kDouble || scalar(type) != Scalar::kReal);
    }
    Flattener flattener(c->sizes, std::int64_t{1} << 30);
    for (std::size_t a = 0; a < c->result.size(); ++a)
      c->position.push_back(flattener.variable(output.position[a], c->result[a]));
    c->code = flattener.flatten(output.element);
    c->evaluator.emplace(ApproximateArithmetic(unit_roundoff(in_double ? DataType::kDouble : DataType::kFloat), certain),
                         Operands{this, c.get()}, true);
    c->evaluator->slots.assign(flattener.slot_count(), 0);
    c->evaluator->set_memory_count(flattener.memory_count());
    return c;
  }
};

ElementSampler::ElementSampler(const Graph& graph, Find find) : state_(std::make_unique<State>(graph, std::move(find))) {}
ElementSampler::~ElementSampler() = default;

void ElementSampler::forget() { state_->computed.clear(); }

std::optional<Sample> ElementSampler::element(ValueId value, std::int64_t at, std::int64_t most_reads) {
  State& s = *state_;
  s.certain = true;
  s.reads = 0;
  s.most_reads = most_reads;
  Sample sample;
  try {
    State::Computed& c = s.computation(value);
    sample.is_real = scalar(c.type) == Scalar::kReal;
    if (sample.is_real) {
      const Approximate a = s.compute_real(c, at);
      sample.real = a.value;
      sample.error = a.error;
    } else {
      sample.integer = s.compute_integer(c, at);
    }
  } catch (const TooManyReads&) {
    forget();  // some evaluations are incomplete
    return std::nullopt;
  } catch (const Error&) {
    forget();
    return std::nullopt;
  }
  sample.certain = s.certain && !(sample.is_real && (std::isnan(sample.error) || std::isinf(sample.error)));
  if (!s.certain) forget();  // remembered elements do not record that they are uncertain
  return sample;
}

}  // namespace rewright::graph
