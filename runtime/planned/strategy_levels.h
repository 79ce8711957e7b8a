// Strategies by name, as the levels that they divide.
#pragma once

#include <string>
#include <vector>

namespace rewright::runtime {

// A strategy of one level, or two: between groups, and within them.
struct Levels {
  std::string outer, inner;  // inner: empty for one level
};
Levels levels_of(const std::string& strategy);  // "data+tensor"
std::string name_of(const Levels& levels);

// Levels that a strategy tries; those that are found in little time come first. Throws Error(kUsage) for a
// strategy that there is not, and for two levels without groups.
std::vector<Levels> wanted_levels(const std::string& strategy, bool has_groups, bool has_images);

}  // namespace rewright::runtime
