#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/file.h"
#include "optimizer/profiling/measure_profile.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct ProfileOptions {
  CommonOptions common;
  std::string output, device = "cpu", format = "binary";
  std::vector<std::string> models, merged;
  bool known = false;
};

DeviceProfile merge_files(const std::vector<std::string>& files) {
  std::vector<DeviceProfile> profiles;
  for (const std::string& file : files) profiles.push_back(read_profile(file));
  return merge_profiles(profiles);
}

DeviceProfile measure(const ProfileOptions& options) {
  if (options.device.starts_with("profile:"))
    throw Error(ErrorCode::kUsage, "a profile cannot be measured", "--device " + options.device, "--merge unites profiles");
  std::vector<Graph> graphs;
  for (const std::string& model : options.models) graphs.push_back(import_onnx(model));
  Interruption interruption;
  const std::unique_ptr<Device> device = make_device(options.device, thread_count(options.common));
  CostDatabase database(CostDatabase::default_file());
  Progress progress(options.common);
  MeasureProfileOptions measuring;
  measuring.cancel = interruption.token();
  measuring.progress = [&](std::size_t done, std::size_t all) {
    progress.update("measuring", static_cast<double>(done) / static_cast<double>(all), "");
  };
  return measure_profile(*device, database, graphs, options.known, measuring);
}

int profile_command(const ProfileOptions& options) {
  require_writable(options.output);
  DeviceProfile profile = options.merged.empty() ? measure(options) : merge_files(options.merged);
  write_file(options.output, write_profile(profile, options.format == "text" ? ProfileFormat::kText : ProfileFormat::kBinary));
  const Roofline rates = profile.roofline;
  std::size_t failed = 0;
  for (const ProfiledOperator& op : profile.operators) failed += !op.seconds;
  const ProfileModel model(std::move(profile));
  const ProfileModel::Accuracy accuracy = model.accuracy();
  std::ostringstream text;
  text << options.output << ": " << model.profile().device << "\n"
       << std::setprecision(3) << "  rates      " << rates.operations_per_second * 1e-9 << " GFLOP/s, "
       << rates.bytes_per_second * 1e-9 << " GB/s, " << rates.call_seconds * 1e6 << " us a call\n"
       << "  operators  " << model.profile().operators.size() << ", " << failed << " of which cannot be executed\n";
  if (accuracy.operators > 0)
    text << "  each from the others predicted: half of " << accuracy.operators << " within a factor of " << accuracy.median
         << ", nine tenths within " << accuracy.high << "\n";
  say(options.common, text.str());
  write_json(options.common,
             {{"output", options.output},
              {"device", model.profile().device},
              {"operations_per_second", rates.operations_per_second},
              {"bytes_per_second", rates.bytes_per_second},
              {"call_seconds", rates.call_seconds},
              {"operators", model.profile().operators.size()},
              {"failed", failed},
              {"predicted_from_others",
               {{"operators", accuracy.operators}, {"median_factor", accuracy.median}, {"high_factor", accuracy.high}}}});
  return kDone;
}

}  // namespace

CLI::App* add_profile(CLI::App& program, Run& run) {
  const auto options = std::make_shared<ProfileOptions>();
  ProfileOptions& o = *options;
  CLI::App* command = add_command(program, "profile", "Measure a device once, to optimize for it anywhere",
                                  "rewright profile -o desktop.profile", o.common);
  command->add_option("-o,--output", o.output, "where the profile is written")->required()->type_name("DEVICE.profile");
  command->add_option("--device", o.device, "the device to measure: " + device_names(DeviceUse::kMeasure, "or"))
      ->capture_default_str();
  CLI::Option* models =
      command->add_option("models", o.models, "models whose operators are measured as they are, too")->type_name("MODEL.onnx");
  CLI::Option* known = command->add_flag("--known", o.known, "also include all earlier measurements of this device");
  command->add_option("--merge", o.merged, "unite these profiles of one device, instead of measuring")
      ->type_name("FILE")
      ->excludes(models)
      ->excludes(known);
  command->add_option("--format", o.format, "binary or text")->check(CLI::IsMember({"binary", "text"}))->capture_default_str();
  command->callback([options, &run] { run = [options] { return profile_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
