#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/process_memory.h"
#include "generator/run/generator.h"
#include "graph/file.h"
#include "rules/io.h"
#include "tools/cli/command.h"
#include "tools/cli/processes.h"
#include "verifier/verify.h"

namespace rewright::cli {

namespace {

struct GenerateOptions {
  CommonOptions common;
  std::string output, operators = "taso", memory = "4G", resume, save_every = "60s";
  std::size_t max_operators = 3;
  bool unproved = false;
  std::vector<std::string> keep;
};

// The rule with the conditions that its target needs, if it is proved for all sizes.
std::optional<Rule> prove(const Rule& rule) {
  proof::VerifyOptions options;
  options.instances = 0;  // random instances were already tried
  options.suggest_conditions = false;
  proof::Verdict verdict = proof::verify(rule, options);
  return verdict.outcome == proof::Outcome::kProved ? std::optional(std::move(verdict.rule)) : std::nullopt;
}

int generate_with(const GenerateOptions& given, Communicator& processes) {
  GenerateOptions options = given;
  if (processes.rank() != 0) {  // only the first one reports
    options.common.quiet = true;
    options.common.json.clear();
  }
  generator::GenerateOptions o;
  o.operators = options.operators;
  o.max_operators = options.max_operators;
  o.memory = parse_bytes(options.memory);
  o.threads = thread_count(options.common);
  if (options.common.seed != 0) o.seed = options.common.seed;
  if (!options.unproved) o.prove = prove;
  const auto keeps = [&](const char* what) {
    return std::find(options.keep.begin(), options.keep.end(), what) != options.keep.end();
  };
  o.prune_renamings = !keeps("renamings");
  o.prune_instances = !keeps("instances");
  o.prune_derivable = !keeps("derivable");
  o.state = options.resume;
  o.state_interval = parse_seconds(options.save_every);
  const char* temporary = std::getenv("TMPDIR");
  const std::filesystem::path beside = std::filesystem::path(options.output).parent_path();
  o.temporary = temporary && *temporary ? std::filesystem::path(temporary) : beside.empty() ? "." : beside;
  if (processes.rank() == 0) require_writable(options.output);
  Interruption interruption;
  Progress progress(options.common);
  o.stop = interruption.token();
  o.progress = [&](const std::string& stage, double fraction, const std::string& note) {
    progress.update(stage, fraction, note);
  };
  const auto start = std::chrono::steady_clock::now();
  const generator::Generated found = generator::generate(o, processes);
  if (processes.rank() == 0) write_file(options.output, write_rules(found.rules, RuleFormat::kBinary));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::size_t peak = 0;  // of the process with the most
  for (const std::string& bytes : processes.all_gather(std::to_string(peak_resident_bytes())))
    peak = std::max(peak, static_cast<std::size_t>(std::stoull(bytes)));
  std::string text = std::to_string(static_cast<unsigned long long>(found.graphs)) + " graphs, " +
                     std::to_string(found.fingerprints) + " fingerprints, " + std::to_string(found.candidates) +
                     " candidates\n";
  for (const auto& [reason, count] : found.pruned) text += "  pruned, " + reason + ": " + std::to_string(count) + "\n";
  text +=
      options.output + ": " + std::to_string(found.rules.size()) + " rules" + (found.complete ? "" : " (interrupted)") + "\n";
  say(options.common, text);
  write_json(options.common, {{"output", options.output},
                              {"operators", options.operators},
                              {"max_operators", options.max_operators},
                              {"graphs", found.graphs},
                              {"fingerprints", found.fingerprints},
                              {"candidates", found.candidates},
                              {"pruned", found.pruned},
                              {"rules", found.rules.size()},
                              {"complete", found.complete},
                              {"seconds", seconds},
                              {"peak_bytes", peak}});
  return kDone;
}

int generate_command(const GenerateOptions& options) {
  return run_in_processes([&](Communicator& processes) { return generate_with(options, processes); });
}

}  // namespace

CLI::App* add_generate(CLI::App& program, Run& run) {
  const auto options = std::make_shared<GenerateOptions>();
  GenerateOptions& o = *options;
  CLI::App* command = add_command(program, "generate", "Discover rules: enumerate small graphs and see which compute the same",
                                  "rewright generate -o candidates.rules --operators taso --max-operators 3", o.common);
  command->add_option("-o,--output", o.output, "the rules found, as a database for rewright verify")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "--operators", o.operators,
          "named sets (taso, matrices, cnn, transformer, linear, elementwise, partial, all) or operators with arguments: "
          "\"conv2d(kernel=1|3,activation=none|relu),ew_add\"")
      ->capture_default_str()
      ->type_name("LIST");
  command->add_option("--max-operators", o.max_operators, "the most operators of a graph")
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--memory", o.memory, "memory for each process; the rest goes to disk")
      ->capture_default_str()
      ->type_name("SIZE");
  command->add_option("--resume", o.resume, "keep the state in this folder, and continue a run that ended early from it")
      ->type_name("DIR");
  command->add_option("--save-every", o.save_every, "how often the state is written")->capture_default_str()->type_name("TIME");
  command->add_option("--keep", o.keep, "keep equations that are otherwise left out: any of renamings, instances, derivable")
      ->delimiter(',')
      ->check(CLI::IsMember({"renamings", "instances", "derivable"}))
      ->type_name("LIST");
  command->add_flag("--unproved", o.unproved,
                    "write the most general form that holds on random instances, without looking for proofs");
  command->callback([options, &run] { run = [options] { return generate_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
