// The rules of the gates: found by the generator, proved by the verifier.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::quantum {

// Configurations of the generator (docs/generator.md), each with the most gates of a graph.
struct GateSet {
  std::string operators;
  std::size_t gates;
  bool all = false;  // also those that follow from others
};
const std::vector<GateSet>& gate_sets();

// The rules of these sets, proved, each once; those that follow from others of their set are left out. `tell` gets a line for
// each set.
std::vector<rules::Rule> find_rules(std::span<const GateSet> sets, int threads,
                                    const std::function<void(const std::string& line)>& tell);

}  // namespace rewright::quantum
