#include "generator/run/generator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <set>

#include "generator/pruning/recall.h"
#include "generator/pruning/selection.h"
#include "rules/io.h"
#include "rules/tester.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

constexpr const char* kScalars[] = {"Add,Sub,Neg,Mul", "Mul,Div,Reciprocal", "Max,Min,Relu,Mul",
                                    "Softmax(axis=-1),ew_add,ew_mul,Exp,Abs,Log"};
constexpr const char* kTensors[] = {"linear,relu", "taso"};
constexpr const char* kBatchNorms =
    "conv2d(bias=false|true,outputs=own),batchnorm(shift=true|false),"
    "weights(at_most=3,each=1,operators=transpose(perm=[1,0,2,3])|Squeeze(axes=[0])|Unsqueeze(axes=[0]))";

// The identities that follow from the equations found with at most this many operators of each set.
std::set<std::string> recalled(const std::vector<Rule>& identities, std::span<const char* const> sets, std::size_t operators) {
  std::set<std::string> names;
  for (const char* set : sets) {
    const Configuration configuration = configure(set);
    Forms forms(configuration);
    Enumeration enumeration(forms, {.operators = operators, .threads = 2});
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

std::set<std::string> recalled(const std::vector<Rule>& identities, std::size_t operators) {
  std::set<std::string> names = recalled(identities, kScalars, operators);
  names.merge(recalled(identities, kTensors, operators));
  return names;
}

void print_share(const std::string& operators, const std::vector<Rule>& identities, const std::set<std::string>& names) {
  std::printf("%s operators: %zu of %zu identities\n", operators.c_str(), names.size(), identities.size());
  for (const Rule& identity : identities)
    if (!names.count(identity.name)) std::printf("  not %s\n", identity.name.c_str());
}

std::vector<Rule> identities() { return read_rules(std::filesystem::path("generator/testdata/identities.rules")); }

}  // namespace

TEST_CASE("rules hold on random instances", "[generator][long]") {
  const Generated found = generate({.operators = "taso", .max_operators = 2});
  CHECK(found.rules.size() >= 60);
  for (const Rule& rule : found.rules) {
    INFO(to_algebra(rule));
    CHECK(rule.origin == RuleOrigin::kGenerated);
    CHECK(test_rule(rule, 10, 7).outcome == TestOutcome::kAgreed);
  }
}

TEST_CASE("a batch norm after a convolution is found to be part of its weights", "[generator][long]") {
  const Generated found = generate({.operators = kBatchNorms, .max_operators = 2});
  // A fold: each side has one operator on data, since operators on weights cost nothing at run time.
  const auto is_fold = [](const Rule& rule) {
    const auto& from = rule.source.nodes;
    const auto& to = rule.target.nodes;
    return from.size() == 2 && from[0].op->name() == "Conv" && from[1].op->name() == "BatchNormalization" &&
           to.back().op->name() == "Conv" && to.back().inputs[0].kind == PatternValue::Kind::kInput &&
           to.back().inputs[0].number == from[0].inputs[0].number && to.back().inputs.size() == 3;
  };
  std::set<std::size_t> operands;
  for (const Rule& rule : found.rules) {
    INFO(to_algebra(rule));
    CHECK(test_rule(rule, 10, 7).outcome == TestOutcome::kAgreed);
    if (!is_fold(rule)) continue;
    operands.insert(rule.source.nodes[0].inputs.size());
    for (const PatternInput& input : rule.inputs) CHECK(input.constant == (input.name != "x"));
  }
  CHECK(operands == std::set<std::size_t>{2, 3});  // without a bias and with one
}

TEST_CASE("convolutions of one input are found to be one and a split", "[generator]") {
  const Generated found = generate({.operators = "conv2d(bias=true,outputs=own),split(axis=1),"
                                                 "weights(at_most=1,each=2,operators=concat(axis=0))",
                                    .max_operators = 2});
  CHECK(std::any_of(found.rules.begin(), found.rules.end(), [](const Rule& rule) {
    const auto& from = rule.source.outputs;
    return from.size() == 2 && from[0].number != from[1].number && rule.target.nodes.back().op->name() == "Split";
  }));
}

TEST_CASE("the same options give the same bytes, whatever the threads", "[generator][long]") {
  for (const GenerateOptions& options : {GenerateOptions{.operators = "linear", .max_operators = 2},
                                         GenerateOptions{.operators = "Neg,concat(axis=0)", .max_operators = 4},
                                         GenerateOptions{.operators = kBatchNorms, .max_operators = 2}}) {
    GenerateOptions parallel = options;
    parallel.threads = 2;
    const Generated one = generate(options), two = generate(parallel);
    CHECK(!one.rules.empty());
    CHECK(one.pruned == two.pruned);
    CHECK(write_rules(one.rules, RuleFormat::kBinary) == write_rules(two.rules, RuleFormat::kBinary));
  }
}

TEST_CASE("identities of textbooks follow from what two operators give", "[generator]") {
  const std::vector<Rule> all = identities();
  REQUIRE(all.size() == 63);
  CHECK(recalled(all, 2).size() >= 30);
}

TEST_CASE("the share of identities at two, three and four operators", "[.recall]") {
  for (const std::size_t operators : {2, 3})
    print_share(std::to_string(operators), identities(), recalled(identities(), operators));
  // Convolutions with four operators take too long; these are found with three.
  std::set<std::string> names = recalled(identities(), kScalars, 4);
  constexpr const char* kMatrices[] = {"matrices"};
  names.merge(recalled(identities(), kMatrices, 4));
  print_share("4 (without convolutions)", identities(), names);
  names.merge(recalled(identities(), kTensors, 3));
  print_share("4 (with convolutions from 3)", identities(), names);
}

TEST_CASE("a wrong number of operators is said", "[generator]") {
  CHECK_THROWS_AS(generate({.operators = "taso", .max_operators = 0}), Error);
  CHECK_THROWS_AS(generate({.operators = "taso", .max_operators = 9}), Error);
}
