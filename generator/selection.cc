#include "generator/selection.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_set>

#include "generator/candidates.h"

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;

class Selector {
 public:
  Selector(const Enumeration& enumeration, const SelectionOptions& options)
      : enumeration_(enumeration), forms_(enumeration.forms()), options_(options), theory_(forms_) {
    for (std::uint64_t n = 1; n <= 6; ++n) keys_.push_back(sound_key(enumeration.key() + n));
  }

  Selection run() {
    std::vector<Candidate> candidates = collect();
    std::size_t done = 0;
    for (const Candidate& candidate : candidates) {
      if (options_.stop.stop_requested()) break;
      consider(equation_of(candidate, enumeration_).tidied());
      if (options_.progress && ++done % 64 == 0)
        options_.progress(static_cast<double>(done) / static_cast<double>(candidates.size()), result_.kept.size());
    }
    if (options_.derivable) minimize();
    return std::move(result_);
  }

 private:
  // All members of an application with several outputs stand next to each other.
  bool siblings(std::size_t first) const {
    const auto& members = enumeration_.members();
    return first + 1 < members.size() && members[first].output == 0 && members[first + 1].output == 1 &&
           members[first + 1].form == members[first].form && members[first + 1].operands == members[first].operands;
  }
  bool is_best(std::size_t m) const {
    const Class& c = enumeration_.classes()[enumeration_.members()[m].result];
    return c.leaf >= forms_.configuration().leaves.size() && c.best == m;
  }

  std::vector<Candidate> collect() {
    std::vector<Candidate> candidates;
    std::unordered_set<std::uint64_t> seen;
    const auto& members = enumeration_.members();
    const auto keep = [&](Candidate candidate) {
      if (!describe(candidate, enumeration_)) return;
      ++result_.candidates;
      if (options_.renamings && !seen.insert(candidate.hash).second) {
        ++result_.pruned["renaming"];
        return;
      }
      candidates.push_back(candidate);
    };
    const auto graphlet = [&](std::size_t m) { return Graphlet{members[m].form, members[m].output, members[m].operands}; };
    const auto best = [&](std::size_t m) { return Graphlet{.operands = {members[m].result, kNoClass, kNoClass}}; };
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (siblings(m) && !is_best(m) && !is_best(m + 1)) {
        keep({.order = m, .left = graphlet(m), .right = {best(m), best(m + 1)}, .outputs = 2});
        ++m;
        continue;
      }
      if (is_best(m)) continue;
      const Class& c = enumeration_.classes()[members[m].result];
      if (options_.zeros && c.zero && m >= enumeration_.first_member(2)) {
        ++result_.candidates;
        ++result_.pruned["zero"];
        continue;
      }
      keep({.order = m, .left = graphlet(m), .right = {best(m), {}}});
    }
    std::sort(candidates.begin(), candidates.end(), comes_before);
    return candidates;
  }

  // A variable in place of what stands on both sides, wherever the equation holds all the same.
  Equation generalized(Equation q) const {
    for (bool changed = true; changed;) {
      changed = false;
      const std::vector<bool> left = q.reachable(q.left), right = q.reachable(q.right);
      for (std::size_t i = q.expressions.size(); i-- > 0 && !changed;) {
        if (q.expressions[i].kind == Kind::kVariable || !left[i] || !right[i]) continue;
        Equation general = q;
        general.expressions[i] = {
            Kind::kVariable,      general.variables++, 0, 0, {Expression::kNone, Expression::kNone, Expression::kNone},
            q.expressions[i].type};
        general = general.tidied();
        if (general.left == general.right || !holds_always(general)) continue;
        q = std::move(general);
        changed = true;
      }
    }
    return q;
  }

  // Kept equations that follow from the others, the most special first: the general ones are larger, and were found later.
  void minimize() {
    std::vector<std::uint32_t> order(result_.kept.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto special = [&](std::uint32_t n) {
      const Equation& q = result_.kept[n];
      return std::tuple(-static_cast<std::ptrdiff_t>(constant_count(q)), q.variables);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return special(a) < special(b); });
    std::vector<bool> dropped(order.size());
    for (const std::uint32_t n : order) {
      if (options_.stop.stop_requested()) break;
      theory_.set_active(n, false);
      dropped[n] = theory_.derives(result_.kept[n], options_.limits);
      theory_.set_active(n, !dropped[n]);
    }
    // Chains of derivations may have become longer than the limits.
    for (std::uint32_t n = 0; n < dropped.size(); ++n)
      if (dropped[n] && !theory_.derives(result_.kept[n], options_.limits)) {
        dropped[n] = false;
        theory_.set_active(n, true);
      }
    std::vector<Equation> kept;
    for (std::size_t n = 0; n < dropped.size(); ++n)
      if (!dropped[n]) kept.push_back(std::move(result_.kept[n]));
    result_.pruned["derivable"] += result_.kept.size() - kept.size();
    result_.kept = std::move(kept);
  }

  // With other random tensors, under several other keys: a maximum of two scalars is one of them by chance every other time.
  bool holds_always(const Equation& q) const {
    for (const std::uint64_t key : keys_)
      if (!holds(q, forms_, key)) return false;
    return true;
  }

  void consider(Equation q) {
    if (!holds_always(q)) {
      ++result_.pruned["coincidence"];
      return;
    }
    if (options_.instances) {
      q = generalized(std::move(q));
      if (!kept_.insert(canonical_hash(q, forms_)).second) {
        ++result_.pruned["instance"];
        return;
      }
    }
    if (options_.derivable && theory_.derives(q, options_.limits)) {
      ++result_.pruned["derivable"];
      return;
    }
    theory_.add(q);
    result_.kept.push_back(std::move(q));
  }

  const Enumeration& enumeration_;
  Forms& forms_;
  const SelectionOptions& options_;
  Theory theory_;  // equation n is result_.kept[n]
  std::vector<std::uint64_t> keys_;
  Selection result_;
  std::unordered_set<std::uint64_t> kept_;
};

}  // namespace

Selection select(const Enumeration& enumeration, const SelectionOptions& options) {
  return Selector(enumeration, options).run();
}

}  // namespace rewright::generator
