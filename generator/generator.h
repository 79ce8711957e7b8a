// Discovers rewrite rules: enumerates small graphs, groups them by what they compute, and keeps what does not follow from the
// rest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::generator {

struct GenerateOptions {
  std::string operators = "taso";  // see configure()
  std::size_t max_operators = 3;   // of a graph
  std::size_t memory = std::size_t{4} << 30;
  int threads = 1;
  std::uint64_t seed = 1;
  // What is left out of the equations that were found; for comparisons, each can be switched off.
  bool prune_renamings = true, prune_instances = true, prune_derivable = true;
  std::stop_token stop{};
  std::function<void(const std::string& stage, double fraction, const std::string& note)> progress{};
};

struct Generated {
  std::vector<Rule> rules;                    // not proved yet; the same for the same options, whatever the threads
  double graphs = 0;                          // that the classes stand for, of at most three operators
  std::size_t fingerprints = 0;               // different values
  std::size_t candidates = 0;                 // equations between a graph and the cheapest one that computes the same
  std::map<std::string, std::size_t> pruned;  // by reason
  bool complete = true;                       // false: it was stopped, and this is what graphs of fewer operators gave
};

// Throws Error: kUsage for operators or arguments that there are not, kMissing if the memory does not suffice.
Generated generate(const GenerateOptions& options);

}  // namespace rewright::generator
