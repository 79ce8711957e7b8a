// What rules claim about rounding.
#include "rules/rounding.h"

#include <catch2/catch.hpp>

#include "operators/testing/share.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::rules;

TEST_CASE("shipped rules keep what they claim about rounding near overflow, zero and NaN", "[database][rounding]") {
  for (const Rule& rule : testing::share(shipped_rules().rules())) {
    INFO(to_algebra(rule));
    CHECK(test_rounding(rule, rule.math, static_cast<int>(testing::instances(12, 60)), 1).value_or("") == "");
  }
}

TEST_CASE("false claims about rounding are found", "[rounding]") {
  const auto breaks = [](const std::string& text, MathClass claimed) {
    return test_rounding(parse_algebra("rule r: \"\" " + text, "test").at(0), claimed, 60, 1).has_value();
  };
  CHECK(breaks("x[X...] x * 0 => Fill(; value=0, shape=X, type=T)", MathClass::kReassociates));
  CHECK(breaks("x Log(Exp(x)) => x", MathClass::kReassociates));
  CHECK(breaks("x Sqrt(x) * Sqrt(x) => x", MathClass::kReassociates));
  CHECK(breaks("x, y, z (x + y) + z => x + (y + z)", MathClass::kExact));
  CHECK(breaks("x, y Exp(x) * Exp(y) => Exp(x + y)", MathClass::kExact));
  CHECK_FALSE(breaks("x, y Exp(x) * Exp(y) => Exp(x + y)", MathClass::kReassociates));
  CHECK_FALSE(breaks("x, y, z (x + y) + z => x + (y + z)", MathClass::kReassociates));
  CHECK_FALSE(breaks("x, y Abs(x) * Abs(y) => Abs(x * y)", MathClass::kExact));
}
