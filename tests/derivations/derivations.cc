// Tests which rules of other files follow from those of the first. Prints a line for each that does not, and the number that
// do.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "generator/pruning/rule_theory.h"
#include "rules/io.h"

int main(int argc, char** argv) {
  std::string given;
  std::vector<std::string> others;
  rewright::generator::RuleDerivationLimits limits;
  CLI::App program("Which of the other rules follow from the given ones");
  program.add_option("given", given, "a file of rules")->required();
  program.add_option("others", others, "files of rules that are to follow")->required();
  program.add_option("--rounds", limits.rounds, "of applying all rules")->capture_default_str();
  program.add_option("--applications", limits.applications, "of operators, at most")->capture_default_str();
  program.add_option("--instances", limits.instances, "of each rule")->capture_default_str();
  CLI11_PARSE(program, argc, argv);
  try {
    rewright::generator::RuleTheory theory;
    for (const rewright::rules::Rule& rule : rewright::rules::read_rules(std::filesystem::path(given))) theory.add(rule);
    std::size_t count = 0, follow = 0;
    for (const std::string& file : others)
      for (const rewright::rules::Rule& rule : rewright::rules::read_rules(std::filesystem::path(file))) {
        ++count;
        if (theory.derives(rule, limits)) {
          ++follow;
          continue;
        }
        std::printf("does not follow: %s", rewright::rules::to_algebra(rule).c_str());
        std::fflush(stdout);
      }
    std::printf("%zu of %zu rules follow\n", follow, count);
    return follow == count ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
