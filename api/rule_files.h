// Rules of files, or the shipped ones.
#pragma once

#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::api {

// Is it the name "generated" (shipped rules that the generator found) or "handwritten" (shipped rules that people wrote), and
// not a file?
bool is_part_of_shipped_rules(const std::string& argument);
// The rules of all these files and parts of the shipped rules; without arguments, all shipped rules.
std::vector<Rule> read_all_rules(const std::vector<std::string>& files);
// The rules for a search. Without files: the shipped rules, of which the generated ones that neither reduce the number of
// operators nor are of sums and products come later: they mostly repeat handwritten rules in another order. Throws
// Error(kBadInput) for a rule without a proof, unless `unproved` is true.
std::vector<Rule> read_proved_rules(const std::vector<std::string>& files, bool unproved);

}  // namespace rewright::api
