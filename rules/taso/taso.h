// Imports rules in TASO's format. docs/taso.md explains how each of its operators is interpreted.
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
  std::vector<Skipped> skipped;  // rules that cannot be expressed
};

// Throws Error(kBadInput) if the bytes are not such a file; `file` is its name in messages.
TasoImport import_taso(std::string_view bytes, const std::string& file);

}  // namespace rewright::rules
