// Rules to be used: of files, or the shipped ones.
#pragma once

#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::api {

// The rules of all these files; the shipped ones if there are none. "generated" and "handwritten" are the shipped rules that
// the generator found and those that people wrote, unless there is a file of that name.
bool is_part_of_shipped_rules(const std::string& argument);
std::vector<Rule> read_all_rules(const std::vector<std::string>& files);
// The same for use. Of the shipped rules those that only the generator found are used by default if they leave fewer operators:
// the others mostly say in another order what people wrote, and a search has to go through all of them. Throws Error(kBadInput)
// for a rule that is not proved, unless `unproved` ones were asked for.
std::vector<Rule> read_proved_rules(const std::vector<std::string>& files, bool unproved);

}  // namespace rewright::api
