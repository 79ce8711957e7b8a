// The rules that raise parts of graphs to ONNX Runtime's operators are proved like all others.
#include <set>

#include <catch2/catch.hpp>

#include "rules/raising/raising.h"
#include "verifier/verify.h"

namespace rewright::proof {

TEST_CASE("every rule that raises to an operator is proved") {
  std::set<std::string> names;
  for (const Raising& raising : raisings()) {
    INFO(raising.rule.name);
    CHECK(names.insert(raising.rule.name).second);
    VerifyOptions options;
    options.instances = 0, options.suggest_conditions = false;
    CHECK(verify(raising.rule, options).outcome == Outcome::kProved);
  }
  CHECK(names.size() >= 8);
}

}  // namespace rewright::proof
