// Rules of files, or the shipped ones.
#pragma once

#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::api {

// Is it "generated" (the shipped rules that the generator found) or "handwritten" (those that people wrote), and no file?
bool is_part_of_shipped_rules(const std::string& argument);
// The rules of all these files or parts of the shipped rules; all shipped rules if there are none.
std::vector<Rule> read_all_rules(const std::vector<std::string>& files);
// The rules for a search. Without files, shipped rules that only the generator found are included if they leave fewer
// operators: the others mostly repeat handwritten ones in another order, and a search has to try all of them. Throws
// Error(kBadInput) for a rule without a proof, unless `unproved` is true.
std::vector<Rule> read_proved_rules(const std::vector<std::string>& files, bool unproved);

}  // namespace rewright::api
