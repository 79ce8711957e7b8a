// Rules in TASO's format, as rules of ours. docs/taso.md says what each of its operators is taken to mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

struct TasoImport {
  struct Skipped {
    std::string name, reason;
  };
  std::vector<Rule> rules;       // in the file's order; the rule with index 17 is taso_17
  std::vector<Skipped> skipped;  // those that cannot be expressed
};

// Throws Error(kBadInput) for bytes that are no such file; `file` is its name, for messages.
TasoImport import_taso(std::string_view bytes, const std::string& file);

}  // namespace rewright::rules
