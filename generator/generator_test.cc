#include "generator/generator.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <set>

#include "generator/recall.h"
#include "generator/selection.h"
#include "rules/io.h"
#include "rules/tester.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

// The share of the identities that what is found with at most this many operators implies.
std::set<std::string> recalled(const std::vector<Rule>& identities, std::size_t operators) {
  std::set<std::string> names;
  for (const char* set : {"Add,Sub,Neg,Mul", "Mul,Div,Reciprocal", "Max,Min,Relu,Mul",
                          "Softmax(axis=-1),ew_add,ew_mul,Exp,Abs,Log", "linear,relu", "taso"}) {
    const Configuration configuration = configure(set);
    Forms forms(configuration);
    Enumeration enumeration(forms, {.operators = operators});
    enumeration.run();
    Theory theory(forms);
    for (const Equation& q : select(enumeration, {}).kept) theory.add(q);
    for (const Rule& identity : identities) {
      if (names.count(identity.name)) continue;
      const auto equation = equation_of(identity, forms);
      if (equation && theory.derives(*equation, {.rounds = 4, .nodes = 1500})) names.insert(identity.name);
    }
  }
  return names;
}

void report(std::size_t operators, const std::vector<Rule>& identities, const std::set<std::string>& names) {
  std::printf("%zu operators: %zu of %zu identities\n", operators, names.size(), identities.size());
  for (const Rule& identity : identities)
    if (!names.count(identity.name)) std::printf("  not %s\n", identity.name.c_str());
}

std::vector<Rule> identities() { return read_rules(std::filesystem::path("generator/testdata/identities.rules")); }

}  // namespace

TEST_CASE("rules hold on random instances", "[generator]") {
  const Generated found = generate({.operators = "taso", .max_operators = 2});
  CHECK(found.rules.size() >= 60);
  for (const Rule& rule : found.rules) {
    INFO(to_algebra(rule));
    CHECK(rule.origin == RuleOrigin::kGenerated);
    CHECK(test_rule(rule, 10, 7).outcome == TestOutcome::kAgreed);
  }
}

TEST_CASE("the same options give the same bytes, whatever the threads", "[generator]") {
  const GenerateOptions options{.operators = "linear", .max_operators = 2};
  GenerateOptions parallel = options;
  parallel.threads = 2;
  CHECK(write_rules(generate(options).rules, RuleFormat::kBinary) ==
        write_rules(generate(parallel).rules, RuleFormat::kBinary));
}

TEST_CASE("identities of textbooks follow from what two operators give", "[generator]") {
  const std::vector<Rule> all = identities();
  REQUIRE(all.size() == 63);
  CHECK(recalled(all, 2).size() >= 30);
}

TEST_CASE("the share of identities at two and three operators", "[.recall]") {
  for (const std::size_t operators : {2, 3}) report(operators, identities(), recalled(identities(), operators));
}

TEST_CASE("a wrong number of operators is said", "[generator]") {
  CHECK_THROWS_AS(generate({.operators = "taso", .max_operators = 0}), Error);
  CHECK_THROWS_AS(generate({.operators = "taso", .max_operators = 9}), Error);
}
