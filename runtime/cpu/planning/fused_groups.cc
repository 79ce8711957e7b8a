#include "runtime/cpu/planning/fused_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/cpu/planning/grouping.h"
#include "runtime/cpu/tile/arrangement.h"
#include "runtime/planning/traits.h"
#include "runtime/planning/value_uses.h"

namespace rewright::cpu {

namespace {

using planning::Group;
using Kind = ElementNode::Kind;

constexpr std::size_t kMostFused = 12, kMostFusedOperands = 24;
// Steps of reductions for each element that is read. Products and sums of windows have more, and loops of their own.
constexpr std::int64_t kMostReuse = 2;

class FusedGroupsFinder {
 public:
  FusedGroupsFinder(const Planner& planner, const std::vector<Group>& groups) : planner_(planner), groups_(groups) {
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (is_eligible(groups[g])) eligible_.push_back(g);
  }

  std::vector<FusedGroups> find() {
    if (!read_each_other()) return {};
    find_readers();
    for (const std::size_t g : eligible_) add(g);
    std::vector<FusedGroups> found;
    for (const std::set<std::size_t>& set : sets_) {
      if (set.size() < 2 || !is_worthwhile(set)) continue;
      FusedGroups& fused = found.emplace_back();
      fused.groups.assign(set.begin(), set.end());
      for (const std::size_t g : set) fused.is_result.push_back(!is_within(g, set));
    }
    return found;
  }

 private:
  const Node& node(int number) const { return *planner_.graph().nodes()[static_cast<std::size_t>(number)]; }

  // Most graphs have no such groups, and plans for new sizes are made often.
  bool read_each_other() const {
    std::set<ValueId> results;
    for (const std::size_t g : eligible_) {
      const std::vector<ValueId>& operands = groups_[g].chain->operands();
      if (std::any_of(operands.begin(), operands.end(), [&](ValueId v) { return results.contains(v); })) return true;
      results.insert(groups_[g].result);
    }
    return false;
  }

  void find_readers() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::set<ValueId> computed;
      for (const int n : groups_[g].nodes)
        for (const ValueId o : node(n).outputs) computed.insert(o);
      for (const int n : groups_[g].nodes)
        for (const ValueId i : node(n).inputs)
          if (i != kNoValue && !computed.contains(i)) readers_[i].insert(g);
      for (const ValueId v : groups_[g].reads) readers_[v].insert(g);
    }
    for (const GraphOutput& o : planner_.graph().outputs()) outputs_.insert(o.value);
  }

  bool is_eligible(const Group& group) const {
    if (!group.chain || group.kernel || group.view || group.copy || group.result == kNoValue) return false;
    if (planner_.info(group.result).type != DataType::kFloat) return false;
    if (std::any_of(group.nodes.begin(), group.nodes.end(), [&](int n) { return instead_of(planner_, n).has_value(); }))
      return false;
    const Chain& chain = *group.chain;
    if (element_count(planner_.info(group.result).sizes) == 0) return false;
    std::int64_t largest = 1;
    for (const ValueId v : chain.operands()) {
      if (v == kNoValue || !computable_by_expressions(planner_.info(v).type)) return false;
      largest = std::max(largest, element_count(planner_.info(v).sizes));
    }
    std::map<const ElementNode*, std::int64_t> known;
    const std::int64_t steps = reduced_steps(chain.element(), known);
    if (steps > 1 && element_count(planner_.info(group.result).sizes) > kMostReuse * largest / steps) return false;
    return steps > 0;
  }

  // Steps of reductions for an element; 0: they are of other kinds, such as running sums, or positions are read from tensors.
  static std::int64_t reduced_steps(const Element& e, std::map<const ElementNode*, std::int64_t>& known) {
    if (const auto found = known.find(e.get()); found != known.end()) return found->second;
    std::int64_t steps = e->kind == Kind::kChoose || planning::has_position(*e) ? 0 : 1;
    for (const Element& argument : e->arguments) {
      const std::int64_t inner = reduced_steps(argument, known);
      steps = steps == 0 || inner == 0 ? 0 : std::max(steps, inner);
    }
    if (e->kind == Kind::kReduce) {
      const bool is_plain = e->conditions.empty() && e->bound.is_constant();
      steps = is_plain ? steps * std::max<std::int64_t>(1, e->bound.value()) : 0;
    }
    known[e.get()] = steps;
    return steps;
  }

  // Adds the group to the sets of its producers, all of them as one if that is possible.
  void add(std::size_t g) {
    std::set<std::size_t> producers;  // positions in sets_
    for (const ValueId v : groups_[g].chain->operands())
      for (std::size_t s = 0; s < sets_.size(); ++s)
        for (const std::size_t member : sets_[s])
          if (groups_[member].result == v) producers.insert(s);
    std::set<std::size_t> all{g};
    for (const std::size_t s : producers) all.insert(sets_[s].begin(), sets_[s].end());
    if (is_possible(all)) {
      for (auto s = producers.rbegin(); s != producers.rend(); ++s)
        sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(*s));
      sets_.push_back(std::move(all));
      return;
    }
    for (const std::size_t s : producers) {
      std::set<std::size_t> one = sets_[s];
      one.insert(g);
      if (!is_possible(one)) continue;
      sets_[s] = std::move(one);
      return;
    }
    sets_.push_back({g});
  }

  bool is_possible(const std::set<std::size_t>& set) const {
    if (set.size() > kMostFused) return false;
    std::set<ValueId> operands, results;
    const std::size_t last = *set.rbegin();
    for (const std::size_t g : set) {
      operands.insert(groups_[g].chain->operands().begin(), groups_[g].chain->operands().end());
      results.insert(groups_[g].result);
      const auto readers = readers_.find(groups_[g].result);
      if (readers == readers_.end()) continue;
      for (const std::size_t r : readers->second)
        if (!set.contains(r) && r < last) return false;
    }
    return operands.size() + 1 <= results.size() + kMostFusedOperands;
  }

  // Only searched loops fuse groups that stay in the caches. The set is computed where its last member is, so that operands
  // may lie in memory longer: no more of them than of results that are not stored.
  bool is_worthwhile(const std::set<std::size_t>& set) const {
    std::set<ValueId> operands, results;
    std::int64_t touched = 0, longer = 0, spared = 0;
    for (const std::size_t g : set) {
      operands.insert(groups_[g].chain->operands().begin(), groups_[g].chain->operands().end());
      results.insert(groups_[g].result);
      if (is_within(g, set)) spared += bytes_of(groups_[g].result);
    }
    for (const ValueId v : results) touched += bytes_of(v), operands.erase(v);
    for (const ValueId v : operands) {
      touched += bytes_of(v);
      const auto readers = readers_.find(v);
      // The planner's own values, as folded numbers of batch normalizations, are none of the graph's.
      const bool is_given = v >= planner_.graph().value_count() || planner_.is_constant(v) || planner_.graph().is_input(v);
      const bool is_kept = is_given || outputs_.contains(v);
      if (!is_kept && readers != readers_.end() && *readers->second.rbegin() < *set.rbegin()) longer += bytes_of(v);
    }
    return longer <= spared && (touched >= kLeastBandedBytes || planner_.options().choices != nullptr);
  }

  std::int64_t bytes_of(ValueId v) const {
    return element_count(planner_.info(v).sizes) * static_cast<std::int64_t>(byte_size(planner_.info(v).type));
  }

  bool is_within(std::size_t g, const std::set<std::size_t>& set) const {
    const ValueId result = groups_[g].result;
    const auto readers = readers_.find(result);
    return !outputs_.contains(result) && readers != readers_.end() &&
           std::all_of(readers->second.begin(), readers->second.end(), [&](std::size_t r) { return set.contains(r); });
  }

  const Planner& planner_;
  const std::vector<Group>& groups_;
  std::vector<std::size_t> eligible_;
  std::map<ValueId, std::set<std::size_t>> readers_;
  std::set<ValueId> outputs_;
  std::vector<std::set<std::size_t>> sets_;
};

}  // namespace

std::vector<FusedGroups> find_fused_groups(const Planner& planner, const std::vector<Group>& groups) {
  return FusedGroupsFinder(planner, groups).find();
}

}  // namespace rewright::cpu
