// Build-time tool: compiles files of rules in algebra into a C++ source that holds the bytes of their binary form.
//   rewright_compile_rules OUTPUT.cc FILE.rules ...
#include <cstdio>
#include <fstream>
#include <iostream>

#include "operators/error.h"
#include "rules/io.h"

namespace {

std::string as_source(const std::string& bytes) {
  std::string text =
      "// Generated from rules/database: do not edit.\n"
      "#include <string_view>\n\n"
      "namespace rewright::internal {\n\n"
      "static constexpr unsigned char kBytes[] = {";
  char number[8];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::snprintf(number, sizeof number, "%d,", static_cast<unsigned char>(bytes[i]));
    text += (i % 32 ? "" : "\n") + std::string(number);
  }
  return text +
         "\n};\n\n"
         "std::string_view database_bytes() { return {reinterpret_cast<const char*>(kBytes), sizeof kBytes}; }\n\n"
         "}  // namespace rewright::internal\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: rewright_compile_rules OUTPUT.cc FILE.rules ...\n";
    return 2;
  }
  try {
    std::vector<rewright::Rule> rules;
    for (int i = 2; i < argc; ++i)
      for (rewright::Rule& rule : rewright::read_rules(std::filesystem::path(argv[i]))) {
        // The tests sample every rule of the database before it can be shipped.
        rule.proof = {rewright::RuleStatus::kTested, "sampling", {}, {}};
        rules.push_back(std::move(rule));
      }
    const rewright::RuleSet set(std::move(rules));
    std::ofstream file(argv[1], std::ios::binary);
    file << as_source(rewright::write_rules(set.rules(), rewright::RuleFormat::kBinary));
    file.flush();
    if (!file) throw rewright::Error(rewright::ErrorCode::kMissing, "cannot be written", argv[1]);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << '\n';
    return 3;
  }
}
