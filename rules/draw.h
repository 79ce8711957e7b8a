// Rules drawn as graphs.
#pragma once

#include <string>

#include "rules/rule.h"

namespace rewright::rules {

// A rule as text for Graphviz: source and target as two clusters side by side with the inputs that they share above, attributes
// in the labels, conditions in a note. A digraph of the rule's name.
std::string to_dot(const Rule& rule);

}  // namespace rewright::rules
