// Discovers rewrite rules: enumerates small graphs, groups them by the values they compute, and keeps the equations that do not
// follow from the rest.
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
  std::size_t max_operators = 3;              // in a graph
  std::size_t memory = std::size_t{4} << 30;  // bytes, of a process
  int threads = 1;
  std::uint64_t seed = 1;
  // Pruning steps. Each can be switched off for comparisons.
  bool prune_renamings = true, prune_instances = true, prune_derivable = true;
  // Finds proofs. Rules without one are not written. Empty: rules that hold on random instances are written.
  Prover prove{};
  std::filesystem::path state{};  // folder to resume from and to record progress in; empty: none
  double state_interval = 60;     // seconds
  std::filesystem::path temporary = std::filesystem::temp_directory_path();  // for files beyond the memory limit
  std::size_t buffer = 0;  // bytes of records in memory before they go to disk; 0: as the memory limit allows
  std::stop_token stop{};
  std::function<void(const std::string& stage, double fraction, const std::string& note)> progress{};
};

struct Generated {
  std::vector<Rule> rules;                    // equal for equal options, whatever the threads
  double graphs = 0;                          // the number of graphs that the classes represent
  std::size_t fingerprints = 0;               // number of different values
  std::size_t candidates = 0;                 // equations between a graph and the cheapest one that computes the same
  std::map<std::string, std::size_t> pruned;  // by reason
  bool complete = true;                       // false: stopped, with the results of smaller graphs
};

// Throws Error: kUsage for unknown operators or arguments, and for the state of another run; kBadInput for a damaged state;
// kMissing if memory or disk space runs out.
Generated generate(const GenerateOptions& options);
// Runs in all processes together; each gets the result.
Generated generate(const GenerateOptions& options, Communicator& communicator);

}  // namespace rewright::generator
