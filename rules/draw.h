// Rules drawn as graphs.
#pragma once

#include <string>

#include "rules/rule.h"

namespace rewright::rules {

// A rule as text for Graphviz: source and target as clusters side by side below the inputs they share, attributes in the
// labels, conditions in a note. The digraph has the rule's name.
std::string to_dot(const Rule& rule);

}  // namespace rewright::rules
