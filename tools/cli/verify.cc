#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "graph/file.h"
#include "rules/io.h"
#include "tools/cli/command.h"
#include "verifier/verify.h"

namespace rewright::cli {

namespace {

struct Options {
  CommonOptions common;
  std::vector<std::string> files;
  std::string output;
};

struct Result {
  Verdict verdict;
  double seconds = 0;
};

// In parallel; results are in the order of the rules.
std::vector<Result> verify_all(const std::vector<Rule>& rules, const Options& options) {
  std::vector<Result> results(rules.size());
  std::atomic<std::size_t> next = 0;
  VerifyOptions o;
  if (options.common.seed != 0) o.seed = options.common.seed;
  const auto work = [&] {
    for (std::size_t i = next++; i < rules.size(); i = next++) {
      const auto start = std::chrono::steady_clock::now();
      results[i].verdict = verify(rules[i], o);
      results[i].seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  };
  std::vector<std::jthread> threads;
  for (int t = 1; t < thread_count(options.common); ++t) threads.emplace_back(work);
  work();
  threads.clear();
  return results;
}

int verify_command(const Options& options) {
  std::vector<Rule> rules = read_all_rules(options.files);
  if (!options.output.empty()) require_writable(options.output);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Result> results = verify_all(rules, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  nlohmann::json list = nlohmann::json::array();
  std::size_t count[3] = {0, 0, 0};
  std::vector<Rule> proved;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Verdict& v = results[i].verdict;
    ++count[static_cast<int>(v.outcome)];
    std::string line = std::string(name(v.outcome));
    line.resize(11, ' ');
    line += rules[i].name;
    if (v.outcome == Outcome::kProved && !v.all_ranks) line += " (to rank " + std::to_string(v.ranks) + ")";
    if (!v.explanation.empty()) line += ": " + v.explanation;
    for (const std::string& condition : v.missing) line += "; it needs " + condition;
    say(options.common, line + "\n");
    list.push_back({{"name", rules[i].name},
                    {"verdict", name(v.outcome)},
                    {"conditions", v.missing},
                    {"ranks", v.ranks},
                    {"seconds", results[i].seconds},
                    {v.outcome == Outcome::kUndecided ? "question" : "counterexample", v.explanation}});
    if (v.outcome != Outcome::kProved) continue;
    rules[i].proof.status = RuleStatus::kProved;
    rules[i].proof.method = "normal forms, Z3";
    rules[i].proof.ranks = v.all_ranks ? 0 : static_cast<std::uint32_t>(v.ranks);
    proved.push_back(rules[i]);
  }
  if (!options.output.empty()) write_file(options.output, write_rules(proved, RuleFormat::kBinary));
  say(options.common, std::to_string(count[0]) + " proved, " + std::to_string(count[1]) + " refuted, " +
                          std::to_string(count[2]) + " undecided\n");
  write_json(options.common,
             {{"proved", count[0]}, {"refuted", count[1]}, {"undecided", count[2]}, {"seconds", seconds}, {"rules", list}});
  return count[1] > 0 ? kNo : kDone;
}

}  // namespace

CLI::App* add_verify(CLI::App& program, Run& run) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  CLI::App* command = add_command(program, "verify", "Prove rules for all sizes, or refute them with a counterexample",
                                  "rewright verify my.rules -o verified.rules", o.common);
  command->add_option("files", o.files, "rule databases (default: the shipped one)")->type_name("FILE");
  command->add_option("-o,--output", o.output, "the proved rules, as a database")->type_name("FILE");
  command->callback([options, &run] { run = [options] { return verify_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
