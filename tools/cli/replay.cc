#include <nlohmann/json.hpp>
#include <set>

#include "graph/file.h"
#include "graph/onnx/import/overridable.h"
#include "optimizer/certificates/replay.h"
#include "rules/io.h"
#include "runtime/cpu/backend/evaluator.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct ReplayOptions {
  CommonOptions common;
  std::string input, certificate, output;
  std::vector<std::string> rules;
  bool unproved = false;
};

// The graph as the optimizer saw it: inputs with a default value were inputs, or constants (optimize --fix-inputs).
Graph as_searched(const Graph& given, const Certificate& certificate) {
  std::set<std::string> names;
  for (const Declaration& weight : overridable_initializers(given)) names.insert(weight.name);
  return names.empty() || given.hash() == certificate.before ? with_fixed_inputs(given) : with_inputs(given, names);
}

int replay_command(const ReplayOptions& options) {
  const Graph given = import_onnx(options.input);
  const Certificate certificate = parse_certificate(map_file(options.certificate).text(), options.certificate);
  const std::vector<Rule> rules = read_proved_rules(options.rules, options.unproved);
  const std::unique_ptr<Evaluator> evaluator = cpu::make_cpu_evaluator(thread_count(options.common));
  const Graph graph = as_searched(given, certificate);
  export_onnx(replay(graph, certificate, rules, *evaluator), options.output, kRewritten);
  const std::size_t rewrites = rewrites_of(certificate.steps).size();
  say(options.common, options.output + ": " + std::to_string(rewrites) + " rewrites replayed\n");
  write_json(
      options.common,
      {{"input", options.input}, {"certificate", options.certificate}, {"output", options.output}, {"rewrites", rewrites}});
  return kDone;
}

}  // namespace

CLI::App* add_replay(CLI::App& program, Run& run) {
  const auto options = std::make_shared<ReplayOptions>();
  ReplayOptions& o = *options;
  CLI::App* command = add_command(program, "replay", "Apply the rewrites of a certificate again",
                                  "rewright replay model.onnx certificate.json -o faster.onnx", o.common);
  command->add_option("input", o.input, "the model the certificate was made for")->required()->type_name("IN.onnx");
  command->add_option("certificate", o.certificate, "the file that optimize --certificate wrote")
      ->required()
      ->type_name("CERTIFICATE");
  command->add_option("-o,--output", o.output, "where the result is written")->required()->type_name("OUT.onnx");
  command->add_option("--rules", o.rules, "rule databases (default: the shipped one)")->type_name("FILE");
  command->add_flag("--unproved", o.unproved, "also use rules without a proof: the result may compute something else");
  command->callback([options, &run] { run = [options] { return replay_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
