// Tests the prover on mutants of rules:
//   rewright_mutants [--seed S] [--count N] [--instances N] [--threads N] [--rules FILE] RULES ...
// Prints one line for each mutant, then the number of each finding; --rules writes the mutants as algebra. Exit 1 if one is
// proved and refuted by sampling.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <map>

#include "base/error.h"
#include "rules/io.h"
#include "tests/mutants/examine.h"

using namespace rewright;
using namespace rewright::testing;

namespace {

struct Options {
  std::uint64_t seed = 1;
  int count = 1000, instances = 1000, threads = 1;
  std::string rules;
  std::vector<std::string> files;
};

int run(const Options& options) {
  std::vector<Rule> rules;
  for (const std::string& file : options.files)
    for (Rule& rule : read_rules(std::filesystem::path(file))) rules.push_back(std::move(rule));
  int ill_formed = 0;
  const std::vector<Mutant> mutants = sample_mutants(rules, options.count, options.seed, ill_formed);
  if (!options.rules.empty()) {
    std::vector<Rule> list;
    for (const Mutant& mutant : mutants) list.push_back(mutant.rule);
    std::ofstream(options.rules, std::ios::binary) << write_rules(list, RuleFormat::kAlgebra);
  }
  const std::vector<Examined> results = examine(mutants, options.instances, options.threads);
  std::map<std::string, std::map<std::string, int>> counts;  // by finding and kind
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    const std::string finding(name(results[i].finding));
    ++counts[finding][mutants[i].kind];
    std::cout << finding << ' ' << mutants[i].rule.name << " (" << mutants[i].rule.description
              << "): " << results[i].explanation << '\n';
  }
  std::cout << "\nof " << rules.size() << " rules, seed " << options.seed << ": " << mutants.size() << " mutants, "
            << ill_formed << " possible ones left out as ill-formed\n";
  for (const auto& [finding, kinds] : counts) {
    int total = 0;
    std::string text;
    for (const auto& [kind, count] : kinds)
      total += count, text += (text.empty() ? "" : ", ") + kind + " " + std::to_string(count);
    std::cout << finding << ": " << total << " (" << text << ")\n";
  }
  return counts.count("unsound") ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("What the prover makes of mutants of rules");
  app.add_option("rules", options.files, "files of true rules")->required();
  app.add_option("--seed", options.seed);
  app.add_option("--count", options.count);
  app.add_option("--instances", options.instances);
  app.add_option("--threads", options.threads);
  app.add_option("--rules", options.rules);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << '\n';
    return 3;
  }
}
