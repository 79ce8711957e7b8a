// Writes each shipped rule as a file in each format: rules_seeds FOLDER
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "rules/io.h"
#include "rules/rule.h"

using rewright::rules::RuleFormat;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: rules_seeds FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const rewright::rules::Rule& rule : rewright::rules::shipped_rules().rules())
    for (const auto& [format, suffix] : {std::pair{RuleFormat::kAlgebra, ".rules"}, std::pair{RuleFormat::kText, ".textproto"},
                                         std::pair{RuleFormat::kBinary, ".binpb"}})
      std::ofstream(folder / (rule.name + suffix), std::ios::binary) << rewright::rules::write_rules({rule}, format);
  return 0;
}
