#include "verifier/suggestions.h"

#include <algorithm>
#include <list>
#include <random>

#include "base/error.h"
#include "rules/tester.h"

namespace rewright::proof {

namespace {

constexpr int kInstances = 60, kWanted = 12;      // sampled at first; of each kind, after which sampling stops
constexpr int kTrials = 10, kMaximumTrials = 14;  // instances tested for each candidate; candidates tested
constexpr int kMaximumProofs = 4;                 // proof attempts
constexpr int kAttempts = 300;                    // attempts to sample one instance

// Candidate conditions, the weaker ones first.
class Candidates {
 public:
  Candidates(const Rule& rule, const Bindings& example) {
    for (const PatternInput& input : rule.inputs) {
      for (const Indices& part : {input.shape.front, input.shape.back})
        for (const Index& size : part)
          for_each_atom(size, [&](const Atom& a) {
            if (a.kind == Atom::Kind::kSymbol) add_name(sizes_, a.name);
          });
      if (!input.shape.middle.empty()) add_name(shapes_, input.shape.middle);
      if (input.shape.open && input.shape.front.empty() && input.shape.middle.empty() && input.shape.back.empty())
        open_.push_back(input.name);
    }
    for (const auto& [name, value] : example.values()) {
      if (std::holds_alternative<Real>(value)) reals_.push_back(name);
      if (std::holds_alternative<Index>(value) && !contains(sizes_, name)) numbers_.push_back(name);
      if (std::holds_alternative<Indices>(value) && !contains(shapes_, name)) lists_.push_back(name);
    }
  }

  std::vector<RuleCondition> all() {
    const auto symbol = [](const std::string& name) { return Index::symbol(name); };
    pairs(numbers_, [&](const auto& a, const auto& b) { add(not_equal(symbol(a), symbol(b))); });
    for (const std::string& n : numbers_)
      for (const int value : {0, 1, 2, 3}) add(not_equal(symbol(n), value));
    for (const std::string& r : reals_)
      add(Predicate::Kind::kNonNegative, {real(r)}), add(Predicate::Kind::kPositive, {real(r)});
    for (const std::string& l : lists_)
      add(Predicate::Kind::kNonNegative, {list(l)}), add(Predicate::Kind::kPositive, {list(l)});
    for (const std::string& s : sizes_) add(equal(mod(symbol(s), 2), 1)), add(equal(mod(symbol(s), 2), 0));
    for (const std::string& s : sizes_)
      for (const std::string& g : numbers_) add(equal(mod(symbol(s), symbol(g)), 0));
    for (const std::vector<std::string>& names : {numbers_, sizes_})
      pairs(names, [&](const auto& a, const auto& b) { add(equal(symbol(a), symbol(b))); });
    for (const std::vector<std::string>& names : {lists_, shapes_})
      pairs(names, [&](const auto& a, const auto& b) { add(Predicate::Kind::kEqual, {list(a), list(b)}); });
    pairs(open_, [&](const auto& a, const auto& b) { add(Predicate::Kind::kEqual, {shape(a), shape(b)}); });
    for (const std::vector<std::string>& names : {numbers_, sizes_})
      for (const std::string& n : names) add(equal(symbol(n), 1));
    for (const std::string& n : numbers_)
      for (const int value : {0, 2, -1}) add(equal(symbol(n), value));
    for (const std::vector<std::string>& names : {lists_, shapes_})
      for (const std::string& l : names)
        for (const int value : {1, 0}) add(Predicate::Kind::kEqual, {list(l), repeated(list(l), value)});
    for (const std::string& r : reals_)
      for (const double value : {1.0, 0.0}) add(Predicate::Kind::kEqual, {real(r), Expression::literal(Real(value))});
    for (const std::vector<std::string>& names : {numbers_, sizes_})
      pairs(names, [&](const auto& a, const auto& b) {
        add(less_equal(symbol(a), symbol(b))), add(less_equal(symbol(b), symbol(a)));
        add(less(symbol(a), symbol(b))), add(less(symbol(b), symbol(a)));
      });
    for (const std::string& x : open_) add_ranks(x);
    return std::move(result_);
  }

 private:
  using Names = std::vector<std::string>;
  static bool contains(const Names& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  static void add_name(Names& names, const std::string& name) {
    if (!contains(names, name)) names.push_back(name);
  }
  template <class F>
  static void pairs(const Names& names, const F& f) {
    for (std::size_t i = 0; i < names.size(); ++i)
      for (std::size_t j = i + 1; j < names.size(); ++j) f(names[i], names[j]);
  }
  static Expression list(const std::string& name) { return Expression::variable(name); }
  static Expression real(const std::string& name) { return Expression::literal(Real::unknown(name)); }
  static Expression shape(const std::string& input) { return Expression::call("shape", {Expression::variable(input)}); }
  static Expression repeated(const Expression& list, int value) {
    return Expression::call("repeat", {Expression::literal(Index(value)), Expression::call("length", {list})});
  }

  void add(Condition condition) { result_.push_back({std::move(condition), {}}); }
  void add(Predicate::Kind kind, std::vector<Expression> arguments) {
    result_.push_back({Predicate{kind, std::move(arguments)}, {}});
  }
  void add_ranks(const std::string& input) {
    const Quantity rank{"rank_" + input, Expression::call("rank", {Expression::variable(input)})};
    const Index n = Index::symbol(rank.name);
    for (const int least : {1, 2}) result_.push_back({less_equal(least, n), rank});
    for (const int most : {3, 2, 1, 0}) result_.push_back({less_equal(n, most), rank});
  }

  Names sizes_, numbers_, shapes_, lists_, reals_, open_;
  std::vector<RuleCondition> result_;
};

class Suggester {
 public:
  Suggester(const Rule& rule, const ProofLimits& limits, Solver& solver, std::uint64_t seed)
      : rule_(rule), limits_(limits), solver_(solver), random_(seed), seed_(seed) {}

  std::vector<RuleCondition> run(const RuleInstance* counterexample) {
    if (counterexample) bad_.push_back(counterexample->bindings);
    sample_both_kinds();
    if (bad_.empty() || good_.empty()) return {};
    candidates_ = Candidates(rule_, bad_.front()).all();
    std::vector<std::vector<RuleCondition>> sets;
    for (const RuleCondition& c : candidates_) sets.push_back({c});
    if (auto found = search(std::move(sets)); !found.empty()) return found;
    return search(pairs());
  }

 private:
  void sample_both_kinds() {
    InstanceSampler sampler(rule_, seed_);
    for (int n = 0; n < kInstances; ++n) {
      const auto instance = sampler.sample(kAttempts);
      if (!instance) return;
      auto& kind = compare_sides(rule_, *instance, n, random_) ? bad_ : good_;
      if (kind.size() < kWanted) kind.push_back(instance->bindings);
      if (bad_.size() >= kWanted && good_.size() >= kWanted) return;
    }
  }

  static bool holds(const RuleCondition& c, const Bindings& instance) {
    const auto guards = c.guards(instance);
    return guards && std::all_of(guards->begin(), guards->end(), [](const Guard& g) { return g.decided() == true; });
  }
  static bool hold(const std::vector<RuleCondition>& set, const Bindings& instance) {
    return std::all_of(set.begin(), set.end(), [&](const RuleCondition& c) { return holds(c, instance); });
  }
  bool excludes_all_bad(const std::vector<RuleCondition>& set) const {
    return std::none_of(bad_.begin(), bad_.end(), [&](const Bindings& b) { return hold(set, b); });
  }
  std::ptrdiff_t weight(const std::vector<RuleCondition>& set) const {
    return std::count_if(good_.begin(), good_.end(), [&](const Bindings& b) { return hold(set, b); });
  }

  // Pairs that exclude counterexamples which neither excludes alone.
  std::vector<std::vector<RuleCondition>> pairs() const {
    std::vector<const RuleCondition*> useful;
    for (const RuleCondition& c : candidates_)
      if (weight({c}) > 0 && std::any_of(bad_.begin(), bad_.end(), [&](const Bindings& b) { return !holds(c, b); }))
        useful.push_back(&c);
    std::vector<std::vector<RuleCondition>> sets;
    for (std::size_t i = 0; i < useful.size(); ++i)
      for (std::size_t j = i + 1; j < useful.size(); ++j) sets.push_back({*useful[i], *useful[j]});
    return sets;
  }

  std::vector<RuleCondition> search(std::vector<std::vector<RuleCondition>> sets) {
    std::vector<std::pair<std::ptrdiff_t, std::vector<RuleCondition>>> order;
    for (auto& set : sets)
      if (const auto w = weight(set); w > 0 && excludes_all_bad(set)) order.emplace_back(w, std::move(set));
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    int trials = 0, proofs = 0;
    for (const auto& [w, set] : order) {
      if (trials >= kMaximumTrials || proofs >= kMaximumProofs) break;
      if (!excludes_all_bad(set)) continue;  // more counterexamples are known by now
      Rule& rule = rules_.emplace_back(rule_);
      for (const RuleCondition& c : set) c.add_to(rule);
      ++trials;
      if (!stands(rule)) continue;
      ++proofs;
      if (search_proof(rule, limits_, solver_).found) return set;
    }
    return {};
  }

  bool stands(const Rule& rule) {
    InstanceSampler sampler(rule, seed_);
    for (int n = 0; n < kTrials; ++n) {
      const auto instance = sampler.sample(kAttempts);
      if (!instance) return n > 0;
      if (!compare_sides(rule, *instance, n, random_)) continue;
      bad_.push_back(instance->bindings);
      return false;
    }
    return true;
  }

  const Rule& rule_;
  const ProofLimits& limits_;
  Solver& solver_;
  std::mt19937_64 random_;
  std::uint64_t seed_;
  std::list<Rule> rules_;  // bindings refer to them
  std::vector<Bindings> bad_, good_;
  std::vector<RuleCondition> candidates_;
};

}  // namespace

std::vector<RuleCondition> suggest_conditions(const Rule& rule, const RuleInstance* counterexample, const ProofLimits& limits,
                                              Solver& solver, std::uint64_t seed) {
  try {
    return Suggester(rule, limits, solver, seed).run(counterexample);
  } catch (const Error&) {  // instances cannot be evaluated
    return {};
  }
}

}  // namespace rewright::proof
