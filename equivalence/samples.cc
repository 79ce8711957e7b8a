#include "equivalence/samples.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "base/hash_mix.h"
#include "equivalence/checker/ranges.h"
#include "expressions/difference.h"
#include "graph/execute.h"
#include "optimizer/inputs/inputs.h"
#include "optimizer/inputs/sizes.h"

namespace rewright::equivalence {

namespace {

constexpr std::size_t kElements = 48;  // of a value that are kept
constexpr std::int64_t kMostOfConstant = 4096;
constexpr double kCandidate = 2e-3;    // relative difference up to which values are candidates
constexpr double kMoved = 2e-5;        // the same for sums of elements that were moved, of their magnitude
constexpr double kPrecise = 1e-6;      // the same in double: constants are roundings to float
constexpr double kBeyondRounding = 8;  // times what slightly changed inputs make of an output

// The graph with every tensor that it computes as an output.
Graph with_all_outputs(const Graph& graph) {
  Graph result = graph;
  std::vector<GraphOutput> outputs;
  for (const auto& node : graph.nodes())
    for (const ValueId id : node->outputs)
      if (id != kNoValue && graph.value(id).shape_known && graph.value(id).type.type != DataType::kUndefined &&
          graph.value(id).type.type != DataType::kString && !graph.is_constant(id))
        outputs.push_back({"v" + std::to_string(id), id, graph.value(id).type, true});
  result.set_outputs(std::move(outputs));
  return result;
}

constexpr double kSlightly = 0x1p-20;

// Whole numbers stay: an exponent or a count is no rounding.
Tensor slightly_changed(const Tensor& tensor) {
  if (!is_real(tensor.type())) return tensor;
  std::vector<double> elements = tensor.reals();
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (elements[i] != std::floor(elements[i])) elements[i] *= i % 2 == 0 ? 1 + kSlightly : 1 - kSlightly;
  return Tensor::from_reals(tensor.type(), tensor.sizes(), elements);
}

std::vector<Tensor> slightly_changed(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> result;
  for (const Tensor& input : inputs) result.push_back(slightly_changed(input));
  return result;
}

Graph with_slightly_changed_weights(const Graph& graph) {
  Graph result = graph;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (!graph.is_constant(id)) continue;
    Value value = graph.value(id);
    value.constant = slightly_changed(value.constant);
    result.set_value(id, std::move(value));
  }
  return result;
}

// Weights of elements, from 0 to 1, in their order.
double next_weight(std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(state >> 40) * 0x1p-24;
}

// Sums of equal elements in different orders differ by rounding alone.
bool has_same_sum(double a, double b, double magnitude) { return std::abs(a - b) <= kMoved * magnitude; }

// The sum of elements, each times a weight for its place on the axis.
std::vector<double> sums_by_axis(const Sizes& sizes, const std::vector<double>& elements) {
  const auto weight = [](std::uint64_t place) {
    return static_cast<double>((place + 1) * 11400714819323198485u >> 40) * 0x1p-24;
  };
  std::vector<double> result;
  std::size_t inner = elements.size();
  for (const std::int64_t size : sizes) {
    if (size <= 0 || elements.empty()) return std::vector<double>(sizes.size());
    inner /= static_cast<std::size_t>(size);
    double sum = 0;
    for (std::size_t at = 0; at < elements.size(); at += inner) {
      double part = 0;
      for (std::size_t k = at; k < at + inner; ++k) part += std::isfinite(elements[k]) ? elements[k] : 0;
      sum += part * weight(at / inner % static_cast<std::size_t>(size));
    }
    result.push_back(sum);
  }
  return result;
}

// Inputs of integers of few bits that are no positions, from the whole range of their types and often at its ends: what wraps
// around or saturates does so there.
void spread(const Graph& graph, std::vector<Tensor>& inputs, std::uint64_t seed) {
  constexpr int kNarrow = 16;             // bits
  constexpr std::uint64_t kOneIsEnd = 4;  // of so many elements
  const std::vector<std::string> free = optimizer::inputs_without_range(graph);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DataType type = inputs[i].type();
    const std::string& name = graph.value(graph.inputs()[i]).name;
    if (!is_integer(type) || packed_bits(type) > kNarrow || std::find(free.begin(), free.end(), name) == free.end()) continue;
    const Range range = range_of(type);
    const auto low = static_cast<std::int64_t>(range.low), high = static_cast<std::int64_t>(range.high);
    std::vector<std::int64_t> elements(static_cast<std::size_t>(inputs[i].size()));
    for (std::int64_t& e : elements) {
      const bool is_end = random() % kOneIsEnd == 0;
      const std::uint64_t drawn = random();
      e = is_end ? (drawn % 2 == 0 ? low : high)
                 : low + static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(high - low + 1));
    }
    inputs[i] = Tensor::from_integers(type, inputs[i].sizes(), elements);
  }
}

bool all_finite(const Tensor& tensor) {
  if (!is_real(tensor.type())) return true;
  const std::vector<double> elements = tensor.reals();
  return std::all_of(elements.begin(), elements.end(), [](double e) { return std::isfinite(e); });
}

}  // namespace

Samples::Samples(const Graph& a, const Graph& b, const Joint& joint, std::vector<CheckExecutor> executors, bool in_double)
    : a_(a), b_(b), joint_(joint), executors_(std::move(executors)), in_double_(in_double) {}

Samples::Summary Samples::summary_of(const Tensor& tensor) {
  Summary s;
  s.type = tensor.type(), s.sizes = tensor.sizes();
  const std::vector<double> elements = tensor.reals();
  std::uint64_t state = 1;
  for (const double e : elements) {
    s.largest = std::max(s.largest, std::isfinite(e) ? std::abs(e) : 0);
    const double weight = next_weight(state);
    if (!std::isfinite(e)) continue;
    s.sum += e, s.weighted += weight * e, s.magnitude += std::abs(e);
  }
  s.by_axis = sums_by_axis(s.sizes, elements);
  for (std::size_t k = 0; k < std::min(kElements, elements.size()); ++k)
    s.elements.push_back(elements[k * elements.size() / std::min(kElements, elements.size())]);
  return s;
}

bool Samples::agree(const Summary& a, const Summary& b) const {
  if (a.type != b.type || a.sizes != b.sizes) return false;
  // Quantized values are a step apart where rounding decides.
  const bool quantized = a.type == DataType::kInt8 || a.type == DataType::kUint8;
  const bool exact = !is_real(a.type) && !quantized;
  const double candidate = in_double_ ? kPrecise : kCandidate;
  const double most = std::max(a.largest, b.largest), scale = std::max(a.magnitude, b.magnitude);
  const auto close = [&](double x, double y, double of) {
    return x == y || (std::isnan(x) && std::isnan(y)) || (!exact && std::abs(x - y) <= candidate * of) ||
           (quantized && std::abs(x - y) <= std::max(1.0, candidate * of));
  };
  for (std::size_t k = 0; k < a.elements.size(); ++k)
    if (!close(a.elements[k], b.elements[k], most)) return false;
  return close(a.sum, b.sum, scale) && close(a.weighted, b.weighted, scale);
}

template <class Agrees>
bool Samples::in_all_samples(ValueId a, ValueId b, const Agrees& agrees) const {
  return !values_.empty() && std::all_of(values_.begin(), values_.end(), [&](const Summaries& values) {
    const auto x = values.find(a), y = values.find(b);
    return x != values.end() && y != values.end() && agrees(x->second, y->second);
  });
}

bool Samples::agree(ValueId a, ValueId b) const {
  return in_all_samples(a, b, [&](const Summary& x, const Summary& y) { return agree(x, y); });
}

double Samples::distance(ValueId a, ValueId b) const {
  double most = 0;
  in_all_samples(a, b, [&](const Summary& x, const Summary& y) {
    const auto add = [&](double p, double q, double of) {
      if (of > 0 && std::isfinite(p) && std::isfinite(q)) most = std::max(most, std::abs(p - q) / of);
    };
    for (std::size_t k = 0; k < std::min(x.elements.size(), y.elements.size()); ++k)
      add(x.elements[k], y.elements[k], std::max(x.largest, y.largest));
    add(x.sum, y.sum, std::max(x.magnitude, y.magnitude));
    add(x.weighted, y.weighted, std::max(x.magnitude, y.magnitude));
    return true;
  });
  return most;
}

// Zeros behind elements change no sum, whatever its weights.
bool Samples::agree_filled_up(ValueId a, ValueId b) const {
  return in_all_samples(a, b, [](const Summary& x, const Summary& y) {
    if (x.by_axis.size() != y.by_axis.size()) return false;
    for (std::size_t k = 0; k < x.by_axis.size(); ++k)
      if (!has_same_sum(x.by_axis[k], y.by_axis[k], x.magnitude)) return false;
    return x.type == y.type && x.magnitude > 0 && has_same_sum(x.magnitude, y.magnitude, x.magnitude) &&
           has_same_sum(x.sum, y.sum, x.magnitude);
  });
}

bool Samples::agree_reshaped(ValueId a, ValueId b) const {
  return in_all_samples(a, b, [&](const Summary& x, const Summary& y) {
    Summary reshaped = x;
    reshaped.sizes = y.sizes;
    return x.magnitude > 0 && element_count(x.sizes) == element_count(y.sizes) && agree(reshaped, y);
  });
}

bool Samples::agree_negated(ValueId a, ValueId b) const {
  return in_all_samples(a, b, [&](const Summary& x, const Summary& y) {
    Summary negated = x;
    for (double& e : negated.elements) e = -e;
    negated.sum = -x.sum, negated.weighted = -x.weighted;
    return x.magnitude > 0 && agree(negated, y);
  });
}

bool Samples::agree_shifted(ValueId a, ValueId b, int number) const {
  return in_all_samples(a, b, [&](const Summary& x, const Summary& y) {
    if (x.sizes != y.sizes) return false;
    Summary shifted = y;
    const std::int64_t count = element_count(x.sizes);
    std::uint64_t state = 1;
    double weights = 0;
    for (std::int64_t n = 0; n < count; ++n) weights += next_weight(state);
    shifted.elements = x.elements;
    for (double& e : shifted.elements) e += number;
    shifted.sum = x.sum + number * static_cast<double>(count), shifted.weighted = x.weighted + number * weights;
    return agree(shifted, y);
  });
}

bool Samples::agree_transposed(ValueId a, ValueId b, const std::vector<std::size_t>& perm) const {
  return in_all_samples(a, b, [&](const Summary& x, const Summary& y) {
    if (x.sizes.size() != perm.size() || y.sizes.size() != perm.size()) return false;
    for (std::size_t k = 0; k < perm.size(); ++k)
      if (x.sizes[perm[k]] != y.sizes[k] || !has_same_sum(x.by_axis[perm[k]], y.by_axis[k], x.magnitude)) return false;
    return x.type == y.type && x.magnitude > 0 && has_same_sum(x.sum, y.sum, x.magnitude) &&
           has_same_sum(x.magnitude, y.magnitude, x.magnitude);
  });
}

bool Samples::agree_moved(ValueId a, ValueId b) const {
  return in_all_samples(a, b, [](const Summary& x, const Summary& y) {
    return x.type == y.type && x.magnitude > 0 && has_same_sum(x.sum, y.sum, x.magnitude) &&
           has_same_sum(x.magnitude, y.magnitude, x.magnitude) && has_same_sum(x.largest, y.largest, x.largest);
  });
}

bool Samples::has(ValueId id) const { return !values_.empty() && values_[0].count(id) > 0; }

bool Samples::is_zero(ValueId id) const {
  return in_all_samples(id, id, [](const Summary& s, const Summary&) {
    return std::all_of(s.elements.begin(), s.elements.end(), [](double e) { return e == 0; }) && s.magnitude == 0;
  });
}

std::optional<double> Samples::only_number(ValueId id) const {
  if (!has(id) || values_[0].at(id).elements.empty()) return std::nullopt;
  const double number = values_[0].at(id).elements[0];
  const bool only = in_all_samples(id, id, [&](const Summary& s, const Summary&) {
    const double magnitude = std::abs(number) * static_cast<double>(element_count(s.sizes));
    return std::all_of(s.elements.begin(), s.elements.end(), [&](double e) { return e == number; }) &&
           has_same_sum(s.magnitude, magnitude, magnitude);
  });
  return only && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::uint64_t Samples::key(ValueId id) const {
  const Summary& s = values_.at(0).at(id);
  std::uint64_t key = static_cast<std::uint64_t>(s.type);
  for (const std::int64_t size : s.sizes) key = hash_mix(key, static_cast<std::uint64_t>(size));
  return key;
}

// Runs with all values as outputs.
Samples::Executed Samples::execute(const Graph& graph, const std::vector<Tensor>& inputs, bool is_second) const {
  const Graph all = with_all_outputs(graph);
  const std::vector<Tensor> results = outputs_only(all, inputs);
  Executed executed;
  std::map<ValueId, std::size_t> number;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const ValueId id = all.outputs()[k].value;
    number.emplace(id, k);
    executed.values.emplace(is_second ? joint_.of_second(id) : id, summary_of(results[k]));
  }
  // One model may compute what is a constant of the other one: zeros, by a node that fills a tensor.
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (const Tensor& constant = graph.value(id).constant;
        constant && constant.type() != DataType::kString && constant.size() <= kMostOfConstant)
      executed.values.emplace(is_second ? joint_.of_second(id) : id, summary_of(constant));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    executed.values.emplace(is_second ? joint_.of_second(graph.inputs()[i]) : graph.inputs()[i], summary_of(inputs[i]));
  for (const GraphOutput& output : graph.outputs()) {
    if (const auto found = number.find(output.value); found != number.end()) {
      executed.outputs.push_back(results[found->second]);
    } else if (graph.is_constant(output.value)) {
      executed.outputs.push_back(graph.value(output.value).constant);
    } else {
      const auto input = std::find(graph.inputs().begin(), graph.inputs().end(), output.value);
      if (input == graph.inputs().end()) return {outputs_only(graph, inputs), std::move(executed.values)};
      executed.outputs.push_back(inputs[static_cast<std::size_t>(input - graph.inputs().begin())]);
    }
  }
  return executed;
}

// By the first executor that can.
std::vector<Tensor> Samples::outputs_only(const Graph& graph, const std::vector<Tensor>& inputs) const {
  std::optional<Error> failure;
  for (const CheckExecutor& executor : executors_) try {
      return executor.run(graph, inputs);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kMissing) throw;
      if (!failure || error.code() == ErrorCode::kBadInput) failure = error;
    }
  throw failure.value();
}

std::vector<Tensor> Samples::for_second(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> others;
  for (const ValueId id : b_.inputs()) {
    const auto at = std::find(a_.inputs().begin(), a_.inputs().end(), joint_.of_second(id));
    others.push_back(inputs.at(static_cast<std::size_t>(at - a_.inputs().begin())));
  }
  return others;
}

std::vector<Tensor> Samples::in_order_of_first(std::vector<Tensor> outputs) const {
  std::vector<Tensor> result;
  for (const auto& pair : joint_.outputs())
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (joint_.of_second(b_.outputs()[i].value) == pair.second) {
        result.push_back(outputs[i]);
        break;
      }
  return result;
}

bool Samples::add(const std::map<std::string, std::int64_t>& sizes, std::uint64_t seed) {
  const Graph a = with_named_sizes(a_, sizes);
  for (const Attempt& attempt : attempts(a)) try {
      if (attempt.draw == Draw::kMissing) continue;  // outputs that are not finite tell nothing
      std::vector<Tensor> inputs = random_inputs(a, {}, seed + attempt.seed, attempt.draw);
      if (attempt.draw == Draw::kUsual) spread(a, inputs, seed + attempt.seed);
      Executed first = execute(a, inputs, false);
      const std::vector<Tensor> others = for_second(inputs);
      const Graph b = with_sizes(b_, bind_sizes(b_, others));
      Executed second;
      try {
        second = execute(b, others, true);
      } catch (const Error& error) {
        note_ = std::string("the second one cannot be executed: ") + error.what();
        return false;
      }
      compare(inputs, a, first.outputs, in_order_of_first(second.outputs));
      first.values.merge(second.values);
      values_.push_back(std::move(first.values));
      return true;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kMissing) throw;
      if (note_.empty()) note_ = error.what();
    }
  return false;
}

std::vector<double> Samples::differences(const std::map<std::string, std::int64_t>& sizes,
                                         const std::map<std::string, ValueRange>& ranges, std::uint64_t seed) const {
  const Graph a = with_named_sizes(a_, sizes);
  std::vector<Tensor> inputs = random_inputs(a, {}, seed);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_real(inputs[i].type())) continue;
    const auto given = ranges.find(a_.value(a_.inputs()[i]).name);
    const ValueRange range = given == ranges.end() ? ValueRange{} : given->second;
    std::vector<double> elements(static_cast<std::size_t>(inputs[i].size()));
    for (double& e : elements) {
      const double part =
          seed % 2 == 0 ? std::uniform_real_distribution<double>(0, 1)(random) : static_cast<double>(random() % 2);
      e = range.low + part * (range.high - range.low);
    }
    inputs[i] = Tensor::from_reals(inputs[i].type(), inputs[i].sizes(), elements);
  }
  const std::vector<Tensor> others = for_second(inputs), x = outputs_only(a, inputs);
  const std::vector<Tensor> y = in_order_of_first(outputs_only(with_sizes(b_, bind_sizes(b_, others)), others));
  std::vector<double> result;
  for (std::size_t k = 0; k < x.size(); ++k) result.push_back(is_real(x[k].type()) ? difference(x[k], y.at(k)).absolute : 0);
  return result;
}

// Outputs differ if they do so by more than rounding does, twice: with and without inner values as outputs.
void Samples::compare(const std::vector<Tensor>& inputs, const Graph& sized, const std::vector<Tensor>& x,
                      const std::vector<Tensor>& y) {
  if (counterexample_ || has_random_results(a_) || has_random_results(b_)) return;
  std::vector<Tensor> again, others, shaken;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!all_finite(x[i])) continue;
    const auto differs = [&](const Tensor& p, const Tensor& q) -> std::optional<Difference> {
      if (p.type() != q.type() || p.sizes() != q.sizes()) return Difference{HUGE_VAL, 1, false};
      const Difference d = difference(p, q);
      const double tolerated = in_double_ && is_real(p.type()) ? kPrecise : tolerated_relative_error(p.type());
      if (d.absolute == 0 || d.relative() <= tolerated) return std::nullopt;
      return d;
    };
    const auto d = differs(x[i], y[i]);
    if (!d) continue;
    if (again.empty()) {
      again = outputs_only(sized, inputs);
      const std::vector<Tensor> to_second = for_second(inputs);
      others = in_order_of_first(outputs_only(with_sizes(b_, bind_sizes(b_, to_second)), to_second));
      // Integers are no roundings: only weights are changed then.
      const bool has_reals = std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return is_real(t.type()); });
      shaken = outputs_only(in_double_ || !has_reals ? with_slightly_changed_weights(sized) : sized, slightly_changed(inputs));
    }
    if (!differs(again[i], others[i])) continue;
    const bool comparable = shaken[i].type() == x[i].type() && shaken[i].sizes() == x[i].sizes();
    const double unavoidable = comparable ? difference(x[i], shaken[i]).absolute : 0;
    if (d->absolute <= kBeyondRounding * unavoidable) continue;
    counterexample_ = {inputs, sized.outputs()[i].name, d->absolute, d->relative()};
    return;
  }
}

}  // namespace rewright::equivalence
