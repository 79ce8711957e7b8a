#include "api/fresh_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "api/choices.h"
#include "api/devices.h"
#include "graph/onnx/onnx.h"
#include "runtime/onnxruntime/worker.h"

extern char** environ;

namespace rewright::api {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr double kLongest = 600;  // seconds, in addition to those of the rounds

double seconds_until(Clock::time_point time) { return std::chrono::duration<double>(time - Clock::now()).count(); }

// A process that is ended with the object.
class Child {
 public:
  Child(std::string program, std::string folder) {
    std::string command = "time-graphs";
    char* arguments[] = {program.data(), command.data(), folder.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int descriptor : {0, 1, 2}) posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
    // A process group of its own: Ctrl-C must not end it, since the caller still wants the answer.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    if (posix_spawn(&process_, program.c_str(), &actions, &attributes, arguments, environ) != 0) process_ = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ < 0) return;
    kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // Has it ended by itself before `end`? Throws Error(kCancelled) if `cancel` is requested.
  bool wait(Clock::time_point end, const std::stop_token& cancel) {
    if (process_ < 0) return false;
    for (;;) {
      int status = 0;
      const pid_t ended = waitpid(process_, &status, WNOHANG);
      if (ended != 0) {
        process_ = -1;
        return ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      }
      if (cancel.stop_requested() || Clock::now() > end) throw Error(ErrorCode::kCancelled, "measuring was stopped");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  pid_t process_ = -1;
};

class FreshDevice final : public Device {
 public:
  FreshDevice(MeasuringProcess process, std::unique_ptr<Device> here) : process_(std::move(process)), here_(std::move(here)) {}

  std::string name() const override { return here_->name(); }
  std::string identity() const override { return here_->identity(); }
  void end_at(Clock::time_point time) override {
    end_ = time;
    here_->end_at(time);
  }
  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    return here_->time_nodes(samples);
  }
  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
    return here_->time_graphs(graphs, options);
  }
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override { return here_->run(graph, inputs); }
  CheckedRun run_checked(const Graph& graph, std::span<const Tensor> inputs, double seconds) override {
    return here_->run_checked(graph, inputs, seconds);
  }
  bool supports(const Graph& graph, const Node& node) const override { return here_->supports(graph, node); }
  Roofline roofline() const override { return here_->roofline(); }
  double cache_bytes() const override { return here_->cache_bytes(); }
  StridedReads strided_reads() const override { return here_->strided_reads(); }
  bool measures() const override { return here_->measures(); }

  std::vector<std::vector<double>> time_afresh(std::span<const Graph> graphs, const TimingOptions& options) override {
    std::optional<std::vector<std::vector<double>>> times;
    try {
      times = in_process(graphs, options);
    } catch (const Error& error) {  // no space, no process, or a graph that cannot be written
      if (error.code() == ErrorCode::kCancelled) throw;
    }
    return times ? *times : here_->time_afresh(graphs, options);
  }

 private:
  std::optional<std::vector<std::vector<double>>> in_process(std::span<const Graph> graphs, const TimingOptions& options) {
    const TemporaryFolder folder;
    json request = {{"device", process_.device},
                    {"threads", process_.threads},
                    {"math", math_choices().name(process_.math)},
                    {"kernels", kernel_choices().name(process_.kernels)},
                    {"min_seconds", options.min_seconds},
                    {"max_seconds", options.max_seconds},
                    {"min_rounds", options.min_rounds},
                    {"warmup", options.warmup},
                    {"seed", options.seed},
                    {"models", json::array()},
                    {"inputs", json::array()}};
    // A graph that is timed twice has one file. Dead nodes are not part of the hash.
    std::map<std::pair<std::uint64_t, std::size_t>, std::string> written;
    for (const Graph& graph : graphs) {
      std::string& file = written[{graph.hash(), graph.nodes().size()}];
      if (file.empty()) {
        file = "model_" + std::to_string(written.size()) + ".onnx";
        ExportOptions unchecked;
        unchecked.check = false;
        export_onnx(graph, folder.path() / file, unchecked);
      }
      request["models"].push_back(file);
    }
    // Types that .npy files cannot hold: the process draws its own inputs.
    if (std::all_of(options.inputs.begin(), options.inputs.end(), [](const Tensor& t) { return is_npy_type(t.type()); }))
      for (const Tensor& input : options.inputs) {
        const std::string file = "input_" + std::to_string(request["inputs"].size()) + ".npy";
        write_npy(input, folder.path() / file);
        request["inputs"].push_back(file);
      }
    const Clock::time_point end =
        std::min(end_, Clock::now() + std::chrono::seconds(static_cast<long>(kLongest + options.max_seconds)));
    request["seconds"] = seconds_until(end);
    std::ofstream(folder.path() / "request.json") << request;
    Child child(process_.program, folder.path().string());
    if (!child.wait(end, options.cancel)) return std::nullopt;
    std::ifstream file(folder.path() / "times.json");
    const json reply = json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!reply.is_array() || reply.size() != graphs.size()) return std::nullopt;
    return reply.get<std::vector<std::vector<double>>>();
  }

  MeasuringProcess process_;
  std::unique_ptr<Device> here_;
  Clock::time_point end_ = Clock::time_point::max();
};

}  // namespace

std::unique_ptr<Device> make_fresh_device(MeasuringProcess process, std::unique_ptr<Device> here) {
  return std::make_unique<FreshDevice>(std::move(process), std::move(here));
}

void time_graphs_in_folder(const std::string& folder) {
  const std::filesystem::path path = folder;
  std::ifstream file(path / "request.json");
  const json request = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!request.is_object()) throw Error(ErrorCode::kBadInput, "is no request for times", (path / "request.json").string());
  const std::unique_ptr<Device> device = make_device(request.at("device").get<std::string>(), request.at("threads").get<int>(),
                                                     math_choices().value(request.at("math").get<std::string>()),
                                                     kernel_choices().value(request.at("kernels").get<std::string>()));
  device->end_at(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(request.at("seconds").get<double>())));
  std::vector<Graph> graphs;
  std::map<std::string, Graph> read;
  for (const json& model : request.at("models")) {
    const auto name = model.get<std::string>();
    if (!read.contains(name)) read.emplace(name, import_onnx((path / name).string()));
    graphs.push_back(read.at(name));
  }
  TimingOptions options;
  options.min_seconds = request.at("min_seconds").get<double>();
  options.max_seconds = request.at("max_seconds").get<double>();
  options.min_rounds = request.at("min_rounds").get<int>();
  options.warmup = request.at("warmup").get<int>();
  options.seed = request.at("seed").get<std::uint64_t>();
  for (const json& input : request.at("inputs")) options.inputs.push_back(read_npy((path / input.get<std::string>()).string()));
  std::ofstream(path / "times.json") << json(device->time_graphs(graphs, options));
}

}  // namespace rewright::api
