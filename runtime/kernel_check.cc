#include "runtime/kernel_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "optimizer/devices/device.h"

namespace rewright::runtime {

namespace {

// Elements with more operations are not checked; this many take some tenths of a second.
constexpr std::int64_t kMostReads = 4'000'000;
constexpr std::size_t kLeastCompared = 2;
constexpr double kMostInterpreted = 2e9;  // operations: about a minute
constexpr std::uint64_t kMostRounds = 8;
// Added to an element's own bound: the rounding of results below a float's smallest normal number.
constexpr double kTiny = 1e-37;

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string text(double number) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.7g", number);
  return buffer;
}

std::string text(const Sizes& sizes) {
  std::string result;
  for (const std::int64_t s : sizes) result += (result.empty() ? "" : "x") + std::to_string(s);
  return result.empty() ? "a number" : result;
}

// False if no kernel was replaced.
bool replace_wrong(std::span<const KernelFault> faults, InsteadOf& instead, std::vector<std::string>& warnings) {
  bool replaced = false;
  for (const KernelFault& fault : faults) {
    const Instead other = fault.generated ? Instead::kReference : Instead::kGenerated;
    bool changed = false;
    if (fault.replaceable)
      for (const int node : fault.nodes) {
        const auto [at, is_new] = instead.emplace(node, other);
        changed = changed || is_new || at->second < other;
        at->second = std::max(at->second, other);
      }
    replaced = replaced || changed;
    const char* const then = !changed                       ? "nothing can take its place"
                             : other == Instead::kGenerated ? "generated code takes its place"
                                                            : "the interpreter takes its place";
    const std::string warning = fault.message + "; " + then;
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
  }
  return replaced;
}

}  // namespace

std::function<std::int64_t(std::int64_t)> channels_last_places(const Sizes& sizes, std::int64_t pixel_stride) {
  const std::int64_t channels = sizes[1], pixels = element_count(std::span(sizes).subspan(2));
  const std::int64_t stride = pixel_stride > 0 ? pixel_stride : channels;
  return [=](std::int64_t at) {
    const std::int64_t pixel = at % pixels, channel = at / pixels % channels, image = at / pixels / channels;
    return (image * pixels + pixel) * stride + channel;
  };
}

KernelComparison::KernelComparison(const Graph& graph, const CheckExtent& extent, std::uint64_t seed, Load load)
    : graph_(graph),
      extent_(extent),
      random_(seed),
      load_(std::move(load)),
      sampler_(graph_, [this](ValueId v) { return find(v); }),
      found_(graph_.value_count()) {}

const StoredElements* KernelComparison::find(ValueId value) {
  if (found_[value]) return found_[value].get();
  found_[value] = load_(value);
  if (found_[value]) looked_up_.push_back(value);
  return found_[value].get();
}

// The first and the last position, where kernels handle remainders, and random ones.
std::vector<std::int64_t> KernelComparison::positions(std::int64_t count) {
  std::vector<std::int64_t> result;
  if (count <= static_cast<std::int64_t>(extent_.elements)) {
    for (std::int64_t at = 0; at < count; ++at) result.push_back(at);
    std::shuffle(result.begin(), result.end(), random_);
    return result;
  }
  result = {count - 1, static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count)), 0};
  while (result.size() < extent_.elements)
    result.push_back(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count)));
  return result;
}

void KernelComparison::after(const CheckedStep& step, std::span<const CheckedResult> results, std::size_t steps_left) {
  ++counts_.steps;
  const double start = seconds_now();
  // Each step may use four times its even share of the remaining time, since most steps need much less.
  const double left = std::max(0.0, extent_.seconds - spent_);
  const double share = 4 * left / static_cast<double>(steps_left);
  bool checked = true;
  for (const CheckedResult& result : results) checked = check(result, step, start + share) && checked;
  counts_.checked += checked;
  sampler_.forget();
  for (const ValueId v : looked_up_) found_[v].reset();
  looked_up_.clear();
  spent_ += seconds_now() - start;
}

// False if no element could be compared.
bool KernelComparison::check(const CheckedResult& result, const CheckedStep& step, double deadline) {
  const TensorType& type = graph_.value(result.value).type;
  const std::int64_t count = element_count(values(type.shape));
  if (count == 0) return true;
  const bool is_real = scalar(type.type) == Scalar::kReal;
  struct Compared {
    std::int64_t at;
    Sample sample;
    double real = 0;
    std::int64_t integer = 0;
  };
  std::vector<Compared> compared;
  double largest_error = 0;
  std::size_t tried = 0, uncertain = 0;
  for (const std::int64_t at : positions(count)) {
    if (tried >= kLeastCompared && seconds_now() > deadline) break;
    ++tried;
    std::optional<Sample> sample;
    if (result.copy) {  // another layout of an element that was computed before
      const StoredElements* const original = find(result.value);
      if (original == nullptr) return false;
      sample.emplace();
      sample->is_real = is_real;
      (is_real ? sample->real = original->real(at) : sample->integer = original->integer(at));
    } else {
      sample = sampler_.element(result.value, at, kMostReads);
    }
    if (!sample) return !compared.empty();
    if (!sample->certain || (is_real && !std::isfinite(sample->real))) {
      ++uncertain;
      continue;
    }
    largest_error = std::max(largest_error, sample->error);
    compared.push_back({at, *sample, is_real ? result.elements->real(at) : 0, is_real ? 0 : result.elements->integer(at)});
  }
  counts_.elements += compared.size();
  const double more = step.rounding > 1 && !result.copy ? step.rounding * largest_error : 0;
  for (const Compared& c : compared) {
    const double expected = std::clamp(c.sample.real, result.low, result.high);
    const bool right = is_real ? std::fabs(c.real - expected) <= c.sample.error + more + kTiny : c.integer == c.sample.integer;
    if (right) continue;
    const bool generated = step.source == kGeneratedCode;
    const bool replaceable = !result.copy && (!generated || step.flops < kMostInterpreted);
    faults_.push_back({result.copy ? std::vector<int>() : step.nodes, generated, replaceable,
                       is_real ? message(result, step, c.at, text(c.real), text(expected))
                               : message(result, step, c.at, std::to_string(c.integer), std::to_string(c.sample.integer))});
    break;
  }
  return !compared.empty() || uncertain > 0;
}

std::string KernelComparison::sizes_of(ValueId value) const {
  const Value& v = graph_.value(value);
  return text(v.constant ? v.constant.sizes() : values(v.type.shape));
}

std::string KernelComparison::message(const CheckedResult& result, const CheckedStep& step, std::int64_t at,
                                      const std::string& found, const std::string& expected) const {
  std::string operands;
  if (!step.nodes.empty() && !result.copy)
    for (const ValueId i : graph_.nodes()[static_cast<std::size_t>(step.nodes.front())]->inputs)
      if (i != kNoValue) operands += (operands.empty() ? "" : ", ") + sizes_of(i);
  Sizes position;
  const Sizes sizes = values(graph_.value(result.value).type.shape);
  for (std::size_t a = sizes.size(); a-- > 0; at /= sizes[a]) position.insert(position.begin(), at % sizes[a]);
  std::string where;
  for (const std::int64_t p : position) where += (where.empty() ? "" : ", ") + std::to_string(p);
  return "\"" + step.node + "\" (" + (result.copy ? "a change of layout" : step.operators) +
         (operands.empty() ? "" : " of " + operands) + " to " + sizes_of(result.value) + "): " + step.source + " computes " +
         found + " at [" + where + "], where the definition gives " + expected;
}

CheckedRun checked_run(Session& session, std::span<const Tensor> inputs) {
  CheckedRun result{session.run(inputs), session.warnings()};
  const CheckedKernels counts = checked_kernels(session);
  result.steps = counts.steps;
  result.checked = counts.checked;
  result.elements = counts.elements;
  return result;
}

std::vector<Tensor> run_until_right(const std::function<ObservedRun(std::uint64_t seed)>& run, InsteadOf& instead,
                                    CheckedKernels& checked, std::vector<std::string>& warnings) {
  for (std::uint64_t round = 0;; ++round) {
    ObservedRun observed = run(round);
    if (round == 0) {
      checked.steps += observed.counts.steps;
      checked.checked += observed.counts.checked;
    }
    checked.elements += observed.counts.elements;
    if (!replace_wrong(observed.faults, instead, warnings) || round + 1 == kMostRounds) return std::move(observed.outputs);
  }
}

}  // namespace rewright::runtime
