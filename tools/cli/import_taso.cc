#include <nlohmann/json.hpp>

#include "graph/file.h"
#include "rules/io.h"
#include "rules/taso/taso.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct ImportTasoOptions {
  CommonOptions common;
  std::string file, output, format = "binary";
};

int import_command(const ImportTasoOptions& options) {
  const std::map<std::string, RuleFormat> kFormats = {
      {"binary", RuleFormat::kBinary}, {"text", RuleFormat::kText}, {"algebra", RuleFormat::kAlgebra}};
  const TasoImport imported = import_taso(map_file(options.file).text(), options.file);
  require_writable(options.output);
  write_file(options.output, write_rules(imported.rules, kFormats.at(options.format)));
  nlohmann::json skipped = nlohmann::json::array();
  for (const TasoImport::Skipped& s : imported.skipped) {
    say(options.common, s.name + " is left out: " + s.reason + "\n");
    skipped.push_back({{"name", s.name}, {"reason", s.reason}});
  }
  say(options.common, options.output + ": " + std::to_string(imported.rules.size()) + " rules, " +
                          std::to_string(imported.skipped.size()) + " left out\n");
  write_json(options.common, {{"output", options.output}, {"imported", imported.rules.size()}, {"skipped", skipped}});
  return kDone;
}

}  // namespace

CLI::App* add_import_taso(CLI::App& rules, Run& run) {
  const auto options = std::make_shared<ImportTasoOptions>();
  ImportTasoOptions& o = *options;
  CLI::App* command = add_command(rules, "import-taso", "Rules in TASO's format; the rule with index 17 becomes taso_17",
                                  "rewright rules import-taso graph_subst.pb -o taso.rules", o.common);
  command->add_option("file", o.file, "the file that TASO's generator wrote")->required()->type_name("FILE");
  command->add_option("-o,--output", o.output, "where the rules are written, not verified yet")->required()->type_name("FILE");
  command->add_option("--format", o.format, "binary, text or algebra (which does not say that they are imported)")
      ->check(CLI::IsMember({"binary", "text", "algebra"}))
      ->capture_default_str();
  command->callback([options, &run] { run = [options] { return import_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
