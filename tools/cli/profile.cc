#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/process_memory.h"
#include "distribution/device_sums.h"
#include "graph/file.h"
#include "optimizer/profiling/measure_profile.h"
#include "plans/machines/machine_file.h"
#include "plans/machines/measure_links.h"
#include "runtime/planned/measure_exchanges.h"
#include "runtime/planned/measure_layouts.h"
#include "runtime/planned/operator_parts.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_run.h"
#include "tools/cli/command.h"
#include "tools/cli/processes.h"

namespace rewright::cli {

namespace {

struct ProfileOptions {
  CommonOptions common;
  std::string output, device = "cpu", format = "binary";
  std::vector<std::string> models, merged;
  bool known = false, links = false;
  std::int64_t batch = 0;
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

// This process's device.
std::unique_ptr<Device> own_device(const ProfileOptions& options, Communicator& processes) {
  const bool own = options.device == "cuda" && processes.size() > 1;
  const std::string name = own ? "cuda:" + std::to_string(own_gpu(processes)) : options.device;
  return make_device(name, thread_count(options.common));
}

// With one thread a device measures its CPU time: processors that several processes share count in part.
double share_of_processor(const ProfileOptions& options, std::size_t per_node) {
  const double processors = std::max(1U, std::thread::hardware_concurrency());
  const bool by_cpu_time = thread_count(options.common) == 1 && options.device == "cpu";
  return by_cpu_time ? std::min(1.0, processors / static_cast<double>(per_node)) : 1;
}

// The rates of a process's device while all processes measure theirs, on the average over them.
plans::DeviceRates measure_rates(const ProfileOptions& options, Communicator& processes, std::size_t per_node) {
  const std::unique_ptr<Device> device = own_device(options, processes);
  processes.barrier();
  const Roofline measured = device->roofline();
  double rates[] = {measured.operations_per_second, measured.bytes_per_second, measured.call_seconds};
  const double share = share_of_processor(options, per_node);
  processes.sum(std::span<double>(rates));
  for (double& rate : rates) rate /= static_cast<double>(processes.size());
  return {rates[0] * share, rates[1] * share, rates[2] / share};
}

nlohmann::json link_json(const plans::MeasuredLink& link) {
  nlohmann::json times = nlohmann::json::array();
  for (const plans::MessageTime& time : link.times) times.push_back({time.bytes, time.seconds});
  return {{"bytes_and_seconds", times}, {"median_error", link.median_error}};
}

std::string link_line(const std::string& between, const plans::MeasuredLink& link) {
  std::ostringstream text;
  text << std::setprecision(3) << "  " << std::left << std::setw(20) << between << link.latency * 1e6 << " us and "
       << link.bytes_per_second * 1e-9 << " GB/s; half of the sizes within " << link.median_error * 100 << "%\n";
  return text.str();
}

// The graphs that plans of the models divide: runs, and steps of training where there are any.
std::vector<Graph> planned_graphs(const ProfileOptions& options) {
  std::vector<Graph> graphs;
  const std::optional<std::int64_t> batch = options.batch > 0 ? std::optional(options.batch) : std::nullopt;
  for (const std::string& file : options.models) {
    graphs.push_back(runtime::planned_for_inference(runtime::with_batch(import_onnx(file), batch)).graph);
    try {
      const Graph model = runtime::with_batch(import_onnx(file, {.procedures_as_graphs = true}), batch);
      const training::TrainingGraphs step =
          training::make_training_graphs(model, "", runtime::planned_training("softmax-cross-entropy", "adam"));
      graphs.push_back(runtime::planned_for_training(step).graph);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kCancelled) throw;  // others: it cannot be trained
    }
  }
  return graphs;
}

// Measures operators while all processes do, and writes the first one's profile beside the machine's file. Returns its name.
std::string profile_operators(const ProfileOptions& options, const plans::MachineDescription& machine, Communicator& processes,
                              std::vector<Graph> graphs, std::stop_token cancel) {
  // As they are, and as each of the processes would compute them.
  const std::vector<Graph> parts = runtime::operator_parts(plans::Machine(machine), graphs, processes.size());
  graphs.insert(graphs.end(), parts.begin(), parts.end());
  // As if the process had a processor for itself: so are operators timed, and factors are of the two.
  const double share = share_of_processor(options, machine.per_node);
  plans::DeviceRates rates = plans::Machine(machine).rates();
  rates = {rates.operations_per_second / share, rates.bytes_per_second / share, rates.call_seconds * share};
  const std::unique_ptr<Device> device = own_device(options, processes);
  Progress progress(options.common);
  MeasureProfileOptions measuring;
  measuring.cancel = std::move(cancel);
  measuring.progress = [&](std::size_t done, std::size_t all) {
    progress.update("measuring", static_cast<double>(done) / static_cast<double>(all), "");
  };
  processes.barrier();
  const DeviceProfile profile =
      measure_operators(*device, {rates.operations_per_second, rates.bytes_per_second, rates.call_seconds}, graphs, measuring);
  processes.barrier();  // none computes alone
  const std::filesystem::path file = options.output + ".profile";
  if (processes.rank() == 0) write_file(file, write_profile(profile, ProfileFormat::kBinary));
  return file.filename();
}

// The machine's part that only executing plans shows: what exchanges take, and who shares the memory and the cores.
void measure_together(const ProfileOptions& options, Communicator& processes, std::stop_token cancel,
                      plans::MachineDescription& machine, plans::MeasuredLinks& links) {
  if (options.device != "cpu" || machine.devices != machine.per_node || machine.devices < 2) return;
  machine.node_bytes_per_second = runtime::measure_shared_memory(processes);
  const int threads = thread_count(options.common);
  machine.exchanges_beside = runtime::can_exchange_beside(processes, threads);
  runtime::MeasureExchangesOptions measuring;
  measuring.cancel = std::move(cancel);
  const plans::MeasuredLink exchanges =
      plans::fit_link(runtime::measure_exchanges(processes, find_backend(options.device), {.threads = threads}, measuring));
  const double messages = static_cast<double>(machine.devices - 1);
  machine.exchange_seconds = std::max(0.0, exchanges.latency - messages * links.node->latency);
  links.node->bytes_per_second = std::min(links.node->bytes_per_second, exchanges.bytes_per_second);
}

// The machine that the processes run on, as a machine file.
int profile_links(ProfileOptions options, Communicator& processes) {
  const bool speaks = processes.rank() == 0;
  if (!speaks) options.common.quiet = true, options.common.json.clear();
  if (speaks) require_writable(options.output);
  const std::vector<Graph> graphs = planned_graphs(options);
  Interruption interruption;
  plans::MeasureLinksOptions measuring;
  measuring.cancel = interruption.token();
  plans::MeasuredLinks links = plans::measure_links(processes, measuring);
  plans::MachineDescription machine{.devices = processes.size(), .per_node = links.per_node};
  machine.rates = measure_rates(options, processes, links.per_node);
  if (options.device == "cpu" && machine_bytes() > 0) machine.memory = static_cast<double>(machine_bytes() / links.per_node);
  measure_together(options, processes, interruption.token(), machine, links);
  const auto network = [](const plans::MeasuredLink& link) {
    return plans::NetworkDescription{link.latency, link.bytes_per_second, "switch"};
  };
  if (links.node) machine.node = network(*links.node);
  if (links.cluster) machine.cluster = network(*links.cluster);
  if (!options.models.empty()) machine.profile = profile_operators(options, machine, processes, graphs, interruption.token());
  if (!options.models.empty() && options.device == "cpu") {
    processes.barrier();
    machine.layouts =
        runtime::measure_layouts(find_backend("cpu"), {.threads = thread_count(options.common)}, graphs, interruption.token());
    processes.barrier();  // none computes alone
  }
  if (!speaks) return kDone;
  nlohmann::json file = nlohmann::json::parse(plans::write_machine(machine));
  if (links.node) file["links"]["node"]["measured"] = link_json(*links.node);
  if (links.cluster) file["links"]["cluster"]["measured"] = link_json(*links.cluster);
  write_file(options.output, file.dump(2) + "\n");
  std::ostringstream text;
  text << options.output << ": " << processes.size() << (processes.size() == 1 ? " process, " : " processes, ")
       << links.per_node << " on a machine\n"
       << std::setprecision(3) << "  each                " << machine.rates->operations_per_second * 1e-9 << " GFLOP/s, "
       << machine.rates->bytes_per_second * 1e-9 << " GB/s\n";
  if (machine.exchange_seconds > 0)
    text << "  exchanges           " << machine.exchange_seconds * 1e6 << " us beside their messages; memory gives all "
         << machine.node_bytes_per_second * 1e-9 << " GB/s\n";
  if (links.node) text << link_line("on a machine", *links.node);
  if (links.cluster) text << link_line("between machines", *links.cluster);
  say(options.common, text.str());
  write_json(options.common, {{"output", options.output}, {"machine", file}});
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
  CLI::Option* links =
      command
          ->add_flag("--links", o.links,
                     "write a machine file for plans instead: rates and memory of a process here, and under mpirun the links "
                     "between the processes; with models their operators are measured, too, in runs and steps of training, and "
                     "a profile is written beside the file, by which plans are priced")
          ->excludes(known);
  command->add_option("--batch", o.batch, "with --links: what the models' open sizes stand for")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->needs(links)
      ->capture_default_str();
  command->add_option("--merge", o.merged, "unite these profiles of one device, instead of measuring")
      ->type_name("FILE")
      ->excludes(models)
      ->excludes(known)
      ->excludes(links);
  command->add_option("--format", o.format, "binary or text")->check(CLI::IsMember({"binary", "text"}))->capture_default_str();
  command->callback([options, &run] {
    run = [options] {
      if (!options->links) return profile_command(*options);
      return run_in_processes([options](Communicator& processes) { return profile_links(*options, processes); });
    };
  });
  return command;
}

}  // namespace rewright::cli
