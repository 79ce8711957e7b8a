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
#include "graph/onnx/written_graphs.h"
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

  void write_ahead(std::span<const Graph> graphs) override {
    for (const Graph& graph : graphs) files_.write(graph);
  }
  void keep_weights(bool on) override { here_->keep_weights(on); }

  std::vector<std::vector<std::vector<double>>> time_afresh(std::span<const GraphsInTurn> sets) override {
    std::optional<std::vector<std::vector<std::vector<double>>>> times;
    try {
      times = in_process(sets);
    } catch (const Error& error) {  // no space, no process, or a graph that cannot be written
      if (error.code() == ErrorCode::kCancelled) throw;
    }
    return times ? *times : here_->time_afresh(sets);
  }

 private:
  std::optional<std::vector<std::vector<std::vector<double>>>> in_process(std::span<const GraphsInTurn> sets) {
    const TemporaryFolder folder;
    json request = {{"device", process_.device},
                    {"threads", process_.threads},
                    {"math", math_choices().name(process_.math)},
                    {"kernels", kernel_choices().name(process_.kernels)},
                    {"sets", json::array()}};
    double seconds = kLongest;
    for (const GraphsInTurn& set : sets) {
      json& asked = request["sets"].emplace_back(json{{"min_seconds", set.options.min_seconds},
                                                      {"max_seconds", set.options.max_seconds},
                                                      {"min_rounds", set.options.min_rounds},
                                                      {"warmup", set.options.warmup},
                                                      {"seed", set.options.seed},
                                                      {"models", json::array()},
                                                      {"inputs", json::array()}});
      for (const Graph& graph : set.graphs) asked["models"].push_back(files_.write(graph).string());
      // Types that .npy files cannot hold: the process draws its own inputs.
      const std::vector<Tensor>& inputs = set.options.inputs;
      if (std::all_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return is_npy_type(t.type()); }))
        for (const Tensor& input : inputs) {
          const std::string file =
              "input_" + std::to_string(request["sets"].size()) + "_" + std::to_string(asked["inputs"].size()) + ".npy";
          write_npy(input, folder.path() / file);
          asked["inputs"].push_back(file);
        }
      seconds += set.options.max_seconds;
    }
    const Clock::time_point end = std::min(end_, Clock::now() + std::chrono::seconds(static_cast<long>(seconds)));
    request["seconds"] = seconds_until(end);
    std::ofstream(folder.path() / "request.json") << request;
    Child child(process_.program, folder.path().string());
    const std::stop_token cancel = sets.empty() ? std::stop_token() : sets.front().options.cancel;
    if (!child.wait(end, cancel)) return std::nullopt;
    std::ifstream file(folder.path() / "times.json");
    const json reply = json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!reply.is_array() || reply.size() != sets.size()) return std::nullopt;
    for (std::size_t k = 0; k < sets.size(); ++k)
      if (!reply[k].is_array() || reply[k].size() != sets[k].graphs.size()) return std::nullopt;
    return reply.get<std::vector<std::vector<std::vector<double>>>>();
  }

  MeasuringProcess process_;
  WrittenGraphs files_;
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
  std::map<std::string, Graph> read;
  std::vector<GraphsInTurn> sets;
  for (const json& asked : request.at("sets")) {
    GraphsInTurn& set = sets.emplace_back();
    for (const json& model : asked.at("models")) {
      const auto name = model.get<std::string>();
      if (!read.contains(name)) read.emplace(name, import_onnx(name));
      set.graphs.push_back(read.at(name));
    }
    set.options.min_seconds = asked.at("min_seconds").get<double>();
    set.options.max_seconds = asked.at("max_seconds").get<double>();
    set.options.min_rounds = asked.at("min_rounds").get<int>();
    set.options.warmup = asked.at("warmup").get<int>();
    set.options.seed = asked.at("seed").get<std::uint64_t>();
    for (const json& input : asked.at("inputs"))
      set.options.inputs.push_back(read_npy((path / input.get<std::string>()).string()));
  }
  std::optional<KeptWeights> kept;
  if (sets.size() > 1) kept.emplace(*device);
  json times = json::array();
  for (const GraphsInTurn& set : sets) times.push_back(device->time_graphs(set.graphs, set.options));
  std::ofstream(path / "times.json") << times;
}

}  // namespace rewright::api
