#include "runtime/onnxruntime/device.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/onnx/onnx.h"
#include "graph/onnx/written_graphs.h"
#include "runtime/onnxruntime/worker.h"
#include "runtime/session.h"

namespace rewright::runtime {

namespace {

using nlohmann::json;

// Part of the device's identity. Must be increased whenever the helper's times change.
constexpr int kTimingGeneration = 3;

constexpr double kSecondsPerSample = 0.008;
constexpr std::size_t kBatch = 32;
constexpr double kGrace = 0.3;  // seconds to wait for the helper to report a timeout itself

using Clock = std::chrono::steady_clock;

class OnnxRuntimeDevice : public Device {
 public:
  explicit OnnxRuntimeDevice(int threads) : threads_(threads), worker_(python_interpreter()) {
    const json hello = worker_.ask({{"op", "hello"}}, 60);
    identity_ = "onnxruntime " + hello.value("onnxruntime", "?") + ", " + hello.value("cpu", "?") + ", " + "timing " +
                std::to_string(kTimingGeneration) + ", " + std::to_string(threads_) + " threads";
  }

  std::string name() const override { return "onnxruntime"; }
  std::string identity() const override { return identity_; }
  bool supports(const Graph&, const Node&) const override {
    return true;
  }  // ONNX Runtime refuses unsupported graphs when loading them

  void end_at(Clock::time_point time) override { end_ = time; }

  // Measured twice, some time apart. The minimum counts, since other work on the machine comes and goes.
  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    std::vector<std::optional<double>> first = time_once(samples);
    const std::vector<std::optional<double>> second = time_once(samples);
    for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i)
      if (first[i] && second[i]) first[i] = std::min(*first[i], *second[i]);
    return first;
  }

  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
    return time_graphs_in(worker_, graphs, options);
  }

  std::vector<std::vector<std::vector<double>>> time_afresh(std::span<const GraphsInTurn> sets) override {
    Worker fresh(python_interpreter());
    std::vector<std::vector<std::vector<double>>> times;
    for (const GraphsInTurn& set : sets) times.push_back(time_graphs_in(fresh, set.graphs, set.options));
    return times;
  }

  void write_ahead(std::span<const Graph> graphs) override {
    for (const Graph& graph : graphs) files_.write(graph);
  }

  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    const TemporaryFolder folder;
    const json files = write(graph, inputs, folder);
    const json reply = worker_.ask({{"op", "run"},
                                    {"path", files_.write(graph).string()},
                                    {"inputs", files},
                                    {"outputs_dir", (folder.path() / "outputs").string()},
                                    {"threads", threads_}},
                                   600, {}, end_);
    std::vector<Tensor> outputs;
    for (const GraphOutput& output : graph.outputs())
      outputs.push_back(read_npy(reply.at("outputs").at(output.name).get<std::string>()));
    return outputs;
  }

 private:
  double seconds_left() const {
    return end_ == Clock::time_point::max() ? 1e6 : std::chrono::duration<double>(end_ - Clock::now()).count();
  }

  std::vector<std::vector<double>> time_graphs_in(Worker& worker, std::span<const Graph> graphs, const TimingOptions& options) {
    const TemporaryFolder folder;
    json paths = json::array();
    for (const Graph& graph : graphs) paths.push_back(files_.write(graph).string());
    const json reply = worker.ask({{"op", "time_models"},
                                   {"paths", paths},
                                   {"inputs", write_known(graphs, options.inputs, folder)},
                                   {"threads", threads_},
                                   {"min_seconds", options.min_seconds},
                                   {"max_seconds", options.max_seconds},
                                   {"min_rounds", options.min_rounds},
                                   {"warmup", options.warmup},
                                   {"seed", options.seed}},
                                  600 + 2 * options.max_seconds, options.cancel, end_);
    return reply.at("seconds").get<std::vector<std::vector<double>>>();
  }

  // Stops early when time runs out, with times for the first samples.
  std::vector<std::optional<double>> time_once(std::span<const NodeSample> samples) {
    std::vector<std::optional<double>> seconds;
    for (std::size_t first = 0; first < samples.size(); first += kBatch) {
      time_batch(samples.subspan(first, std::min(kBatch, samples.size() - first)), seconds);
      if (seconds.size() < std::min(samples.size(), first + kBatch)) break;
    }
    return seconds;
  }

  // Files of inputs, if .npy files can hold all of their types; otherwise the helper draws the inputs.
  static json write_known(std::span<const Graph> graphs, std::span<const Tensor> inputs, const TemporaryFolder& folder) {
    const bool known = std::all_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return is_npy_type(t.type()); });
    return graphs.empty() || !known ? json::object() : write(graphs[0], inputs, folder);
  }

  // Input files by input name.
  static json write(const Graph& graph, std::span<const Tensor> inputs, const TemporaryFolder& folder) {
    json files = json::object();
    for (std::size_t i = 0; i < graph.inputs().size() && i < inputs.size(); ++i) {
      const std::filesystem::path file = folder.path() / ("input_" + std::to_string(i) + ".npy");
      write_npy(inputs[i], file);
      files[graph.value(graph.inputs()[i]).name] = file.string();
    }
    return files;
  }

  static std::string write(const Graph& graph, const TemporaryFolder& folder, std::size_t number) {
    const std::filesystem::path file = folder.path() / ("model_" + std::to_string(number) + ".onnx");
    ExportOptions options;
    options.check = false;
    export_onnx(graph, file, options);
    return file.string();
  }

  // Appends a time for each sample, or for the first ones if time runs out. A sample that crashes the process is found by
  // bisecting the batch.
  void time_batch(std::span<const NodeSample> samples, std::vector<std::optional<double>>& seconds) {
    const TemporaryFolder folder;
    json paths = json::array();
    std::vector<bool> written;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      try {
        paths.push_back(write(samples[i].graph, folder, i));
        written.push_back(true);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kMissing) throw;  // no space on disk
        written.push_back(false);                        // cannot be exported to this opset
      }
    }
    json reply;
    try {
      const json request = {{"op", "time_batch"},
                            {"paths", paths},
                            {"threads", threads_},
                            {"seconds_each", kSecondsPerSample},
                            {"most_seconds", std::max(0.0, seconds_left())}};
      const auto end = end_ == Clock::time_point::max()
                           ? end_
                           : end_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kGrace));
      reply = worker_.ask(request, 60 + 2.0 * static_cast<double>(samples.size()), {}, end);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) return;
      if (error.code() != ErrorCode::kMissing) throw;
      worker_.ask({{"op", "hello"}}, 60);  // throws if the helper cannot be restarted
      if (samples.size() == 1) {
        seconds.push_back(std::nullopt);
        return;
      }
      const std::size_t before = seconds.size(), half = samples.size() / 2;
      time_batch(samples.first(half), seconds);
      if (seconds.size() == before + half) time_batch(samples.subspan(half), seconds);
      return;
    }
    const double overhead = reply.at("overhead").get<double>();
    const auto timed = reply.value("timed", samples.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < samples.size() && (!written[i] || next < timed); ++i) {
      const json& least = written[i] ? reply.at("min").at(next++) : json();
      // The minimum is least disturbed by other work on the machine.
      seconds.push_back(least.is_number() ? std::optional(std::max(0.0, least.get<double>() - overhead)) : std::nullopt);
    }
  }

  int threads_;
  Clock::time_point end_ = Clock::time_point::max();
  Worker worker_;
  WrittenGraphs files_;
  std::string identity_;
};

}  // namespace

std::unique_ptr<Device> make_onnxruntime_device(int threads) {
  return std::make_unique<OnnxRuntimeDevice>(usable_threads(threads));
}

}  // namespace rewright::runtime
