#include <nlohmann/json.hpp>

#include "generator/pruning/provenance.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

using Kind = generator::Standing::Kind;

struct DeriveOptions {
  CommonOptions common;
  std::vector<std::string> files, given;
  int instances = 12;
  generator::RuleDerivationLimits limits;
};

int derive_command(const DeriveOptions& options) {
  const std::vector<Rule> rules = read_all_rules(options.files), given = read_all_rules(options.given);
  generator::RuleDerivationLimits limits = options.limits;
  if (options.common.seed != 0) limits.seed = options.common.seed;
  const auto found = generator::standings(rules, given, options.instances, limits);
  nlohmann::json list = nlohmann::json::array();
  std::size_t derived = 0;
  std::string text;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const generator::Standing& standing = found[i];
    std::string line = rules[i].name;
    line.resize(std::max<std::size_t>(line.size() + 1, 44), ' ');
    line += std::string(name(standing.kind));
    if (standing.kind == Kind::kSame) line += " as " + standing.same;
    if (standing.kind == Kind::kInPart)
      line += ", on " + std::to_string(standing.derived) + " of " + std::to_string(standing.instances) + " instances";
    text += line + "\n";
    if (standing.kind == Kind::kSame || standing.kind == Kind::kFollows) ++derived;
    list.push_back({{"name", rules[i].name},
                    {"verdict", name(standing.kind)},
                    {"same", standing.same},
                    {"instances", standing.instances},
                    {"derived", standing.derived}});
  }
  say(options.common, text + std::to_string(derived) + " of " + std::to_string(rules.size()) + " rules follow\n");
  write_json(options.common, {{"rules", list}, {"derived", derived}});
  return derived == rules.size() ? kDone : kNo;
}

}  // namespace

void add_derive(CLI::App& rules, Run& run) {
  const auto options = std::make_shared<DeriveOptions>();
  DeriveOptions& o = *options;
  CLI::App* sub = add_command(rules, "derive", "Which rules follow from others, on random instances (exit 1 if one does not)",
                              "rewright rules derive mine.rules --from generated", o.common);
  sub->add_option("files", o.files, "rule databases (default: the shipped one)")->type_name("FILE");
  sub->add_option("--from", o.given, "the rules from which they may follow")->required()->type_name("FILE");
  sub->add_option("--instances", o.instances, "of each rule")->check(CLI::PositiveNumber)->capture_default_str();
  sub->add_option("--rounds", o.limits.rounds, "how often all rules are applied, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--applications", o.limits.applications, "the most applications of operators that are added to an instance")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->callback([options, &run] { run = [options] { return derive_command(*options); }; });
}

}  // namespace rewright::cli
