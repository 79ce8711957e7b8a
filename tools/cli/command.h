// Shared by all commands of the program: common options, reports, interruption and progress.
#pragma once

#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/choices.h"
#include "api/devices.h"
#include "api/given_sizes.h"
#include "api/options.h"
#include "api/rule_files.h"
#include "graph/graph.h"
#include "graph/onnx/onnx.h"
#include "optimizer/devices/device.h"
#include "rules/rule.h"
#include "runtime/session.h"

namespace rewright::cli {

// The program's exit statuses.
enum ExitStatus { kDone = 0, kNo = 1, kWrongUsage = 2, kBadInput = 3, kMissing = 4 };

// Options that every command has.
struct CommonOptions {
  std::string json;  // file for the JSON report; "-" is standard output; empty: none
  std::uint64_t seed = 0;
  int threads = 0;  // 0: all cores
  bool quiet = false;
};

// A subcommand adds its options, and sets `run` to its function if it is chosen.
using Run = std::function<int()>;
using AddCommand = CLI::App* (*)(CLI::App& program, Run& run);

CLI::App* add_optimize(CLI::App& program, Run& run);
CLI::App* add_run(CLI::App& program, Run& run);
CLI::App* add_bench(CLI::App& program, Run& run);
CLI::App* add_compare(CLI::App& program, Run& run);
CLI::App* add_show(CLI::App& program, Run& run);
CLI::App* add_replay(CLI::App& program, Run& run);
CLI::App* add_rules(CLI::App& program, Run& run);
CLI::App* add_generate(CLI::App& program, Run& run);
CLI::App* add_train(CLI::App& program, Run& run);
CLI::App* add_verify(CLI::App& program, Run& run);
CLI::App* add_models(CLI::App& program, Run& run);
CLI::App* add_profile(CLI::App& program, Run& run);
CLI::App* add_plan(CLI::App& program, Run& run);
CLI::App* add_complete(CLI::App& program, Run& run);
CLI::App* add_prove(CLI::App& program, Run& run);
CLI::App* add_conformance(CLI::App& program, Run& run);
CLI::App* add_time_graphs(CLI::App& program, Run& run);  // started by `optimize`
CLI::App* add_import_taso(CLI::App& rules, Run& run);    // below `rules`
void add_derive(CLI::App& rules, Run& run);

// A subcommand with the common options and an example at the end of its help.
CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& description, const std::string& example,
                      CommonOptions& common);

// In an exception handler: prints the exception in one line on standard error, and returns its exit status.
int report_failure();

// Prints text for people to standard output (not with --quiet), or to standard error if the JSON goes to standard output.
void say(const CommonOptions& common, const std::string& text);
// Writes the JSON report to the file of --json, if given.
void write_json(const CommonOptions& common, const nlohmann::json& report);

// Throws Error(kMissing) if the file cannot be written. Called before long work.
void require_writable(const std::string& file);

// An option whose value is one of the choices. The current `value` is the default.
template <class T>
CLI::Option* add_choice(CLI::App& command, const std::string& name, T& value, const Choices<T>& choices,
                        const std::string& description) {
  const auto set = [&value, &choices, name](const std::string& text) {
    try {
      value = choices.value(text);
    } catch (const Error& error) {
      throw error.within("option " + name);
    }
  };
  return command.add_option_function<std::string>(name, set, description)
      ->type_name(choices.names("|"))
      ->default_str(std::string(choices.name(value)));
}

int thread_count(const CommonOptions& common);

// --kernels estimated|cached|measured, for commands that run models on the CPU.
void add_kernels_option(CLI::App& command, KernelChoice& kernels);
// --check-kernels, and a line about the comparison. The result goes into `report` as "kernels".
void add_check_kernels(CLI::App& command, bool& check_kernels);
void report_kernels(const CommonOptions& common, const std::string& device, const CheckedRun& run, nlohmann::json& report);
// Reads a tensor from a .npy or .pb file.
Tensor read_tensor(const std::string& file);
// NAME=FILE pairs of --input.
std::map<std::string, Tensor> read_named_tensors(const std::vector<std::string>& pairs);
// The pairs, without reading the files.
std::map<std::string, std::string> named_files(const std::vector<std::string>& pairs);
// The given values in the order of the graph's inputs. Throws Error(kUsage) for unknown or missing names.
std::vector<Tensor> in_order_of_inputs(const Graph& graph, std::map<std::string, Tensor> given);
std::vector<Datum> in_order_of_inputs(const Graph& graph, std::map<std::string, Datum> given);

sigset_t interrupt_signals();  // those that an Interruption waits for
// While it exists, the first Ctrl-C requests a stop through token(), and the second ends the program at once. Threads started
// before it might receive the signal instead.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::unique_ptr<std::thread> watcher_;
};
// Called at the program's start: writing to a closed pipe, or to a file that may not grow, becomes an error instead of a
// signal.
void prepare_interruption();

// A line of progress on standard error for work of more than 2 seconds: redrawn on a terminal, printed occasionally elsewhere.
class Progress {
 public:
  explicit Progress(const CommonOptions& common);
  ~Progress();
  void update(const std::string& stage, double fraction, const std::string& note);

 private:
  bool enabled_, terminal_, drawn_ = false;
  std::string stage_;
  double started_, stage_started_, stage_began_at_ = 0, last_ = 0;
};

}  // namespace rewright::cli
