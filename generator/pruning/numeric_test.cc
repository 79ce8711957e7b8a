// Equations that hold only for real numbers.
#include "generator/pruning/numeric.h"

#include <catch2/catch.hpp>
#include <set>

#include "generator/pruning/recall.h"
#include "generator/writing/rule_writer.h"
#include "rules/io.h"
#include "rules/tester.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

struct Enumerated {
  Configuration configuration;
  Forms forms;
  Enumeration enumeration;
  std::vector<Equation> equations;
  Enumerated(const std::string& operators, std::size_t count)
      : configuration(configure(operators)), forms(configuration), enumeration(forms, {.operators = count}) {
    enumeration.run();
    equations = numeric_equations(enumeration);
  }
  bool has(const std::string& text) {
    const auto wanted = equation_of(parse_algebra("rule r: \"\" " + text, "test").at(0), forms);
    REQUIRE(wanted);
    return std::any_of(equations.begin(), equations.end(),
                       [&](const Equation& q) { return canonical_hash(q, forms) == canonical_hash(wanted->tidied(), forms); });
  }
};

}  // namespace

TEST_CASE("numbers tell what the field does not, and nothing that is wrong", "[numeric]") {
  for (const char* operators : {"Exp,Log,Add", "Exp,Reciprocal,Neg", "Abs,Mul,Sqrt", "Softmax(axis=-1),Exp,Log"}) {
    Enumerated found(operators, 3);
    const RuleWriter writer(found.forms, {});
    std::size_t tested = 0;
    for (const Equation& q : found.equations) {
      INFO(operators << ": " << to_string(q, found.configuration));
      CHECK(q.left != q.right);
      CHECK(!holds(q, found.forms, found.enumeration.key()));
      // Checked by the reference interpreter with other sizes and numbers.
      const std::optional<Rule> rule = writer.as_found(q);
      if (!rule) continue;
      CHECK(test_rule(*rule, 20, 3).outcome == TestOutcome::kAgreed);
      ++tested;
    }
    INFO(operators);
    CHECK(tested > 0);
  }
}
