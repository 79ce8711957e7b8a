#include "tools/cli/command.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "api/optimization.h"
#include "graph/file.h"

namespace rewright::cli {

CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& description, const std::string& example,
                      CommonOptions& common) {
  CLI::App* command = program.add_subcommand(name, description);
  command->add_option("--json", common.json, "write the report as JSON to a file (- for standard output)")->type_name("FILE");
  command->add_option("--seed", common.seed, "seed of everything random")->capture_default_str();
  command->add_option("--threads", common.threads, "threads to use (default: all cores)")->check(CLI::NonNegativeNumber);
  command->add_flag("--quiet", common.quiet, "print nothing but errors");
  command->footer("Example:\n  " + example);
  return command;
}

void say(const CommonOptions& common, const std::string& text) {
  if (common.quiet) return;
  (common.json == "-" ? std::cerr : std::cout) << text << std::flush;
}

void write_json(const CommonOptions& common, const nlohmann::json& report) {
  if (common.json.empty()) return;
  const std::string text = report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (common.json == "-")
    std::cout << text << std::flush;
  else
    write_file(common.json, text);
}

void require_writable(const std::string& file) {
  const FileWriter trial(file);  // its temporary file is removed
}

int thread_count(const CommonOptions& common) { return usable_threads(common.threads); }

void add_kernels_option(CLI::App& command, KernelChoice& kernels) {
  add_choice(command, "--kernels", kernels, kernel_choices(),
             std::string(option_called(optimization_options(), "kernels").description));
}

void add_check_kernels(CLI::App& command, bool& check_kernels) {
  command.add_flag("--check-kernels", check_kernels,
                   "compare elements of each step's result with the operators' definitions, and compute a step that differs in "
                   "another way (devices cpu and cuda)");
}

void report_kernels(const CommonOptions& common, const std::string& device, const CheckedRun& run, nlohmann::json& report) {
  report["kernels"] = {{"steps", run.steps}, {"checked", run.checked}, {"elements", run.elements}, {"faults", run.faults}};
  const std::string steps = std::to_string(run.checked) + " of " + std::to_string(run.steps) + " steps";
  if (device != "cpu")
    say(common, "kernels: device " + device + " does not compare them\n");
  else
    say(common, "kernels: " + steps + " compared with the operators' definitions at " + std::to_string(run.elements) +
                    " elements: " + (run.faults.empty() ? "none differs" : std::to_string(run.faults.size()) + " differ") +
                    "\n");
}

Tensor read_tensor(const std::string& file) {
  if (file.ends_with(".npy")) return read_npy(file);
  if (file.ends_with(".pb")) return read_tensor_proto(file);
  throw Error(ErrorCode::kUsage, "a tensor is read from a .npy or .pb file", file);
}

std::map<std::string, std::string> named_files(const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> files;
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorCode::kUsage, "--input " + pair + " is not understood", {}, "write it like --input NAME=FILE.npy");
    files[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return files;
}

std::map<std::string, Tensor> read_named_tensors(const std::vector<std::string>& pairs) {
  std::map<std::string, Tensor> given;
  for (const auto& [name, file] : named_files(pairs)) given[name] = read_tensor(file);
  return given;
}

namespace {

template <class T>
std::vector<T> in_order(const Graph& graph, std::map<std::string, T> given) {
  std::vector<T> result;
  std::string missing;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    const auto at = given.find(value.name);
    if (at == given.end()) {
      missing += (missing.empty() ? "" : ", ") + value.name + " " + to_string(value.type);
      continue;
    }
    result.push_back(at->second);
    given.erase(at);
  }
  if (!missing.empty()) throw Error(ErrorCode::kUsage, "no file is given for " + missing, {}, "add --input NAME=FILE.npy");
  if (!given.empty()) throw Error(ErrorCode::kUsage, "the model has no input \"" + given.begin()->first + "\"");
  return result;
}

}  // namespace

std::vector<Tensor> in_order_of_inputs(const Graph& graph, std::map<std::string, Tensor> given) {
  return in_order(graph, std::move(given));
}

std::vector<Datum> in_order_of_inputs(const Graph& graph, std::map<std::string, Datum> given) {
  return in_order(graph, std::move(given));
}

// ---- Interruption

void prepare_interruption() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a write error
}

sigset_t interrupt_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);  // ends the watcher
  return set;
}

Interruption::Interruption() {
  const sigset_t set = interrupt_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // threads that are started from here on inherit it
  watcher_ = std::make_unique<std::thread>([this] {
    const sigset_t waited = interrupt_signals();
    for (int signal = 0; sigwait(&waited, &signal) == 0;) {
      if (signal == SIGUSR1) return;
      if (source_.stop_requested()) _exit(128 + signal);
      source_.request_stop();
    }
  });
}

Interruption::~Interruption() {
  pthread_kill(watcher_->native_handle(), SIGUSR1);
  watcher_->join();
  const sigset_t set = interrupt_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

// ---- Progress

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Progress::Progress(const CommonOptions& common)
    : enabled_(!common.quiet), terminal_(isatty(STDERR_FILENO) != 0), started_(now()), stage_started_(started_) {}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::update(const std::string& stage, double fraction, const std::string& note) {
  const double time = now();
  if (stage != stage_) {
    stage_ = stage;
    stage_started_ = time;
    stage_began_at_ = fraction;
  }
  if (!enabled_ || time - started_ < 2 || time - last_ < (terminal_ ? 0.1 : 5)) return;
  last_ = time;
  drawn_ = true;
  fraction = std::min(1.0, std::max(0.0, fraction));
  std::string line = stage + " ";
  if (terminal_) {
    constexpr int kWidth = 30;
    const int full = static_cast<int>(fraction * kWidth);
    line += "[" + std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(kWidth - full), '.') +
            "] ";
  }
  line += std::to_string(static_cast<int>(fraction * 100)) + "%";
  if (const double done = fraction - stage_began_at_; done > 0.02) {  // resumed work does not begin at 0
    const double left = (time - stage_started_) * (1 - fraction) / done;
    line += ", " + std::to_string(static_cast<int>(left + 0.5)) + " s left";
  }
  if (!note.empty()) line += ", " + note;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace rewright::cli
