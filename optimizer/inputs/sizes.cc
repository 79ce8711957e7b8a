#include "optimizer/inputs/sizes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/execute.h"
#include "optimizer/inputs/inputs.h"
#include "optimizer/inputs/operations.h"

namespace rewright::optimizer {

namespace {

// In the order in which they are tried. A size of 1 hides many effects; images and sounds are halved repeatedly.
constexpr std::array<std::int64_t, 9> kUsualSizes = {16, 1, 32, 64, 128, 224, 256, 320, 16000};
constexpr double kMostElements = 1 << 28;  // in a tensor; larger ones are not tried
constexpr std::size_t kMostChoices = 6;
constexpr std::int64_t kStep = 8, kLargestOfGrid = 256;  // multiples that are tried in pairs if nothing else fits

struct OpenSizes {
  std::set<std::string> all, of_first_axes;
};

OpenSizes find_open(const Graph& graph, const NamedSizes& given) {
  OpenSizes open;
  const std::set<std::string> indexed = indexed_sizes(graph);
  for (const ValueId id : graph.inputs()) {
    const Indices& shape = graph.value(id).type.shape;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      for_each_atom(shape[axis], [&](const Atom& atom) {
        if (atom.kind != Atom::Kind::kSymbol || given.contains(atom.name)) return;
        open.all.insert(atom.name);
        if (axis == 0 && shape.size() > 1 && !indexed.contains(atom.name)) open.of_first_axes.insert(atom.name);
      });
  }
  return open;
}

// Conditions that only depend on open sizes.
struct Demands {
  std::vector<Condition> strict;      // required for operators to be well-typed
  std::vector<Condition> better;      // no tensor is empty
  std::vector<std::int64_t> numbers;  // numbers in the conditions: candidates for sizes
};

class DemandCollector {
 public:
  DemandCollector(const Graph& graph, const NamedSizes& given, const OpenSizes& open)
      : graph_(graph), given_(given), open_(open) {}

  Demands collect() {
    for (const auto& node : graph_.nodes()) {
      for (const ValueId id : node->outputs)
        if (id != kNoValue)
          for (const Index& size : graph_.value(id).type.shape) add(less_equal(1, size), demands_.better);
      if (node->op == nullptr) continue;
      try {
        const auto operands = graph_.operand_types(*node);
        const Definition definition = node->op->define(node->attributes, Inputs::of(std::span(operands)).types_only());
        for (const Requirement& requirement : definition.requirements()) add(requirement.condition, demands_.strict);
      } catch (const Error&) {  // found when the graph is typed with numbers
      }
    }
    demands_.numbers.assign(numbers_.begin(), numbers_.end());
    return std::move(demands_);
  }

 private:
  void add(const Condition& condition, std::vector<Condition>& list) {
    const Substitution known = substitution(given_);
    Condition sized{substitute(condition.left, known), condition.relation, substitute(condition.right, known)};
    if (sized.decided() || !is_about_open(sized.left) || !is_about_open(sized.right)) return;
    if (!seen_.insert(sized.to_string()).second) return;
    for (const Index* const side : {&sized.left, &sized.right}) note_numbers(*side);
    list.push_back(std::move(sized));
  }

  bool is_about_open(const Index& index) const {
    bool all = true;
    for_each_atom(index, [&](const Atom& atom) {
      const bool composed =
          atom.kind != Atom::Kind::kSymbol && atom.kind != Atom::Kind::kBound && atom.kind != Atom::Kind::kLoad;
      all = all && (composed || (atom.kind == Atom::Kind::kSymbol && open_.all.contains(atom.name)));
    });
    return all;
  }

  void note_numbers(const Index& index) {
    constexpr std::int64_t kMost = 1 << 16;
    const auto note = [&](std::int64_t number) {
      if (number > 0 && number <= kMost && numbers_.size() < 32) numbers_.insert(number);
    };
    note(index.constant_term());
    note(-index.constant_term());
    for_each_atom(index, [&](const Atom& atom) {
      for (const Index& argument : atom.arguments) {
        note(argument.constant_term());
        note(-argument.constant_term());
      }
    });
  }

  const Graph& graph_;
  const NamedSizes& given_;
  const OpenSizes& open_;
  Demands demands_;
  std::unordered_set<std::string> seen_;
  std::set<std::int64_t> numbers_;
};

// Changes one size at a time until all demands hold, always the one that leaves the fewest violated.
class Repair {
 public:
  Repair(const Demands& demands, const OpenSizes& open) : demands_(demands), open_(open) {
    for (const Condition& c : demands.strict) note(c);
    for (const Condition& c : demands.better) note(c);
  }

  NamedSizes from(NamedSizes sizes) {
    constexpr int kPatience = 12;  // steps without gain
    std::set<NamedSizes> visited{sizes};
    NamedSizes best = sizes;
    Violations least = violations(sizes);
    for (int idle = 0; idle < kPatience && least.first && evaluations_ < kMostEvaluations; ++idle) {
      const Violations now = violations(sizes);
      if (now.first == nullptr) break;
      auto next = best_change(*now.first, sizes, visited, kModest);
      if (!next || !(next->first < now)) next = best_change(*now.first, sizes, visited, kMostSize);
      if (!next) break;
      sizes = std::move(next->second);
      visited.insert(sizes);
      if (next->first < least) least = next->first, best = sizes, idle = 0;
    }
    return best;
  }

  // Networks that halve an image several times and split it into patches only fit certain pairs of height and width: no change
  // of one size improves anything. Sets the pair that leaves the fewest demands violated (the smallest such pair), and repairs
  // the rest.
  NamedSizes from_pairs(NamedSizes sizes) {
    std::size_t least = strictly_violated(sizes, std::numeric_limits<std::size_t>::max());
    const NamedSizes start = sizes;
    for (const auto& [one, other] : pairs_to_change(start))
      for (const auto& [a, b] : grid(one != other)) {
        if (least == 0 || evaluations_ >= kMostEvaluations) break;
        NamedSizes changed = start;
        changed[one] = a;
        if (one != other) changed[other] = b;
        const std::size_t left = strictly_violated(changed, least);
        if (left < least) least = left, sizes = std::move(changed);
      }
    evaluations_ = 0;
    return from(std::move(sizes));
  }

 private:
  using Pair = std::pair<std::string, std::string>;  // equal names: one size changes alone

  // The sizes in one violated demand, except those of first axes.
  std::set<Pair> pairs_to_change(const NamedSizes& sizes) const {
    constexpr std::size_t kMostPairs = 6;
    std::set<Pair> result;
    for (const Condition& condition : demands_.strict) {
      if (holds(condition, sizes)) continue;
      const std::set<std::string>& names = names_.at(&condition);
      for (const std::string& one : names)
        for (const std::string& other : names)
          if (one <= other && result.size() < kMostPairs && !open_.of_first_axes.contains(one) &&
              !open_.of_first_axes.contains(other))
            result.emplace(one, other);
    }
    return result;
  }

  // Pairs sorted by product.
  static std::vector<std::pair<std::int64_t, std::int64_t>> grid(bool of_two) {
    std::vector<std::pair<std::int64_t, std::int64_t>> result;
    for (std::int64_t a = kStep; a <= kLargestOfGrid; a += kStep)
      for (std::int64_t b = kStep; b <= (of_two ? kLargestOfGrid : kStep); b += kStep) result.emplace_back(a, b);
    std::stable_sort(result.begin(), result.end(),
                     [](const auto& x, const auto& y) { return x.first * x.second < y.first * y.second; });
    return result;
  }

  // The number of violated demands, counted up to `most`.
  std::size_t strictly_violated(const NamedSizes& sizes, std::size_t most) const {
    std::size_t number = 0;
    for (const Condition& condition : demands_.strict) {
      if (number >= most) break;
      ++evaluations_;
      if (!holds(condition, sizes)) ++number;
    }
    return number;
  }

  struct Violations {
    std::size_t strict = 0, better = 0;
    const Condition* first = nullptr;
    bool operator<(const Violations& b) const { return std::pair(strict, better) < std::pair(b.strict, b.better); }
  };

  // Larger sizes are tried only if no other helps, since they need memory and time.
  static constexpr std::int64_t kModest = 1024, kMostSize = std::numeric_limits<std::int64_t>::max();

  // The best change of a size in this condition to at most `most`, and the demands violated then.
  std::optional<std::pair<Violations, NamedSizes>> best_change(const Condition& violated, const NamedSizes& sizes,
                                                               const std::set<NamedSizes>& visited, std::int64_t most) const {
    std::optional<std::pair<Violations, NamedSizes>> best;
    for (const std::string& name : names_.at(&violated))
      for (const std::int64_t value : candidates(violated, name, sizes)) {
        NamedSizes changed = sizes;
        changed[name] = value;
        if (value > most || visited.contains(changed)) continue;
        const Violations left = violations(changed);
        if (!best || left < best->first) best = {left, std::move(changed)};
      }
    return best;
  }

  void note(const Condition& condition) {
    std::set<std::string>& names = names_[&condition];
    for (const Index* const side : {&condition.left, &condition.right})
      for_each_atom(*side, [&](const Atom& atom) {
        if (atom.kind == Atom::Kind::kSymbol && open_.all.contains(atom.name)) names.insert(atom.name);
      });
  }

  static std::optional<std::int64_t> difference(const Condition& condition, const NamedSizes& sizes) {
    try {
      const Substitution numbers = substitution(sizes);
      return (substitute(condition.right, numbers) - substitute(condition.left, numbers)).constant();
    } catch (const Error&) {  // a division by 0
      return std::nullopt;
    }
  }

  static bool holds(const Condition& condition, const NamedSizes& sizes) {
    const auto d = difference(condition, sizes);
    return d && Condition{0, condition.relation, *d}.decided() == true;
  }

  Violations violations(const NamedSizes& sizes) const {
    Violations result;
    const auto count = [&](const std::vector<Condition>& list, std::size_t& number) {
      evaluations_ += list.size();
      for (const Condition& condition : list) {
        if (holds(condition, sizes)) continue;
        ++number;
        if (result.first == nullptr) result.first = &condition;
      }
    };
    count(demands_.strict, result.strict);
    count(demands_.better, result.better);
    return result;
  }

  // If the condition is linear in the size, its solution first; then numbers from the demands, and usual sizes.
  std::vector<std::int64_t> candidates(const Condition& condition, const std::string& name, NamedSizes sizes) const {
    constexpr std::int64_t kFew = 16;
    std::vector<std::int64_t> result;
    const auto at = [&](std::int64_t value) {
      sizes[name] = value;
      return difference(condition, sizes);
    };
    if (const auto at_1 = at(1), at_2 = at(2), at_3 = at(3); at_1 && at_2 && at_3 && *at_3 - *at_2 == *at_2 - *at_1) {
      const std::int64_t slope = *at_2 - *at_1;
      if (slope != 0 && *at_1 % slope == 0 && 1 - *at_1 / slope >= 1) result.push_back(1 - *at_1 / slope);
    }
    for (std::int64_t value = 1; value <= kFew; ++value) result.push_back(value);
    for (const std::int64_t number : demands_.numbers)
      for (const std::int64_t multiple : {1, 2}) result.push_back(number * multiple);
    result.insert(result.end(), kUsualSizes.begin(), kUsualSizes.end());
    return result;
  }

  static constexpr std::size_t kMostEvaluations = 1'000'000;  // of conditions: about a second
  const Demands& demands_;
  const OpenSizes& open_;
  mutable std::size_t evaluations_ = 0;
  std::map<const Condition*, std::set<std::string>> names_;
};

bool is_well_typed(const Graph& graph, const NamedSizes& sizes) {
  const Substitution substitution = rewright::graph::substitution(sizes);
  Graph sized;
  std::unordered_map<ValueId, ValueId> local;
  const auto take = [&](ValueId id) {
    if (id == kNoValue) return id;
    const auto [entry, is_new] = local.try_emplace(id, 0);
    if (is_new) {
      Value value = graph.value(id);
      value.type.shape = substitute(value.type.shape, substitution);
      if (value.contents) value.contents = substitute(*value.contents, substitution);
      entry->second = sized.add_value(std::move(value));
    }
    return entry->second;
  };
  try {
    with_named_sizes(graph, sizes);  // named sizes are consistent
    for (const auto& node : graph.nodes()) {
      if (node->op == nullptr) continue;  // its results keep their declared types
      std::vector<ValueId> operands;
      for (const ValueId id : node->inputs) operands.push_back(take(id));
      const std::vector<ValueId> outputs = sized.add_node(*node->op, substitute(node->attributes, substitution), operands);
      for (std::size_t k = 0; k < node->outputs.size() && k < outputs.size(); ++k)
        if (node->outputs[k] != kNoValue) local.insert_or_assign(node->outputs[k], outputs[k]);
    }
  } catch (const Error&) {
    return false;
  }
  return true;
}

// The number of elements of the largest tensor.
double most_elements(const Graph& graph, const NamedSizes& sizes) {
  const Substitution substitution = rewright::graph::substitution(sizes);
  double most = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    double count = 1;
    for (const Index& size : graph.value(id).type.shape) try {
        count *= static_cast<double>(substitute(size, substitution).constant().value_or(1));
      } catch (const Error&) {
        count = std::numeric_limits<double>::infinity();
      }
    most = std::max(most, count);
  }
  return most;
}

constexpr std::int64_t kRows[] = {1000, 256, 64, 16, 4};
constexpr double kMostOperations = 3e8;  // some milliseconds

}  // namespace

std::string to_string(const NamedSizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += (text.empty() ? "" : ", ") + name + " " + std::to_string(size);
  return text;
}

std::vector<std::string> open_sizes(const Graph& graph, const NamedSizes& given) {
  const OpenSizes open = find_open(graph, given);
  return {open.all.begin(), open.all.end()};
}

std::vector<NamedSizes> fitting_sizes(const Graph& graph, const NamedSizes& given) {
  const OpenSizes open = find_open(graph, given);
  if (open.all.empty()) return {given};
  const Demands demands = DemandCollector(graph, given, open).collect();
  Repair repair(demands, open);
  std::vector<NamedSizes> result;
  std::set<NamedSizes> tried;
  for (const std::int64_t first : {1, 2}) {
    for (const std::int64_t usual : kUsualSizes) {
      NamedSizes start;
      for (const std::string& name : open.all) start.emplace(name, open.of_first_axes.contains(name) ? first : usual);
      NamedSizes sizes = repair.from(std::move(start));
      sizes.insert(given.begin(), given.end());
      if (result.size() >= kMostChoices || !tried.insert(sizes).second) continue;
      if (!result.empty() && most_elements(graph, sizes) > kMostElements) continue;
      if (is_well_typed(graph, sizes)) result.push_back(std::move(sizes));
    }
  }
  if (result.empty()) {
    NamedSizes start;
    for (const std::string& name : open.all) start.emplace(name, open.of_first_axes.contains(name) ? 1 : kUsualSizes.front());
    NamedSizes sizes = Repair(demands, open).from_pairs(std::move(start));
    sizes.insert(given.begin(), given.end());
    if (is_well_typed(graph, sizes) && most_elements(graph, sizes) <= kMostElements) result.push_back(std::move(sizes));
  }
  if (result.empty()) result.push_back(given);
  return result;
}

NamedSizes executable_sizes(const Graph& graph, const std::vector<NamedSizes>& choices, Device& device, TimingOptions timing) {
  if (choices.size() < 2 || !device.measures()) return choices.front();
  timing.min_seconds = timing.max_seconds = 0;
  timing.min_rounds = timing.warmup = 1;
  for (const NamedSizes& sizes : choices) {
    try {
      const Graph sized = with_named_sizes(graph, sizes);
      device.time_graphs({&sized, 1}, timing);
      return sizes;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kMissing) throw;
      if (error.code() == ErrorCode::kCancelled) return sizes;
    }
  }
  return choices.front();
}

std::optional<NamedSizes> with_more_rows(const Graph& graph, const NamedSizes& given, const NamedSizes& chosen, Device& device,
                                         TimingOptions timing) {
  NamedSizes sizes = chosen;
  std::vector<std::string> rows;
  for (const std::string& name : find_open(graph, given).of_first_axes)
    if (const auto at = chosen.find(name); at != chosen.end() && at->second == 1) rows.push_back(name);
  if (rows.empty()) return std::nullopt;
  timing.min_seconds = timing.max_seconds = 0;
  timing.min_rounds = timing.warmup = 1;
  for (const std::int64_t count : kRows) {
    for (const std::string& name : rows) sizes[name] = count;
    if (most_elements(graph, sizes) > kMostElements || !is_well_typed(graph, sizes)) continue;
    try {
      const Graph sized = with_named_sizes(graph, sizes);
      if (operations_of(sized) > kMostOperations) continue;
      if (device.measures()) device.time_graphs({&sized, 1}, timing);
      return sizes;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kMissing) throw;
      if (error.code() == ErrorCode::kCancelled) return std::nullopt;
    }
  }
  return std::nullopt;
}

Substitution sizes_or_one(NamedSizes sizes) {
  return [sizes = std::move(sizes)](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    const auto found = sizes.find(atom.name);
    return Index(found == sizes.end() ? std::int64_t{1} : found->second);
  };
}

std::vector<CostedSizes> sizes_or_one(std::span<const WeightedSizes> all) {
  std::vector<CostedSizes> result;
  for (const WeightedSizes& at : all) result.push_back({sizes_or_one(at.sizes), at.weight});
  return result;
}

Graph with_named_sizes(const Graph& graph, NamedSizes sizes) {
  for (const std::string& name : open_sizes(graph, sizes)) sizes.emplace(name, 1);
  return with_sizes(graph, substitution(sizes));
}

}  // namespace rewright::optimizer
