// Build-time tool: compiles files of rules in algebra into a C++ source that holds the bytes of their binary form.
//   rewright_compile_rules [--unproved] OUTPUT.cc PROOFS.txt ORIGINS.txt FILE.rules ...
// Every rule must be in the list of proofs, as it stands; with --unproved, those that are not are compiled as unproved. What is
// not in the list of origins was written by a person alone.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "rules/io.h"

namespace {

using rewright::Error;
using rewright::ErrorCode;

constexpr const char* kHint = "run tools/prove_rules";

struct Proof {
  std::uint64_t rule = 0;  // hash of the rule that was proved
  std::string digest;      // of the certificate
  std::uint32_t ranks = 0;
};

// A line a rule: its name, its hash, the digest of the certificate, up to which rank it was proved or "all".
std::map<std::string, Proof> read_proofs(const std::string& name) {
  std::ifstream file(name);
  if (!file) throw Error(ErrorCode::kMissing, "cannot be read", name, kHint);
  std::map<std::string, Proof> proofs;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string rule, ranks;
    Proof proof;
    if (!(words >> rule >> std::hex >> proof.rule >> proof.digest >> ranks))
      throw Error(ErrorCode::kBadInput, "this is no proof", name + ":" + std::to_string(number), kHint);
    if (ranks != "all") proof.ranks = static_cast<std::uint32_t>(std::stoul(ranks));
    proofs[rule] = proof;
  }
  return proofs;
}

// A line a rule: its name and its origin.
std::map<std::string, rewright::rules::RuleOrigin> read_origins(const std::string& name) {
  std::ifstream file(name);
  if (!file) throw Error(ErrorCode::kMissing, "cannot be read", name, "run tools/make_rules --origins");
  std::map<std::string, rewright::rules::RuleOrigin> origins;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string rule, word;
    words >> rule >> word;
    const auto origin = rewright::rules::parse_origin(word);
    if (!origin) throw Error(ErrorCode::kBadInput, "this is no origin", name + ":" + std::to_string(number));
    origins[rule] = *origin;
  }
  return origins;
}

std::string as_source(const std::string& bytes) {
  std::string text =
      "// Generated from rules/database: do not edit.\n"
      "#include <string_view>\n\n"
      "namespace rewright::rules::internal {\n\n"
      "static constexpr unsigned char kBytes[] = {";
  char number[8];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::snprintf(number, sizeof number, "%d,", static_cast<unsigned char>(bytes[i]));
    text += (i % 32 ? "" : "\n") + std::string(number);
  }
  return text +
         "\n};\n\n"
         "std::string_view database_bytes() { return {reinterpret_cast<const char*>(kBytes), sizeof kBytes}; }\n\n"
         "}  // namespace rewright::rules::internal\n";
}

void compile(const std::vector<std::string>& arguments, bool unproved) {
  std::map<std::string, Proof> proofs = read_proofs(arguments[1]);
  const std::map<std::string, rewright::rules::RuleOrigin> origins = read_origins(arguments[2]);
  std::vector<rewright::rules::Rule> rules;
  for (std::size_t i = 3; i < arguments.size(); ++i)
    for (rewright::rules::Rule& rule : rewright::rules::read_rules(std::filesystem::path(arguments[i]))) {
      const auto proof = proofs.find(rule.name);
      if (proof != proofs.end() && proof->second.rule == hash(rule))
        rule.proof = {rewright::rules::RuleStatus::kProved,
                      "normal forms, Z3",
                      rule.name + ".certificate",
                      {},
                      proof->second.digest,
                      proof->second.ranks};
      else if (!unproved)
        throw Error(ErrorCode::kBadInput,
                    proof == proofs.end() ? "the rule has no proof" : "the rule was changed since it was proved",
                    arguments[i] + ": rule " + rule.name, kHint);
      if (proof != proofs.end()) proofs.erase(proof);
      if (const auto origin = origins.find(rule.name); origin != origins.end()) rule.origin = origin->second;
      rules.push_back(std::move(rule));
    }
  if (!proofs.empty() && !unproved)
    throw Error(ErrorCode::kBadInput, "there is a proof of rule " + proofs.begin()->first + ", which is in no file",
                arguments[1], kHint);
  const rewright::rules::RuleSet set(std::move(rules));
  std::ofstream file(arguments[0], std::ios::binary);
  file << as_source(rewright::rules::write_rules(set.rules(), rewright::rules::RuleFormat::kBinary));
  file.flush();
  if (!file) throw Error(ErrorCode::kMissing, "cannot be written", arguments[0]);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool unproved = !arguments.empty() && arguments[0] == "--unproved";
  if (unproved) arguments.erase(arguments.begin());
  if (arguments.size() < 4) {
    std::cerr << "usage: rewright_compile_rules [--unproved] OUTPUT.cc PROOFS.txt ORIGINS.txt FILE.rules ...\n";
    return 2;
  }
  try {
    compile(arguments, unproved);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << '\n';
    return 3;
  }
}
