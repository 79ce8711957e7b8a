// Writes the message of each rule's certificate as a file: certificates_seeds RULES FOLDER
#include <filesystem>
#include <fstream>
#include <iostream>

#include "rules/io.h"
#include "verifier/proof.h"

using namespace rewright;
using namespace rewright::testing;
using namespace rewright::proof;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: certificates_seeds RULES FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[2];
  std::filesystem::create_directories(folder);
  for (const Rule& rule : read_rules(std::filesystem::path(argv[1]))) {
    Recording recording(rule, {}, folder / (rule.name + ".smt2"));
    Solver solver;
    const ProofSearch proof = search_proof(rule, {}, solver, &recording);
    if (!proof.found) continue;
    std::ofstream(folder / rule.name, std::ios::binary) << certificate_message(recording.finish(proof));
  }
  return 0;
}
