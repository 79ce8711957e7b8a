#include "runtime/conformance.h"

#include <nlohmann/json.hpp>

#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct Options {
  CommonOptions common;
  std::string folder, device = "cpu";
  bool verbose = false;
};

int conformance_command(const Options& options) {
  const std::unique_ptr<Backend> backend = make_backend(options.device);
  const int threads = thread_count(options.common);
  const auto executor = [&](const Graph& graph, std::span<const Tensor> inputs) {
    return backend->prepare(graph, {.threads = threads})->run(inputs);
  };
  Progress progress(options.common);
  const std::vector<ConformanceCase> cases =
      run_conformance(options.folder, executor, [&](double fraction) { progress.update("cases", fraction, ""); });
  int passed = 0, failed = 0, unsupported = 0;
  nlohmann::json list = nlohmann::json::array();
  for (const ConformanceCase& c : cases) {
    const bool ok = c.status == ConformanceStatus::kPassed, bad = c.status == ConformanceStatus::kFailed;
    (ok ? passed : bad ? failed : unsupported) += 1;
    if (bad || (options.verbose && !ok)) say(options.common, (bad ? "failed       " : "unsupported  ") + c.name + ": " + c.reason + "\n");
    list.push_back({{"name", c.name}, {"status", ok ? "passed" : bad ? "failed" : "unsupported"}, {"reason", c.reason}});
  }
  say(options.common, std::to_string(passed) + " passed, " + std::to_string(failed) + " failed, " + std::to_string(unsupported) + " unsupported\n");
  write_json(options.common, {{"device", options.device}, {"passed", passed}, {"failed", failed}, {"unsupported", unsupported}, {"cases", list}});
  return failed == 0 ? kDone : kNo;
}

}  // namespace

CLI::App* add_conformance(CLI::App& program, Run& run) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  CLI::App* command = add_command(program, "conformance", "Run a folder of ONNX backend test cases",
                                  "rewright conformance cases --device reference", o.common);
  command->add_option("folder", o.folder, "CASE/model.onnx and CASE/test_data_set_N/*.pb")->required()->type_name("DIR");
  command->add_option("--device", o.device, "cpu or reference")->capture_default_str();
  command->add_flag("--verbose", o.verbose, "name the unsupported cases, too");
  command->callback([options, &run] { run = [options] { return conformance_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
