#include "equivalence/sample_runs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"

namespace rewright::equivalence {

namespace {

constexpr std::size_t kMostCandidates = 4;  // tried for one value
constexpr double kNearest = 1e-5;           // what is nearer is as good
constexpr double kFarther = 30;             // times the nearest candidate's distance: another value
constexpr std::chrono::seconds kShortly{2};

// A rounding decides which of two integers a real becomes, so that a small difference becomes a large one.
bool rounds_to_few_bits(const Graph& graph) {
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (const DataType type = graph.value(id).type.type;
        !graph.is_constant(id) && (type == DataType::kInt8 || type == DataType::kUint8))
      return true;
  return false;
}

}  // namespace

SampleRuns::SampleRuns(const Graph& a, const Graph& b, const Joint& joint, const ProveOptions& options,
                       std::function<bool(std::chrono::steady_clock::time_point)> is_over)
    : a_(a), b_(b), joint_(joint), options_(options), is_over_(std::move(is_over)), samples_(a, b, joint, options.executors) {}

std::vector<NamedSizes> SampleRuns::sizes() const {
  std::vector<NamedSizes> sizes = fitting_sizes(a_, {});
  const std::vector<std::string> open = open_sizes(a_, {});
  // Other sizes as well: what agrees at one may differ at another.
  for (const std::int64_t size : {3, 5}) {
    NamedSizes given;
    if (!open.empty()) given[open.front()] = size;
    if (!given.empty())
      for (const NamedSizes& fitting : fitting_sizes(a_, given)) {
        sizes.insert(sizes.begin() + std::min<std::ptrdiff_t>(1, std::ssize(sizes)), fitting);
        break;
      }
  }
  if (sizes.empty()) sizes.emplace_back();
  return sizes;
}

void SampleRuns::run(std::chrono::steady_clock::time_point end) {
  if (options_.executors.empty()) return;
  const std::vector<NamedSizes> all = sizes();
  std::size_t next = 0;
  for (int n = 0; n < options_.samples && !is_over_(end) && !samples_.counterexample(); ++n) {
    if (options_.progress) options_.progress(0.1 * n / options_.samples, "running both models");
    while (!samples_.add(all[next % all.size()], options_.seed + static_cast<std::uint64_t>(n)) && samples_.count() == 0 &&
           next + 1 < all.size())
      ++next;
    if (samples_.count() == 0) break;
    ++next;
  }
  for (ValueId id = 0; id < joint_.graph().value_count(); ++id)
    if (joint_.is_of_first(id) && samples_.has(id)) by_key_.emplace(samples_.key(id), id);
  for (ValueId id = 0; id < joint_.graph().value_count(); ++id)
    if (joint_.is_of_first(id) && !joint_.graph().value(id).name.empty()) by_name_.emplace(joint_.graph().value(id).name, id);
}

void SampleRuns::run_in_double() {
  if (options_.precise.empty() || rounds_to_few_bits(a_) || rounds_to_few_bits(b_)) return;
  precise_.emplace(a_, b_, joint_, options_.precise, true);
  const std::vector<NamedSizes> all = sizes();
  for (int n = 0; n < options_.samples && !precise_->counterexample() && !is_over_(options_.deadline); ++n) {
    if (options_.progress) options_.progress(0.9 + 0.1 * n / options_.samples, "running both models in double");
    if (!precise_->add(all[static_cast<std::size_t>(n) % all.size()], options_.seed + static_cast<std::uint64_t>(n)) && n > 0)
      break;
  }
}

void SampleRuns::run_in_double_shortly() {
  if (!options_.end_precise_runs) return run_in_double();
  options_.end_precise_runs(std::min(std::chrono::steady_clock::now() + kShortly, options_.deadline));
  try {
    run_in_double();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || is_over_(options_.deadline)) throw;
    precise_.reset();
  }
  options_.end_precise_runs(options_.deadline);
}

const std::optional<Counterexample>& SampleRuns::counterexample() const {
  return samples_.counterexample() || !precise_ ? samples_.counterexample() : precise_->counterexample();
}

const Samples& SampleRuns::telling() const { return tells_in_double() ? *precise_ : samples_; }

bool SampleRuns::differ(const Graph& x, const Graph& y) const {
  const Joint small(x, y, {});
  const bool in_double = tells_in_double();
  Samples tried(x, y, small, in_double ? options_.precise : options_.executors, in_double);
  const auto fitting = fitting_sizes(x, {});
  for (std::uint64_t seed = 0; seed < 2 && !tried.counterexample(); ++seed)
    tried.add(fitting.empty() ? NamedSizes{} : fitting.front(), options_.seed + seed);
  return tried.counterexample().has_value();
}

std::vector<ValueId> SampleRuns::candidates(ValueId b) const {
  std::vector<ValueId> found;
  std::set<ValueId> classes;
  const Value& value = joint_.graph().value(b);
  const auto offer = [&](ValueId a) {
    const Value& other = joint_.graph().value(a);
    if (joint_.is_constant(a) && joint_.producer(b) < 0) return;
    if (other.type == value.type && other.shape_known == value.shape_known && classes.insert(joint_.find(a)).second)
      found.push_back(a);
  };
  const auto name = by_name_.find(value.name);
  const bool named = name != by_name_.end();
  if (!samples_.has(b)) {
    if (named) offer(name->second);
    // Zeros that an absent operand stands for are in the table alone.
    if (is_filled_with_zeros(b))
      for (ValueId a = 0; a < joint_.graph().value_count() && joint_.is_of_first(a) && found.size() < kMostCandidates; ++a)
        if (samples_.is_zero(a)) offer(a);
    return found;
  }
  if (named && samples_.agree(name->second, b)) offer(name->second);
  const auto [from, to] = by_key_.equal_range(samples_.key(b));
  for (auto at = from; at != to; ++at)
    if (samples_.agree(at->second, b)) offer(at->second);
  return nearest(std::move(found), b);
}

// A value plus a small one agrees with the value alone, but not as well as with itself.
std::vector<ValueId> SampleRuns::nearest(std::vector<ValueId> found, ValueId b) const {
  std::vector<std::pair<double, ValueId>> near;
  for (const ValueId a : found) near.emplace_back(std::max(samples_.distance(a, b), kNearest), a);
  std::stable_sort(near.begin(), near.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  found.clear();
  for (const auto& [distance, a] : near)
    if (found.size() < kMostCandidates && distance <= near.front().first * kFarther) found.push_back(a);
  return found;
}

bool SampleRuns::is_filled_with_zeros(ValueId b) const {
  const std::int32_t position = joint_.producer(b);
  const Node* node = position < 0 ? nullptr : joint_.graph().nodes()[static_cast<std::size_t>(position)].get();
  if (!node || !node->op || node->op->name() != "Fill") return false;
  const Real* value = std::get_if<Real>(&node->attributes[node->op->field("value").value()]);
  return value && value->symbol.empty() && value->value == 0;
}

ValueId SampleRuns::namesake(ValueId b) const {
  const auto named = by_name_.find(joint_.graph().value(b).name);
  return named == by_name_.end() ? b : named->second;
}

}  // namespace rewright::equivalence
