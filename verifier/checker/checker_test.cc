#include "verifier/checker/check.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "rules/io.h"
#include "verifier/proof.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

// Empty if there is no proof.
std::string certificate_of(const Rule& rule, const SolverOptions& options = {}) {
  const auto questions = std::filesystem::temp_directory_path() / ("checker_test_" + rule.name + ".smt2");
  Recording recording(rule, options, questions);
  Solver solver(options);
  const ProofSearch found = search_proof(rule, {}, solver, &recording);
  return found.found ? write_certificate(recording.finish(found.ranks, found.all_ranks)) : "";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// All shipped rules, with sizes and times; RULES names another file, RULE a part of the names.
TEST_CASE("the database", "[.database]") {
  const char *file = std::getenv("RULES"), *part = std::getenv("RULE"), *command = std::getenv("SOLVER");
  double proving = 0, checking = 0;
  std::size_t bytes = 0, refused = 0;
  for (const Rule& rule : file ? read_rules(std::filesystem::path(file)) : shipped_rules().rules()) {
    if (part && rule.name.find(part) == std::string::npos) continue;
    auto start = std::chrono::steady_clock::now();
    const std::string certificate = certificate_of(rule);
    const double proved = seconds_since(start);
    if (certificate.empty()) {
      std::cout << rule.name << ": no proof\n";
      continue;
    }
    start = std::chrono::steady_clock::now();
    CheckOptions options;
    if (command) options.solver = command;
    const CheckReport report = check_certificate(certificate, rule.name, options);
    const double checked = seconds_since(start);
    proving += proved, checking += checked, bytes += certificate.size(), refused += report.accepted ? 0 : 1;
    std::cout << rule.name << ": " << (report.accepted ? "accepted" : "refused, " + report.reason) << "; " << certificate.size()
              << " bytes, " << report.cases << " cases, " << report.questions << " questions and " << report.own_questions
              << " of its own, " << report.elements << " elements, " << proved << " s and " << checked << " s" << std::endl;
  }
  std::cout << refused << " refused; " << bytes << " bytes, proved in " << proving << " s, checked in " << checking << " s\n";
  CHECK(refused == 0);
}
