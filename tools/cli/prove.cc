#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/options.h"
#include "api/proving.h"
#include "base/error.h"
#include "tools/cli/command.h"
#include "tools/cli/request_options.h"

namespace rewright::cli {

namespace {

struct ProveOptions {
  CommonOptions common;
  ProvingRequest request;
  std::string check, solver;
};

std::string text_of(const ProveOptions& options, const nlohmann::json& facts) {
  std::ostringstream text;
  const std::string verdict = facts.at("verdict");
  const std::string reason = facts.at("reason");
  text << verdict << ": " << options.request.second
       << (verdict == "proved"    ? " computes what " + options.request.first + " computes"
           : verdict == "refuted" ? " does not compute what " + options.request.first + " computes"
                                  : " was not proved to compute what " + options.request.first + " computes")
       << (reason.empty() ? "" : "; " + reason) << "\n  " << facts.at("equations") << " equations beyond equal operators ("
       << facts.at("by_rewriting") << " by rewriting, " << facts.at("by_rule") << " as rules, " << std::setprecision(3)
       << facts.at("seconds").get<double>() << " s)\n";
  for (const auto& place : facts.at("places"))
    text << "  " << place.at("verdict").get<std::string>() << ": \"" << place.at("a").get<std::string>() << "\" and \""
         << place.at("b").get<std::string>() << "\": " << place.at("reason").get<std::string>() << "\n";
  double largest = 0;
  for (const auto& constant : facts.at("constants")) largest = std::max(largest, constant.at("max_rel_error").get<double>());
  if (!facts.at("constants").empty())
    text << "  " << facts.at("constants").size() << " constants are roundings, by at most " << largest << "\n";
  if (facts.contains("rounding"))
    for (const auto& output : facts.at("rounding")) {
      text << "  output \"" << output.at("output").get<std::string>() << "\" ";
      if (output.at("bound").is_null())
        text << "has no bound of rounding: " << output.at("reason").get<std::string>();
      else
        text << "differs by at most " << output.at("bound").get<double>() << " in floating point";
      text << " (at most " << output.at("sampled").get<double>() << " in random runs)\n";
    }
  if (facts.contains("max_rel_error"))
    text << "  largest error " << facts.at("max_abs_error").get<double>() << " absolute, "
         << facts.at("max_rel_error").get<double>() << " relative\n";
  if (facts.contains("inputs")) {
    text << "  see rewright compare " << options.request.first << " " << options.request.second;
    for (const auto& [name, file] : facts.at("inputs").items()) text << " --input " << name << "=" << file.get<std::string>();
    text << "\n";
  }
  if (facts.contains("reduced"))
    text << "  the smallest that differ: " << facts.at("reduced")[0].get<std::string>() << " and "
         << facts.at("reduced")[1].get<std::string>() << "\n";
  return text.str();
}

int prove_command(const ProveOptions& options) {
  Progress progress(options.common);
  Interruption interruption;
  ProvingRequest request = options.request;
  request.seed = options.common.seed, request.threads = thread_count(options.common);
  request.cancel = interruption.token();
  request.progress = [&](double fraction, const std::string& note) { progress.update("proving", fraction, note); };
  const nlohmann::json facts = prove_models(request);
  say(options.common, text_of(options, facts));
  write_json(options.common, facts);
  return facts.at("verdict") == "proved" ? kDone : kNo;
}

int check_command(const ProveOptions& options) {
  Progress progress(options.common);
  const nlohmann::json facts =
      check_equality({options.request.first, options.request.second, options.check, options.solver, options.request.tolerance},
                     [&](double fraction) { progress.update("checking", fraction, ""); });
  std::ostringstream text;
  text << options.check << ": ";
  if (facts.at("accepted"))
    text << "accepted: " << facts.at("equations") << " equations, " << facts.at("rules") << " certificates of rules; "
         << facts.at("constants") << " constants are roundings, by at most " << facts.at("max_rel_error").get<double>()
         << " (tolerance " << facts.at("tolerance").get<double>() << ")\n";
  else
    text << "refused: " << facts.at("reason").get<std::string>() << "\n";
  say(options.common, text.str());
  write_json(options.common, facts);
  return facts.at("accepted") ? kDone : kNo;
}

}  // namespace

CLI::App* add_prove(CLI::App& program, Run& run) {
  const auto options = std::make_shared<ProveOptions>();
  ProveOptions& o = *options;
  CLI::App* command =
      add_command(program, "prove", "Prove two models equal for all inputs and sizes, or name where they differ",
                  "rewright prove model.onnx faster.onnx --certificate proof", o.common);
  command->add_option("first", o.request.first, "a model")->required()->type_name("A.onnx");
  command->add_option("second", o.request.second, "another model with the same inputs and outputs")
      ->required()
      ->type_name("B.onnx");
  add_options(*command, o.request, proving_options());
  command->add_option("--check", o.check, "follow the proof in this folder, and search nothing")->type_name("DIR");
  command->add_option("--solver", o.solver, "with --check: a program that answers questions in SMT-LIB (\"z3 -in\")")
      ->type_name("COMMAND");
  command->callback([options, &run] {
    run = [options] { return options->check.empty() ? prove_command(*options) : check_command(*options); };
  });
  return command;
}

}  // namespace rewright::cli
