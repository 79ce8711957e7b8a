// The rule database that is part of the library.
#include <string_view>

#include "rules/io.h"
#include "rules/rule.h"

namespace rewright::rules {

namespace internal {
std::string_view database_bytes();  // generated at build time
}

const RuleSet& shipped_rules() {
  static const RuleSet rules(read_rules(internal::database_bytes(), "the shipped rules"));
  return rules;
}

}  // namespace rewright::rules
