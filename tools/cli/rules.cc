#include <nlohmann/json.hpp>

#include "rules/io.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct Options {
  CommonOptions common;
  std::vector<std::string> files, names;
};

nlohmann::json as_json(const Rule& rule) {
  return {{"name", rule.name},           {"description", rule.description},
          {"math", name(rule.math)},     {"status", name(rule.proof.status)},
          {"origin", name(rule.origin)}, {"for_training", rule.for_training},
          {"algebra", to_algebra(rule)}};
}

int rules_command(const Options& options, bool whole) {
  const std::vector<Rule> rules = read_all_rules(options.files);
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& wanted : options.names)
    if (std::none_of(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == wanted; }))
      throw Error(ErrorCode::kUsage, "there is no rule \"" + wanted + "\"", {}, "see rewright rules list");
  for (const Rule& rule : rules) {
    if (!options.names.empty() && std::find(options.names.begin(), options.names.end(), rule.name) == options.names.end())
      continue;
    if (whole) {
      say(options.common, to_algebra(rule) + "\n");
    } else {
      std::string line = rule.name;
      line.resize(std::max<std::size_t>(line.size() + 1, 44), ' ');
      line += std::string(name(rule.math));
      line.resize(std::max<std::size_t>(line.size() + 1, 58), ' ');
      line += std::string(name(rule.proof.status));
      line.resize(std::max<std::size_t>(line.size() + 1, 68), ' ');
      say(options.common, line + rule.description + "\n");
    }
    list.push_back(as_json(rule));
  }
  write_json(options.common, {{"rules", list}});
  return kDone;
}

}  // namespace

CLI::App* add_rules(CLI::App& program, Run& run) {
  CLI::App* command = program.add_subcommand("rules", "Look at rule databases");
  command->require_subcommand(1);
  for (const bool whole : {false, true}) {
    const auto options = std::make_shared<Options>();
    Options& o = *options;
    CLI::App* sub = add_command(*command, whole ? "show" : "list", whole ? "Rules as algebra" : "A line a rule",
                                whole ? "rewright rules show --name conv_add" : "rewright rules list", o.common);
    sub->add_option("files", o.files, "rule databases (default: the shipped one)")->type_name("FILE");
    sub->add_option("--name", o.names, "only this rule (repeatable)")->type_name("RULE");
    sub->callback([options, whole, &run] { run = [options, whole] { return rules_command(*options, whole); }; });
  }
  return command;
}

}  // namespace rewright::cli
