#include <catch2/catch.hpp>

#include <fstream>
#include <random>

#include "operators/error.h"
#include "rules/io.h"

using namespace rewright;

namespace {

std::string message(const std::string& bytes) {
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

TEST_CASE("a proof is of the rule as it was proved", "[io]") {
  std::vector<Rule> rules = parse_algebra("rule r: \"\" x Relu(Relu(x)) => Relu(x) exact", "r");
  rules[0].proof.status = RuleStatus::kProved;
  std::string text = write_rules(rules, RuleFormat::kText);
  CHECK(read_rules(text, "r")[0].proof.status == RuleStatus::kProved);
  text.replace(text.rfind("\"Relu\""), 6, "\"Abs\"");  // the target's
  CHECK_THAT(message(text), Catch::Contains("rule r") && Catch::Contains("changed since it was proved"));
}

TEST_CASE("files that are no rules are refused with one line", "[io][errors]") {
  using Catch::Contains;
  CHECK_THAT(message(""), Contains("there is no rule"));
  CHECK_THAT(message(std::string("\0\1\2", 3)), Contains("no rules"));
  CHECK_THAT(message("version: 1 rules { name: 3 }"), Contains("file:1"));
  CHECK_THAT(message("version: 7"), Contains("version 7"));
  CHECK_THAT(message("version: 1 rules { name: \"r\" source { nodes { op: \"Foo\" } } }"),
             Contains("there is no operator \"Foo\""));
  CHECK_THAT(message("version: 1 rules { name: \"r\" }"), Contains("rule r") && Contains("no operator"));
  CHECK_THAT(
      message(
          "version: 1 rules { name: \"r\" inputs { name: \"x\" open: true } source { nodes { op: \"Relu\" inputs { node: 0 } } "
          "outputs { node: 0 } } target { outputs { input: 0 } } }"),
      Contains("cycle"));
  CHECK_THAT(message("version: 1 rules { name: \"r\" inputs { name: \"x\" front: \"1 +\" } }"), Contains("index expression"));
  CHECK_THROWS_AS(read_rules(std::filesystem::path("rules/no_such_file.rules")), Error);
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
    REQUIRE(shipped);
    rule.proof = shipped->proof;
    CHECK(rule == *shipped);
  }
}
