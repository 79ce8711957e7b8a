#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "api/rule_facts.h"
#include "base/error.h"
#include "graph/file.h"
#include "rules/io.h"
#include "tools/cli/check_certificate.h"
#include "tools/cli/command.h"
#include "verifier/verify.h"

namespace rewright::cli {

namespace {

struct VerifyOptions {
  CommonOptions common;
  std::vector<std::string> files;
  std::string output;
  bool infer_conditions = false;
  std::string certificates;
  CertificateOptions check;
};

// Reads the rules of all files. Bad ones are left out, reported on standard error, and added to `bad`.
class RuleReader {
 public:
  explicit RuleReader(const std::vector<std::string>& files) {
    if (files.empty()) add_all(shipped_rules().rules(), "the shipped rules");
    for (const std::string& file : files) {
      std::vector<BadRule> found;
      add_all(read_rules(std::filesystem::path(file), found), file);
      for (const BadRule& b : found)
        refuse(file, b.name, b.what + (b.line > 0 ? " (line " + std::to_string(b.line) + ")" : ""));
    }
  }

  void refuse(const std::string& file, const std::string& name, const std::string& what) {
    std::cerr << Error(ErrorCode::kBadInput, what, "rewright: error: " + file + ": rule \"" + name + "\"").what() << std::endl;
    bad.push_back({{"name", name}, {"verdict", "invalid"}, {"conditions", nlohmann::json::array()}, {"error", what}});
  }

  std::vector<Rule> rules;
  std::vector<std::string> files;  // files of the rules
  nlohmann::json bad = nlohmann::json::array();

 private:
  void add_all(std::vector<Rule> from, const std::string& file) {
    for (Rule& rule : from) {
      if (!names_.insert(rule.name).second) {
        refuse(file, rule.name, "two rules have this name");
        continue;
      }
      rules.push_back(std::move(rule));
      files.push_back(file);
    }
  }

  std::set<std::string> names_;
};

std::vector<VerifiedRule> verify_all(const std::vector<Rule>& rules, const VerifyOptions& options) {
  proof::VerifyOptions o;
  o.infer_conditions = options.infer_conditions;
  o.certificates = options.certificates;
  if (options.common.seed != 0) {
    o.seed = options.common.seed;
    o.solver.seed = static_cast<unsigned>(options.common.seed);
  }
  Progress progress(options.common);
  return verify_rules(rules, o, thread_count(options.common), [&](std::size_t done, const Rule& last) {
    progress.update("verifying", static_cast<double>(done) / static_cast<double>(rules.size()), last.name);
  });
}

std::string joined(const std::vector<std::string>& conditions) {
  std::string text;
  for (const std::string& c : conditions) text += (text.empty() ? "" : ", ") + c;
  return text;
}

std::string line_of(const Rule& rule, const proof::Verdict& v) {
  std::string line = std::string(name(v.outcome));
  line.resize(11, ' ');
  line += rule.name;
  if (v.outcome == proof::Outcome::kProved && !v.any_rank) line += " (to rank " + std::to_string(v.ranks) + ")";
  if (!v.conditions.empty()) line += " where " + joined(v.conditions);
  if (!v.explanation.empty()) line += ": " + v.explanation;
  if (!v.suggested_conditions.empty()) line += "; it holds where " + joined(v.suggested_conditions);
  return line + "\n";
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(ErrorCode::kMissing, "cannot be made: " + error.message(), folder);
}

int verify_command(const VerifyOptions& options) {
  RuleReader input(options.files);
  if (!options.output.empty()) require_writable(options.output);
  if (!options.certificates.empty()) make_folder(options.certificates);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<VerifiedRule> results = verify_all(input.rules, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  nlohmann::json list = nlohmann::json::array();
  std::size_t count[4] = {0, 0, 0, 0};
  std::vector<Rule> proved;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const proof::Verdict& v = results[i].verdict;
    if (v.outcome == proof::Outcome::kInvalid) {
      input.refuse(input.files[i], input.rules[i].name, v.explanation);
      continue;
    }
    ++count[static_cast<int>(v.outcome)];
    say(options.common, line_of(input.rules[i], v));
    list.push_back(facts_of(input.rules[i], results[i]));
    if (v.outcome != proof::Outcome::kProved) continue;
    proved.push_back(proved_rule(v));
  }
  for (nlohmann::json& bad : input.bad) list.push_back(std::move(bad));
  if (!options.output.empty()) write_file(options.output, write_rules(proved, RuleFormat::kBinary));
  say(options.common, std::to_string(count[0]) + " proved, " + std::to_string(count[1]) + " refuted, " +
                          std::to_string(count[2]) + " undecided" +
                          (input.bad.empty() ? "" : ", " + std::to_string(input.bad.size()) + " invalid") + "\n");
  write_json(options.common, {{"proved", count[0]},
                              {"refuted", count[1]},
                              {"undecided", count[2]},
                              {"invalid", input.bad.size()},
                              {"seconds", seconds},
                              {"rules", list}});
  return !input.bad.empty() ? kBadInput : count[1] > 0 ? kNo : kDone;
}

}  // namespace

CLI::App* add_verify(CLI::App& program, Run& run) {
  const auto options = std::make_shared<VerifyOptions>();
  VerifyOptions& o = *options;
  CLI::App* command = add_command(program, "verify", "Prove rules for all sizes, or refute them with a counterexample",
                                  "rewright verify my.rules -o verified.rules", o.common);
  command->add_option("files", o.files, "rule databases (default: the shipped one)")->type_name("FILE");
  command->add_option("-o,--output", o.output, "the proved rules, as a database")->type_name("FILE");
  command->add_flag("--infer-conditions", o.infer_conditions,
                    "add to a rule that does not hold the conditions under which it does, where they are found");
  command->add_option("--certificates", o.certificates, "a folder for the proofs, a file a proved rule")->type_name("DIR");
  add_certificate_options(*command, o.check);
  command->callback([options, &run] {
    run = [options] {
      return options->check.files.empty() ? verify_command(*options) : check_certificates(options->check, options->common);
    };
  });
  return command;
}

}  // namespace rewright::cli
