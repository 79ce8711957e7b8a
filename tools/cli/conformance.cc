#include "runtime/conformance.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/mixed.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct ConformanceOptions {
  CommonOptions common;
  std::string folder, device = "cpu";
  bool verbose = false;
};

int conformance_command(const ConformanceOptions& options) {
  if (!std::filesystem::is_directory(options.folder))
    throw Error(ErrorCode::kBadInput, "there is no such folder", options.folder);
  const Backend& backend = find_backend(options.device);
  const int threads = thread_count(options.common);
  const auto execute = [&](const Graph& graph, std::span<const Datum> inputs) {
    return prepare_session(backend, graph, {.threads = threads})->execute(inputs);
  };
  using Status = ConformanceCase::Status;
  ConformanceReport report;
  {
    Progress progress(options.common);
    const double all = static_cast<double>(std::distance(std::filesystem::directory_iterator(options.folder), {}));
    double done = 0;
    report = run_conformance(options.folder, execute,
                             [&](const ConformanceCase& c) { progress.update("cases", ++done / all, c.name); });
  }
  nlohmann::json list = nlohmann::json::array();
  for (const ConformanceCase& c : report.cases) {
    if (c.status == Status::kFailed || (options.verbose && c.status == Status::kUnsupported)) {
      std::string line(name(c.status));
      line.resize(13, ' ');
      say(options.common, line + c.name + ": " + c.reason + "\n");
    }
    list.push_back({{"name", c.name}, {"status", name(c.status)}, {"reason", c.reason}});
  }
  const std::size_t passed = report.count(Status::kPassed), failed = report.count(Status::kFailed),
                    unsupported = report.count(Status::kUnsupported);
  say(options.common, std::to_string(passed) + " passed, " + std::to_string(failed) + " failed, " +
                          std::to_string(unsupported) + " unsupported\n");
  write_json(
      options.common,
      {{"device", options.device}, {"passed", passed}, {"failed", failed}, {"unsupported", unsupported}, {"cases", list}});
  return failed == 0 ? kDone : kNo;
}

}  // namespace

CLI::App* add_conformance(CLI::App& program, Run& run) {
  const auto options = std::make_shared<ConformanceOptions>();
  ConformanceOptions& o = *options;
  CLI::App* command = add_command(program, "conformance", "Run a folder of ONNX backend test cases",
                                  "rewright conformance cases --device reference", o.common);
  command->add_option("folder", o.folder, "CASE/model.onnx and CASE/test_data_set_N/*.pb")->required()->type_name("DIR");
  command->add_option("--device", o.device, device_names(DeviceUse::kSession, "or"))->capture_default_str();
  command->add_flag("--verbose", o.verbose, "name the unsupported cases, too");
  command->callback([options, &run] { run = [options] { return conformance_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
