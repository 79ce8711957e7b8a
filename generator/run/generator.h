// Discovers rewrite rules: enumerates small graphs, groups them by what they compute, and keeps what does not follow from the
// rest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "distribution/communicator.h"
#include "generator/writing/rule_writer.h"

namespace rewright::generator {

struct GenerateOptions {
  std::string operators = "taso";             // see configure()
  std::size_t max_operators = 3;              // of a graph
  std::size_t memory = std::size_t{4} << 30;  // of a process
  int threads = 1;
  std::uint64_t seed = 1;
  // Which of the found equations are left out; each filter can be switched off for comparisons.
  bool prune_renamings = true, prune_instances = true, prune_derivable = true;
  // Finds proofs: what has none is not written. Without it, what holds on random instances is.
  Prover prove{};
  std::filesystem::path state{};  // folder to go on from, and to keep what is found in
  double state_interval = 60;     // seconds
  std::filesystem::path temporary = std::filesystem::temp_directory_path();  // for what does not fit in the memory
  std::size_t buffer = 0;  // bytes of records in memory before they go to disk; 0: what the memory allows
  std::stop_token stop{};
  std::function<void(const std::string& stage, double fraction, const std::string& note)> progress{};
};

struct Generated {
  std::vector<Rule> rules;                    // the same for the same options, whatever the threads
  double graphs = 0;                          // that the classes stand for, with the same leaves
  std::size_t fingerprints = 0;               // different values
  std::size_t candidates = 0;                 // equations between a graph and the cheapest one that computes the same
  std::map<std::string, std::size_t> pruned;  // by reason
  bool complete = true;                       // false: it was stopped, and this is what graphs of fewer operators gave
};

// Throws Error: kUsage for operators or arguments that there are not, and for a state of another run; kBadInput for a damaged
// state; kMissing if memory or space does not suffice.
Generated generate(const GenerateOptions& options);
// By all processes together, each of which gets the result.
Generated generate(const GenerateOptions& options, Communicator& communicator);

}  // namespace rewright::generator
