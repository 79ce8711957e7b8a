#include "operators/testing/share.h"
#include "verifier/checker/check.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>

#include "base/error.h"
#include "rules/io.h"
#include "verifier/checker/mutation.h"
#include "verifier/proof.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

// Empty if there is no proof.
std::string certificate_of(const Rule& rule, const SolverOptions& options = {}, const ProofLimits& limits = {}) {
  const auto questions = std::filesystem::temp_directory_path() / ("checker_test_" + rule.name + ".smt2");
  Recording recording(rule, options, questions);
  Solver solver(options);
  const ProofSearch found = search_proof(rule, limits, solver, &recording);
  return found.found ? write_certificate(recording.finish(found)) : "";
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Rule> true_rules(const std::vector<std::string>& names) {
  std::vector<Rule> result;
  for (const Rule& rule : read_rules(std::filesystem::path("verifier/testdata/true.rules")))
    if (std::find(names.begin(), names.end(), rule.name) != names.end()) result.push_back(rule);
  return result;
}

const std::vector<std::string> kVaried = {"average_pool_as_dense_conv_any_window",
                                          "average_pool_without_padding",
                                          "batch_folded",
                                          "batch_norm_of_conv_same",
                                          "batched_matmul_associative",
                                          "channels_shuffled_back",
                                          "concat_of_convs_any_window",
                                          "concat_of_slices",
                                          "conv_transposed",
                                          "depthwise_identity",
                                          "enlarge_odd",
                                          "gelu_of_matmul",
                                          "grouped_conv_of_sum",
                                          "groups_merged_by_any_stride_2",
                                          "matmul_of_blocks",
                                          "max_pool_of_max_pool",
                                          "max_pool_of_concat_same",
                                          "norm_of_rows",
                                          "relu_of_double",
                                          "relu_relu",
                                          "reshape_and_back",
                                          "softmax_of_rows"};

}  // namespace

TEST_CASE("certificates say what positions are read off tensors, and what trees see", "[checker]") {
  const std::string trees = "t[B], b[B, 3]: int64, r[R]: int64, g[G]: int64, v[V]: int64, w[V] ";
  const std::string structure = "t, b, r, g, v, w", attributes = "; scores=C, columns=D)";
  for (const std::string& text : {
           std::string("x[N, M], c[M], i[K]: int64 Gather(x * c, i; axis=1) => Gather(x, i; axis=1) * Gather(c, i; axis=0)"),
           std::string(
               "x[N, M], i[K]: int64, j[L]: int64 Concat(Gather(x, i; axis=1), Gather(x, j; axis=1); axis=1) => Gather(x, "
               "Concat(i, j; axis=0); axis=1)"),
           "x[N, M], i[K]: int64, " + trees + "TreeScores(Gather(x, i; axis=1), " + structure + attributes +
               " => TreeScores(x, " + structure + ", i" + attributes,
           "x[N, K], s[K], " + trees + "TreeScores(x * s, " + structure + attributes + " => TreeScores(x, " + structure +
               ", _, _, _, _, s" + attributes,
       }) {
    const Rule rule = parse_algebra("rule r: \"\" " + text + " exact", "test").at(0);
    INFO(text);
    const std::string bytes = certificate_of(rule);
    REQUIRE(!bytes.empty());
    const CertificateCheck check = check_certificate(bytes, "test");
    INFO(check.reason);
    CHECK(check.accepted);
  }
}

TEST_CASE("certificates of varied rules are accepted, by whatever seed", "[checker]") {
  const std::vector<Rule> rules = true_rules(kVaried);
  REQUIRE(rules.size() == kVaried.size());
  for (const Rule& rule : rules)
    for (const unsigned seed : {0U, 7U}) {
      SolverOptions options;
      options.seed = seed;
      const std::string certificate = certificate_of(rule, options);
      INFO(rule.name << ", seed " << seed);
      REQUIRE(!certificate.empty());
      const CertificateCheck report = check_certificate(certificate, rule.name, {.seed = seed + 1});
      INFO(report.reason);
      CHECK(report.accepted);
      CHECK(report.rule == rule.name);
      CHECK(report.cases > 0);
      CHECK(report.elements > 0);
    }
}

TEST_CASE("equal proofs are equal bytes, and can be read and written again", "[checker]") {
  for (const Rule& rule : true_rules({"max_pool_of_max_pool", "relu_of_double", "softmax_of_rows"})) {
    const std::string certificate = certificate_of(rule);
    CHECK(certificate == certificate_of(rule));
    CHECK(write_certificate(read_certificate(certificate, rule.name)) == certificate);
  }
}

TEST_CASE("questions are in a file before they are solved, and as long as the proof is searched for", "[checker]") {
  const Rule rule = true_rules({"groups_merged_by_any_stride_2"}).at(0);
  const auto questions = std::filesystem::temp_directory_path() / "checker_test.questions.smt2";
  {
    Recording recording(rule, {}, questions);
    std::size_t asked = 0;
    const Engine z3 = linked_z3(0);
    Solver solver({}, [&](const Query& query) {
      ++asked;
      const std::string text = text_of(questions);
      CHECK(text.find(query.text) != std::string::npos);
      return z3(query);
    });
    CHECK(search_proof(rule, {}, solver, &recording).found);
    CHECK(asked > 3);
  }
  CHECK(!std::filesystem::exists(questions));
}

TEST_CASE("a changed byte is noticed", "[checker]") {
  std::mt19937_64 random(11);
  const std::string certificate = certificate_of(true_rules({"relu_of_double"}).at(0));
  REQUIRE(check_certificate(certificate, "whole").accepted);
  for (unsigned i = 0; i < testing::instances(400); ++i) {
    std::string damaged = certificate;
    const std::size_t at = random() % damaged.size();
    switch (i % 4) {
      case 0:
      case 1:
        damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255));
        break;
      case 2:
        damaged.resize(at);
        break;
      case 3:
        damaged.insert(at, 1 + random() % 9, static_cast<char>(random()));
    }
    if (damaged == certificate) continue;
    CHECK_THROWS_AS(check_certificate(damaged, "damaged"), Error);
  }
}

TEST_CASE("a message of any bytes is read or refused", "[checker]") {
  std::mt19937_64 random(23);
  const std::string message =
      certificate_message(read_certificate(certificate_of(true_rules({"max_pool_of_max_pool"}).at(0)), "certificate"));
  std::size_t refused = 0;
  for (unsigned i = 0; i < testing::instances(3000); ++i) {
    std::string changed = message;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) changed[random() % changed.size()] = static_cast<char>(random());
    try {
      read_certificate(certificate_file(changed), "changed");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kBadInput);
      ++refused;
    }
  }
  CHECK(refused > testing::instances(500));
}

TEST_CASE("mutated proofs with a right digest are never accepted", "[checker]") {
  std::mt19937_64 random(5);
  std::vector<std::string> certificates;
  for (const Rule& rule : true_rules(kVaried))
    if (std::string c = certificate_of(rule); c.size() < 2000) certificates.push_back(std::move(c));
  REQUIRE(certificates.size() > 10);
  std::map<std::string, int> kinds;
  for (unsigned i = 0; i < testing::instances(1000); ++i) {
    Certificate certificate = read_certificate(certificates[random() % certificates.size()], "mutant");
    const std::string what = mutate(certificate, random);
    ++kinds[what];
    INFO(certificate.rule.name << ": " << what);
    try {
      CHECK(!check_certificate(write_certificate(certificate), "mutant").accepted);
    } catch (const Error& e) {  // refused by the reader
      CHECK(e.code() == ErrorCode::kBadInput);
    }
  }
  CHECK(kinds.size() > (testing::kSanitized ? 20 : 30));
}

TEST_CASE("a proof that sees only part of the cases is refused", "[checker]") {
  const Rule rule = true_rules({"relu_of_double"}).at(0);
  ProofLimits limits;
  limits.maximum_rank = 3;
  Certificate certificate = read_certificate(certificate_of(rule, {}, limits), "part");
  CHECK(certificate.ranks == 3);
  for (const bool all : {true, false}) {
    certificate.all_ranks = all;
    const CertificateCheck report = check_certificate(write_certificate(certificate), "part");
    CHECK(report.accepted == !all);
    CHECK(report.reason == (all ? "it is not of the ranks it says" : ""));
  }
}

TEST_CASE("a question that the proof needs cannot be left out", "[checker]") {
  const Certificate whole = read_certificate(certificate_of(true_rules({"groups_merged_by_any_stride_2"}).at(0)), "whole");
  std::size_t refused = 0;
  for (std::size_t i = 0; i < whole.queries.size(); ++i) {
    Certificate part = whole;
    part.queries.erase(part.queries.begin() + static_cast<std::ptrdiff_t>(i));
    const CertificateCheck report = check_certificate(write_certificate(part), "part");
    if (report.accepted) continue;  // only the normalizer had asked it
    CHECK(report.reason == "a question that the proof needs is not in it");
    ++refused;
  }
  CHECK(refused > 0);
}

TEST_CASE("another solver can be asked", "[checker]") {
  const std::string certificate = certificate_of(true_rules({"groups_merged_by_any_stride_2"}).at(0));
  CHECK_THROWS_AS(check_certificate(certificate, "test", {.solver = "no-such-solver -in"}), Error);
  CHECK_THROWS_AS(check_certificate(certificate, "test", {.solver = "true"}), Error);
  if (std::system("command -v z3 >/dev/null") != 0) return;
  const CertificateCheck report = check_certificate(certificate, "test", {.solver = "z3 -in"});
  INFO(report.reason);
  CHECK(report.accepted);
}

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
    const CertificateCheck report = check_certificate(certificate, rule.name, options);
    const double checked = seconds_since(start);
    proving += proved, checking += checked, bytes += certificate.size(), refused += report.accepted ? 0 : 1;
    std::cout << rule.name << ": " << (report.accepted ? "accepted" : "refused, " + report.reason) << "; " << certificate.size()
              << " bytes, " << report.cases << " cases, " << report.questions << " questions and " << report.own_questions
              << " of its own, " << report.elements << " elements, " << proved << " s and " << checked << " s" << std::endl;
  }
  std::cout << refused << " refused; " << bytes << " bytes, proved in " << proving << " s, checked in " << checking << " s\n";
  CHECK(refused == 0);
}
