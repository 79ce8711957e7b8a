#include "generator/pruning/provenance.h"

#include <catch2/catch.hpp>

#include "rules/io.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

std::vector<Rule> parse(const char* text) { return parse_algebra(text, "test.rules"); }

constexpr const char* kGiven = R"(
rule relu_twice: "" x Relu(Relu(x)) => Relu(x) exact
rule of_transpose: "" x Relu(Transpose(x; perm=p)) => Transpose(Relu(x); perm=p) exact
rule matrix_transpose: "" x[M, N] Transpose(Transpose(x; perm=[1, 0]); perm=[1, 0]) => x exact
)";

std::vector<std::string> names(const std::vector<Rule>& rules) {
  std::vector<std::string> result;
  for (const Rule& rule : rules) result.push_back(rule.name);
  return result;
}

}  // namespace

TEST_CASE("how rules stand to others", "[provenance]") {
  const std::vector<Rule> rules = parse(R"(
rule renamed: "" y Relu(Relu(y)) => Relu(y) reassociates
rule between: "" x Relu(Transpose(Relu(x); perm=p)) => Transpose(Relu(x); perm=p) exact
rule any_transpose: "" x let q = inverse(p) Transpose(Transpose(x; perm=p); perm=q) => x exact
rule negated_twice: "" x -(-x) => x exact
)");
  const std::vector<Standing> found = standings(rules, parse(kGiven), 24);
  REQUIRE(found.size() == 4);
  CHECK(found[1].kind == Standing::Kind::kFollows);
  CHECK(found[1].derived == 24);
  CHECK(found[2].kind == Standing::Kind::kInPart);
  CHECK(found[2].derived > 0);
  CHECK(found[2].derived < found[2].instances);
  CHECK(found[3].kind == Standing::Kind::kNot);
  const std::vector<Standing> itself = standings(parse(kGiven), parse(kGiven), 1);
  for (const Standing& standing : itself) CHECK(standing.kind == Standing::Kind::kSame);
  CHECK(itself[0].same == "relu_twice");
}

TEST_CASE("what follows from the rest is left out, a rule and its reverse together", "[provenance]") {
  const char* text = R"(
rule relu_twice: "" x Relu(Relu(x)) => Relu(x) exact
rule of_transpose: "" x Relu(Transpose(x; perm=p)) <=> Transpose(Relu(x); perm=p) exact
rule composed: "" x Relu(Transpose(Relu(x); perm=p)) <=> Transpose(Relu(x); perm=p) exact
)";
  const ReducedRules result = reduced(parse(text));
  CHECK(names(result.rules) == std::vector<std::string>{"relu_twice", "of_transpose", "of_transpose_reversed"});
  CHECK(result.dropped == std::vector<std::string>{"composed", "composed_reversed"});
}

TEST_CASE("a rule does not follow from rules that do more to rounding", "[provenance]") {
  const auto with = [](const char* math) {
    return parse(("rule relu_twice: \"\" x Relu(Relu(x)) => Relu(x) " + std::string(math) +
                  " rule relu_thrice: \"\" x Relu(Relu(Relu(x))) => Relu(x) exact")
                     .c_str());
  };
  CHECK(reduced(with("exact")).rules.size() == 1);
  CHECK(reduced(with("reassociates")).rules.size() == 2);
}
