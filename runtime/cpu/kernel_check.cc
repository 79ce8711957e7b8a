#include "runtime/cpu/kernel_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "runtime/cpu/dnnl_support.h"

namespace rewright::cpu {

namespace {

// An element that takes more is left out: some tenths of a second.
constexpr std::int64_t kMostReads = 4'000'000;
constexpr std::size_t kLeastElements = 2;
constexpr double kMostInterpreted = 2e9;  // operations: about a minute
// Beside an element's own bound: what is rounded to less than a float's smallest normal number.
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

}  // namespace

KernelCheck::KernelCheck(const Plan& plan, const CheckExtent& extent, std::uint64_t seed)
    : plan_(plan),
      graph_(*plan.graph),
      extent_(extent),
      random_(seed),
      written_(plan.storages.size(), -1),
      to_check_(plan.steps.size()),
      first_place_(graph_.value_count(), -1),
      sampler_(graph_, [this](ValueId v) { return find(v); }),
      found_(graph_.value_count()) {
  for (std::size_t n = 0; n < plan.steps.size(); ++n)
    for (int s : plan.steps[n].outputs)
      for (; s >= 0; s = plan.storages[s].part_of) written_[s] = static_cast<int>(n);
  for (std::size_t n = 0; n < plan.values.size(); ++n) {
    const PlannedValue& v = plan.values[n];
    if (v.pixel_stride == 0 && !v.copy) first_place_[v.value] = static_cast<int>(n);
    if (written_[v.storage] >= 0) to_check_[written_[v.storage]].push_back(n);
  }
  for (const std::vector<std::size_t>& results : to_check_) counts_.steps += !results.empty();
}

KernelCheck::Place KernelCheck::place_of(const PlannedValue& value) const {
  const Sizes sizes = values(graph_.value(value.value).type.shape);
  Place place;
  place.layout = value.layout;
  place.pixel_stride = value.pixel_stride;
  if (value.layout.plain()) return place;
  place.pictures = sizes[0];
  place.channels = sizes[1];
  place.pixels = element_count(std::span(sizes).subspan(2));
  return place;
}

// Where the element at a row-major place lies.
std::int64_t KernelCheck::Place::from_plain(std::int64_t at) const {
  if (layout.plain()) return at;
  const std::int64_t pixel = at % pixels, channel = at / pixels % channels, picture = at / pixels / channels;
  if (layout.channels_last()) return (picture * pixels + pixel) * (pixel_stride > 0 ? pixel_stride : channels) + channel;
  const std::int64_t b = layout.channels, blocks = (channels + b - 1) / b;
  return ((picture * blocks + channel / b) * pixels + pixel) * b + channel % b;
}

std::unique_ptr<StoredElements> KernelCheck::stored(const PlannedValue& value) const {
  const TensorType& type = graph_.value(value.value).type;
  const Place place = place_of(value);
  const std::int64_t count = stored_elements(values(type.shape), value.layout);
  std::function<std::int64_t(std::int64_t)> at;
  if (!place.layout.plain()) at = [place](std::int64_t plain) { return place.from_plain(plain); };
  return stored_elements_of(type.type, count, addresses_[static_cast<std::size_t>(value.storage)], std::move(at));
}

// Is what belongs into the storage there, now that a step has run?
bool KernelCheck::is_there(int s) const {
  if (written_[s] > static_cast<int>(now_)) return false;
  while (plan_.storages[s].part_of >= 0) s = plan_.storages[s].part_of;
  const Storage& root = plan_.storages[s];
  if (root.kind == Storage::Kind::kInput || root.kind == Storage::Kind::kConstant) return true;
  return root.first >= 0 && root.first <= static_cast<int>(now_) && static_cast<int>(now_) <= root.last;
}

const StoredElements* KernelCheck::find(ValueId value) {
  if (found_[value]) return found_[value].get();
  const int number = first_place_[value];
  if (number < 0 || !is_there(plan_.values[static_cast<std::size_t>(number)].storage)) return nullptr;
  found_[value] = stored(plan_.values[static_cast<std::size_t>(number)]);
  looked_up_.push_back(value);
  return found_[value].get();
}

// The first and the last, where kernels treat what is left over, and others by chance.
std::vector<std::int64_t> KernelCheck::positions(std::int64_t count) {
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

void KernelCheck::after(std::size_t number, std::span<std::byte* const> addresses) {
  now_ = number;
  addresses_ = addresses;
  if (to_check_[number].empty()) return;
  const Step& step = plan_.steps[number];
  const double start = seconds_now();
  // What is left of the time is shared by the steps that are left, with something ahead of it for those that take longer.
  const double left = std::max(0.0, extent_.seconds - spent_);
  const double share = 4 * left / static_cast<double>(plan_.steps.size() - number);
  bool checked = true;
  for (const std::size_t v : to_check_[number]) checked = check(plan_.values[v], step, start + share) && checked;
  counts_.checked += checked;
  sampler_.forget();
  for (const ValueId v : looked_up_) found_[v].reset();
  looked_up_.clear();
  spent_ += seconds_now() - start;
}

// False if nothing of it could be compared.
bool KernelCheck::check(const PlannedValue& value, const Step& step, double deadline) {
  const TensorType& type = graph_.value(value.value).type;
  const std::int64_t count = element_count(values(type.shape));
  if (count == 0) return true;
  const std::unique_ptr<StoredElements> result = stored(value);
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
    if (tried >= kLeastElements && seconds_now() > deadline) break;
    ++tried;
    std::optional<Sample> sample;
    if (value.copy) {  // in another layout: the element as it was computed
      const StoredElements* const original = find(value.value);
      if (original == nullptr) return false;
      sample.emplace();
      sample->is_real = is_real;
      (is_real ? sample->real = original->real(at) : sample->integer = original->integer(at));
    } else {
      sample = sampler_.element(value.value, at, kMostReads);
    }
    if (!sample) return !compared.empty();
    if (!sample->certain || (is_real && !std::isfinite(sample->real))) {
      ++uncertain;
      continue;
    }
    largest_error = std::max(largest_error, sample->error);
    compared.push_back({at, *sample, is_real ? result->real(at) : 0, is_real ? 0 : result->integer(at)});
  }
  counts_.elements += compared.size();
  const double more = step.kernel->rounding() > 1 && !value.copy ? step.kernel->rounding() * largest_error : 0;
  for (const Compared& c : compared) {
    const double expected = std::clamp(c.sample.real, static_cast<double>(value.low), static_cast<double>(value.high));
    const bool right = is_real ? std::fabs(c.real - expected) <= c.sample.error + more + kTiny : c.integer == c.sample.integer;
    if (right) continue;
    const bool generated = step.kernel->source() == "generated code";
    const bool replaceable = !value.copy && (!generated || step.flops < kMostInterpreted);
    faults_.push_back({value.copy ? std::vector<int>() : step.nodes, generated, replaceable,
                       is_real ? message(value, step, c.at, text(c.real), text(expected))
                               : message(value, step, c.at, std::to_string(c.integer), std::to_string(c.sample.integer))});
    break;
  }
  return !compared.empty() || uncertain > 0;
}

std::string KernelCheck::sizes_of(ValueId value) const {
  const Value& v = graph_.value(value);
  return text(v.constant ? v.constant.sizes() : values(v.type.shape));
}

std::string KernelCheck::message(const PlannedValue& value, const Step& step, std::int64_t at, const std::string& found,
                                 const std::string& expected) const {
  std::string operands;
  if (!step.nodes.empty() && !value.copy)
    for (const ValueId i : graph_.nodes()[static_cast<std::size_t>(step.nodes.front())]->inputs)
      if (i != kNoValue) operands += (operands.empty() ? "" : ", ") + sizes_of(i);
  Sizes position;
  const Sizes sizes = values(graph_.value(value.value).type.shape);
  for (std::size_t a = sizes.size(); a-- > 0; at /= sizes[a]) position.insert(position.begin(), at % sizes[a]);
  std::string where;
  for (const std::int64_t p : position) where += (where.empty() ? "" : ", ") + std::to_string(p);
  return "\"" + step.node + "\" (" + (value.copy ? "a change of layout" : step.operators) +
         (operands.empty() ? "" : " of " + operands) + " to " + sizes_of(value.value) + "): " + step.kernel->source() +
         " computes " + found + " at [" + where + "], where the definition gives " + expected;
}

}  // namespace rewright::cpu
