#include "models/models.h"

#include <nlohmann/json.hpp>

#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct ModelsOptions {
  CommonOptions common;
  std::string name, output;
};

int list_models(const CommonOptions& common) {
  nlohmann::json list = nlohmann::json::array();
  for (const Model& m : models::models()) {
    std::string line(m.name);
    line.resize(std::max<std::size_t>(line.size(), 18), ' ');
    say(common, line + std::string(m.description) + "\n");
    list.push_back({{"name", m.name}, {"description", m.description}});
  }
  write_json(common, {{"models", list}});
  return kDone;
}

int build_command(const ModelsOptions& options) {
  const Graph graph = build_model(options.name, options.common.seed);
  export_onnx(graph, options.output);
  say(options.common, options.output + ": " + std::to_string(graph.nodes().size()) + " nodes\n");
  write_json(options.common, {{"name", options.name}, {"output", options.output}, {"nodes", graph.nodes().size()}});
  return kDone;
}

}  // namespace

CLI::App* add_models(CLI::App& program, Run& run) {
  CLI::App* command = program.add_subcommand("models", "Builders of well-known networks, with random weights");
  command->require_subcommand(1);
  const auto list = std::make_shared<CommonOptions>();
  add_command(*command, "list", "Name them", "rewright models list", *list)->callback([list, &run] {
    run = [list] { return list_models(*list); };
  });
  const auto options = std::make_shared<ModelsOptions>();
  ModelsOptions& o = *options;
  CLI::App* build = add_command(*command, "build", "Write one as an ONNX model",
                                "rewright models build squeezenet -o squeezenet.onnx", o.common);
  build->add_option("name", o.name, "which one")->required()->type_name("NAME");
  build->add_option("-o,--output", o.output, "where it is written")->required()->type_name("FILE.onnx");
  build->callback([options, &run] { run = [options] { return build_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
