#include <catch2/catch.hpp>
#include <set>

#include "operators/testing/share.h"
#include "rules/io.h"
#include "tests/mutants/examine.h"

using namespace rewright;
using namespace rewright::testing;

TEST_CASE("mutants are other rules, each with its change in words, the same for the same seed", "[mutants]") {
  int ill_formed = 0;
  const std::vector<Rule>& rules = shipped_rules().rules();
  const auto mutants = sample_mutants(rules, 200, 7, ill_formed), again = sample_mutants(rules, 200, 7, ill_formed);
  REQUIRE(mutants.size() == 200);
  std::set<std::string> kinds;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    kinds.insert(mutants[i].kind);
    CHECK(mutants[i].rule == again[i].rule);
    CHECK(mutants[i].rule.proof.status == RuleStatus::kUnknown);
    INFO(to_algebra(mutants[i].rule));
    CHECK(parse_algebra(to_algebra(mutants[i].rule), "mutant").at(0).source == mutants[i].rule.source);
  }
  CHECK(kinds == std::set<std::string>{"attribute", "axis", "condition", "constant", "edge"});
}

TEST_CASE("a mutant of every kind is made", "[mutants]") {
  const std::vector<Rule> rules = parse_algebra(
      "rule r: \"\" x[N, C], y[N, D] Relu(Concat(x, y; axis=1)) * 2 => Concat(Relu(x), Relu(y); axis=1) * 2 where C > 1", "r");
  int ill_formed = 0;
  std::set<std::string> changes;
  for (const Mutant& mutant : mutants_of(rules[0], rules, ill_formed)) changes.insert(mutant.rule.description);
  for (const char* change : {"axis: Concat axis, 1 -> 0", "constant: Fill value, 2 -> -2", "edge: target Relu input 0, y -> x",
                             "condition: 1 < C -> 1 < D", "condition: without 1 < C"})
    CHECK(changes.count(change) == 1);
}

TEST_CASE("no mutant of a true rule is both proved and refuted by sampling", "[mutants][sampling]") {
  int ill_formed = 0;
  const auto mutants = sample_mutants(shipped_rules().rules(), static_cast<int>(instances(40, 100)), 3, ill_formed);
  const std::vector<Examined> results = examine(mutants, 300, 1);
  int undecided = 0;
  std::string open;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    INFO(to_algebra(mutants[i].rule) << results[i].explanation);
    CHECK(results[i].finding != Examined::Finding::kUnsound);
    if (results[i].finding != Examined::Finding::kUndecided) continue;
    ++undecided;
    open += to_algebra(mutants[i].rule) + results[i].explanation + "\n";
  }
  INFO(open);
  CHECK(undecided <= 2);
}

TEST_CASE("lists of one operator whose lengths depend on each other are tried at every length", "[mutants][regression]") {
  const proof::Verdict v =
      proof::verify(parse_algebra("rule r: \"\" x[N, C, X...] "
                                  "Conv(x, DiracKernel(; channels=C, group=g, kernel=r, centre=p, type=T); "
                                  "strides=s, dilations=s, pads_begin=m, pads_end=q, group=g) => x "
                                  "where every s == 1, add(s, add(p, q)) == r, every q >= 0",
                                  "r")
                        .at(0));
  // It holds only for m == p.
  CHECK(v.cases >= 4);
  CHECK((v.outcome != proof::Outcome::kProved || !v.conditions.empty()));
}
