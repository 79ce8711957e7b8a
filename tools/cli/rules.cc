#include <nlohmann/json.hpp>

#include "api/rule_facts.h"
#include "generator/pruning/provenance.h"
#include "graph/file.h"
#include "rules/draw.h"
#include "rules/io.h"
#include "rules/merge.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct RulesOptions {
  CommonOptions common;
  std::vector<std::string> files, names;
  std::string output, format = "binary";
  bool dot = false, reduce = false;
};

// Facts about a rule, as comments in algebra.
std::string remarks(const Rule& rule) {
  const RuleProof& proof = rule.proof;
  std::string text = "# " + std::string(name(proof.status));
  if (proof.status == RuleStatus::kProved) {
    text += " for all sizes";
    if (proof.ranks != 0) text += ", to rank " + std::to_string(proof.ranks);
    if (!proof.digest.empty()) text += ", certificate " + proof.digest;
  }
  if (!proof.note.empty()) text += ": " + proof.note;
  text += rule.for_training ? "\n# also for training" : "\n# not for training";
  return text + ", " + std::string(name(rule.origin)) + "\n";
}

// Is the argument a rule's name? It must not be a file.
bool is_rule_name(const std::string& argument) {
  std::error_code error;
  return !std::filesystem::exists(argument, error) && !is_part_of_shipped_rules(argument) &&
         std::all_of(argument.begin(), argument.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

int rules_command(RulesOptions options, bool whole) {
  if (whole) {
    const auto names = std::stable_partition(options.files.begin(), options.files.end(),
                                             [](const std::string& argument) { return !is_rule_name(argument); });
    options.names.insert(options.names.end(), names, options.files.end());
    options.files.erase(names, options.files.end());
  }
  const std::vector<Rule> rules = read_all_rules(options.files);
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& wanted : options.names)
    if (std::none_of(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == wanted; }))
      throw Error(ErrorCode::kUsage, "there is no rule \"" + wanted + "\"", {}, "see rewright rules list");
  for (const Rule& rule : rules) {
    if (!options.names.empty() && std::find(options.names.begin(), options.names.end(), rule.name) == options.names.end())
      continue;
    list.push_back(facts_of(rule));
    if (options.dot) {
      list.back()["dot"] = to_dot(rule);
      say(options.common, to_dot(rule));
    } else if (whole) {
      say(options.common, to_algebra(rule) + remarks(rule) + "\n");
    } else {
      std::string line = rule.name;
      line.resize(std::max<std::size_t>(line.size() + 1, 44), ' ');
      line += std::string(name(rule.math));
      line.resize(std::max<std::size_t>(line.size() + 1, 58), ' ');
      line += std::string(name(rule.proof.status));
      line.resize(std::max<std::size_t>(line.size() + 1, 68), ' ');
      line += std::string(name(rule.origin));
      line.resize(std::max<std::size_t>(line.size() + 1, 82), ' ');
      say(options.common, line + rule.description + "\n");
    }
  }
  write_json(options.common, {{"rules", list}});
  return kDone;
}

int diff_command(const RulesOptions& options) {
  const RuleDifference d = difference(read_rules(options.files[0]), read_rules(options.files[1]));
  std::string text;
  for (const std::string& rule : d.only_first) text += "- " + rule + "\n";
  for (const std::string& rule : d.only_second) text += "+ " + rule + "\n";
  for (const std::string& rule : d.changed) text += "! " + rule + "\n";
  nlohmann::json renamed = nlohmann::json::array();
  for (const auto& [first, second] : d.renamed) {
    text += "= " + first + " is " + second + "\n";
    renamed.push_back({{"first", first}, {"second", second}});
  }
  say(options.common, text);
  write_json(options.common, {{"equal", d.empty()},
                              {"only_first", d.only_first},
                              {"only_second", d.only_second},
                              {"changed", d.changed},
                              {"renamed", renamed}});
  return d.empty() ? kDone : kNo;
}

int merge_command(const RulesOptions& options) {
  const std::map<std::string, RuleFormat> kFormats = {
      {"binary", RuleFormat::kBinary}, {"text", RuleFormat::kText}, {"algebra", RuleFormat::kAlgebra}};
  require_writable(options.output);
  std::vector<NamedRules> sets;
  for (const std::string& file : options.files) sets.push_back({file, read_rules(file)});
  const MergedRules merged = merge(sets);
  generator::ReducedRules reduced{merged.rules, {}};
  if (options.reduce) reduced = generator::reduced(merged.rules);
  write_file(options.output, write_rules(reduced.rules, kFormats.at(options.format)));
  nlohmann::json dropped = nlohmann::json::array();
  std::string text;
  for (const MergedRules::Duplicate& d : merged.dropped) {
    text += d.file + ": " + d.name + " is " + d.kept + "\n";
    dropped.push_back({{"name", d.name}, {"file", d.file}, {"kept", d.kept}});
  }
  for (const std::string& rule : reduced.dropped) text += rule + " follows from others\n";
  text += options.output + ": " + std::to_string(reduced.rules.size()) + " rules, " + std::to_string(merged.dropped.size()) +
          " duplicates dropped";
  if (options.reduce) text += ", and " + std::to_string(reduced.dropped.size()) + " that follow from others";
  say(options.common, text + "\n");
  write_json(
      options.common,
      {{"output", options.output}, {"rules", reduced.rules.size()}, {"dropped", dropped}, {"derivable", reduced.dropped}});
  return kDone;
}

void add_list_and_show(CLI::App& command, Run& run) {
  for (const bool whole : {false, true}) {
    const auto options = std::make_shared<RulesOptions>();
    RulesOptions& o = *options;
    CLI::App* sub =
        add_command(command, whole ? "show" : "list", whole ? "Rules as algebra, with their proofs" : "A line a rule",
                    whole ? "rewright rules show conv_add" : "rewright rules list", o.common);
    sub->add_option("files", o.files,
                    whole ? "names of rules, and rule databases (default: the shipped one)"
                          : "rule databases (default: the shipped one)")
        ->type_name(whole ? "NAME|FILE" : "FILE");
    sub->add_option("--name", o.names, "only this rule (repeatable)")->type_name("RULE");
    if (whole) sub->add_flag("--dot", o.dot, "drawn, as text for Graphviz: rewright rules show conv_add --dot | dot -Tsvg");
    sub->callback([options, whole, &run] { run = [options, whole] { return rules_command(*options, whole); }; });
  }
}

void add_diff(CLI::App& command, Run& run) {
  const auto options = std::make_shared<RulesOptions>();
  RulesOptions& o = *options;
  CLI::App* sub = add_command(command, "diff", "How two rule databases differ, by name (exit 1 if they do)",
                              "rewright rules diff old.rules new.rules", o.common);
  sub->add_option("files", o.files, "- only in the first, + only in the second, ! changed, = the same under another name")
      ->required()
      ->expected(2)
      ->type_name("A B");
  sub->callback([options, &run] { run = [options] { return diff_command(*options); }; });
}

void add_merge(CLI::App& command, Run& run) {
  const auto options = std::make_shared<RulesOptions>();
  RulesOptions& o = *options;
  CLI::App* sub = add_command(command, "merge", "The union of rule databases, without duplicates",
                              "rewright rules merge mine.rules others.rules -o all.rules", o.common);
  sub->add_option("files", o.files, "rule databases")->required()->type_name("FILE");
  sub->add_option("-o,--output", o.output, "where the union is written")->required()->type_name("FILE");
  sub->add_option("--format", o.format, "binary, text or algebra (which keeps no proofs)")
      ->check(CLI::IsMember({"binary", "text", "algebra"}))
      ->capture_default_str();
  sub->add_flag("--reduce", o.reduce, "also leave out what follows from the rest");
  sub->callback([options, &run] { run = [options] { return merge_command(*options); }; });
}

}  // namespace

CLI::App* add_rules(CLI::App& program, Run& run) {
  CLI::App* command = program.add_subcommand("rules", "Look at rule databases, compare and unite them");
  command->require_subcommand(1);
  add_list_and_show(*command, run);
  add_diff(*command, run);
  add_merge(*command, run);
  add_derive(*command, run);
  add_import_taso(*command, run);
  return command;
}

}  // namespace rewright::cli
