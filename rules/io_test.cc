#include <catch2/catch.hpp>

#include <fstream>
#include <random>

#include "base/error.h"
#include "rules/io.h"
#include "rules/tester.h"

using namespace rewright;
using namespace rewright::rules;

namespace {

std::string reading(const std::string& bytes) {
  try {
    (void)read_rules(bytes, "file");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kBadInput);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the format is recognized", "[io]") {
  const std::vector<Rule> rules = parse_algebra("rule r: \"d\" x Relu(Relu(x)) => Relu(x) exact", "r");
  for (const RuleFormat format : {RuleFormat::kAlgebra, RuleFormat::kText, RuleFormat::kBinary})
    CHECK(read_rules(write_rules(rules, format), "r") == rules);
}

TEST_CASE("Protobuf keeps origin and proof", "[io]") {
  std::vector<Rule> rules = parse_algebra("rule r: \"\" x Relu(Relu(x)) => Relu(x) exact inference_only", "r");
  rules[0].origin = RuleOrigin::kGenerated;
  rules[0].proof = {RuleStatus::kProved, "prover 1", "r.certificate", "a note", "0123", 4};
  for (const RuleFormat format : {RuleFormat::kText, RuleFormat::kBinary})
    CHECK(read_rules(write_rules(rules, format), "r") == rules);
}

TEST_CASE("texts of a proof are UTF-8", "[io]") {
  const std::string rule =
      "rules { name: 'r' inputs { name: 'x' open: true type_variable: 'T' } "
      "source { nodes { op: 'Relu' inputs { input: 0 } outputs: 1 } outputs { node: 0 } } "
      "target { outputs { input: 0 } } proof { digest: '";
  CHECK(reading("version: 1 " + rule + "\\377' } }").find("is not UTF-8") != std::string::npos);
}

TEST_CASE("a proof is of the rule as it was proved", "[io]") {
  std::vector<Rule> rules = parse_algebra("rule r: \"\" x Relu(Relu(x)) => Relu(x) exact", "r");
  rules[0].proof.status = RuleStatus::kProved;
  std::string text = write_rules(rules, RuleFormat::kText);
  CHECK(read_rules(text, "r")[0].proof.status == RuleStatus::kProved);
  text.replace(text.rfind("\"Relu\""), 6, "\"Abs\"");  // the target's
  CHECK_THAT(reading(text), Catch::Contains("rule r") && Catch::Contains("changed since it was proved"));
}

TEST_CASE("files that are no rules are refused with one line", "[io][errors]") {
  using Catch::Contains;
  CHECK_THAT(reading(""), Contains("there is no rule"));
  CHECK_THAT(reading(std::string("\0\1\2", 3)), Contains("no rules"));
  CHECK_THAT(reading("version: 1 rules { name: 3 }"), Contains("file:1"));
  CHECK_THAT(reading("version: 7"), Contains("version 7"));
  CHECK_THAT(reading("version: 1 rules { name: \"r\" source { nodes { op: \"Foo\" } } }"),
             Contains("there is no operator \"Foo\""));
  CHECK_THAT(reading("version: 1 rules { name: \"r\" }"), Contains("rule r") && Contains("no output"));
  CHECK_THAT(
      reading(
          "version: 1 rules { name: \"r\" inputs { name: \"x\" open: true } source { nodes { op: \"Relu\" inputs { node: 0 } } "
          "outputs { node: 0 } } target { outputs { input: 0 } } }"),
      Contains("cycle"));
  CHECK_THAT(reading("version: 1 rules { name: \"r\" inputs { name: \"x\" front: \"1 +\" } }"), Contains("index expression"));
  CHECK_THROWS_AS(read_rules(std::filesystem::path("rules/no_such_file.rules")), Error);
}

TEST_CASE("the good rules of a file with bad ones", "[io][errors]") {
  const std::string text = R"~(
    rule unknown: "" x Foo(x) => x
    rule first: "" x Relu(Relu(x)) => Relu(x)
    rule unbound: "" x Relu(x) => Transpose(x; perm=p)
    rule lexer: "" x Relu(x) => $ x
    rule quotes: "x Relu(x) => x
    rule first: "" x Neg(Neg(x)) => x
    rule no_output: "" x Relu(x) =>
    rule cycle: "" x let t = Relu(t) Relu(x) => t
    rule variants: "" for F in {Relu, Foo} x Neg(F(x)) => F(Neg(x))
    rule : "" x Relu(x) => x
    rule both: "" x, y x + y <=> x
    rule last: "" x Neg(Neg(x)) => x)~";
  std::vector<BadRule> bad;
  const auto rules = read_rules(text, "some.rules", bad);
  std::vector<std::string> names;
  for (const Rule& rule : rules) names.push_back(rule.name);
  CHECK(names == std::vector<std::string>{"first", "variants_Relu", "both", "last"});
  const std::vector<std::pair<std::string, int>> expected = {
      {"unknown", 2},   {"unbound", 4}, {"lexer", 5},         {"quotes", 6}, {"first", 7},
      {"no_output", 9}, {"cycle", 9},   {"variants_Foo", 10}, {"", 11},      {"both_reversed", 12}};
  REQUIRE(bad.size() == expected.size());
  for (std::size_t i = 0; i < bad.size(); ++i) {
    CHECK(bad[i].name == expected[i].first);
    CHECK(bad[i].line == expected[i].second);
    CHECK(!bad[i].what.empty());
  }
  CHECK_THROWS_AS(read_rules(text, "some.rules"), Error);
}

TEST_CASE("bad rules among good ones in Protobuf", "[io][errors]") {
  const std::string good =
      "rules { name: \"good%\" inputs { name: \"x\" open: true } "
      "source { nodes { op: \"Relu\" inputs { input: 0 } outputs: 1 } outputs { node: 0 } } target { outputs { input: 0 } } }";
  const auto numbered = [&](const char* number, std::string rule) { return rule.replace(rule.find('%'), 1, number); };
  const std::string text =
      "version: 1 " + numbered("1", good) +
      "rules { name: \"unknown\" inputs { name: \"x\" } source { nodes { op: \"Foo\" outputs: 1 } outputs { node: 0 } } }"
      "rules { name: \"no_output\" }"
      "rules { name: \"cycle\" source { nodes { op: \"Relu\" inputs { node: 0 } outputs: 1 } outputs { node: 0 } } }" +
      numbered("1", good) + numbered("2", good);
  std::vector<BadRule> bad;
  const auto rules = read_rules(text, "text", bad);
  REQUIRE(rules.size() == 2);
  CHECK(rules[1].name == "good2");
  REQUIRE(bad.size() == 4);
  using Catch::Contains;
  CHECK_THAT(bad[0].what, Contains("no operator \"Foo\""));
  CHECK_THAT(bad[1].what, Contains("no output"));
  CHECK_THAT(bad[2].what, Contains("cycle"));
  CHECK_THAT(bad[3].what, Contains("two rules"));
}

TEST_CASE("damaged files are read or refused, nothing else", "[io][errors]") {
  const std::vector<Rule>& rules = shipped_rules().rules();
  const std::vector<Rule> some(rules.begin(), rules.begin() + 20);
  std::mt19937_64 random(1);
  for (const RuleFormat format : {RuleFormat::kAlgebra, RuleFormat::kText, RuleFormat::kBinary}) {
    const std::string whole = write_rules(some, format);
    for (int i = 0; i < 300; ++i) {
      std::string damaged = whole;
      const std::size_t at = random() % damaged.size();
      if (i % 3 == 0)
        damaged.resize(at);
      else if (i % 3 == 1)
        damaged[at] = static_cast<char>(random());
      else
        damaged.insert(at, 1 + random() % 4, static_cast<char>(random()));
      try {
        std::vector<BadRule> bad;
        (void)read_rules(damaged, "damaged", bad);
        (void)read_rules(damaged, "damaged");
      } catch (const Error& e) {
        CHECK(std::string(e.what()).find('\n') == std::string::npos);
      }
    }
  }
}

TEST_CASE("the rules of the documentation can be read, and those shipped are shipped so", "[io][docs]") {
  std::ifstream file("docs/rules.md");
  REQUIRE(file);
  std::string rules, line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.rfind("    rule ", 0) == 0) inside = true;
    if (line.rfind("    ", 0) != 0) inside = false;
    if (inside) rules += line + "\n";
  }
  const std::vector<Rule> read = parse_algebra(rules, "docs/rules.md");
  CHECK(read.size() >= 8);
  for (Rule rule : read) {
    const Rule* shipped = shipped_rules().find(rule.name);
    INFO(rule.name);
    if (rule.name == "negated_rectifier") {  // the documented example of a mistake
      CHECK(test_rule(rule, 20, 1).outcome == TestOutcome::kRefuted);
      continue;
    }
    REQUIRE(shipped);
    rule.proof = shipped->proof, rule.origin = shipped->origin;
    CHECK(rule == *shipped);
  }
}
