#include "api/training.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/devices.h"
#include "api/processes.h"
#include "api/rule_files.h"
#include "api/versions.h"
#include "base/process_memory.h"
#include "graph/onnx/onnx.h"
#include "optimizer/certificates/replay.h"
#include "optimizer/optimize.h"
#include "runtime/cpu/backend/evaluator.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_step.h"
#include "runtime/training/data/data_files.h"

namespace rewright::api {

namespace {

constexpr const char* kTargets = "targets";

WantedData wanted_data(const Graph& model, const TrainingRequest& request) {
  WantedData wanted;
  for (const ValueId id : model.inputs()) wanted.inputs.emplace_back(model.value(id).name, model.value(id).type);
  wanted.targets = target_type(request.train.graph.loss, model.value(find_predictions(model, request.train.output)).type);
  wanted.target_column = request.target;
  wanted.mean = request.mean, wanted.deviation = request.deviation;
  return wanted;
}

Dataset dataset(const TrainingData& data, const WantedData& wanted) {
  if (data.tensors.empty()) return read_dataset(data.files, wanted);
  std::vector<std::string> names{kTargets};
  for (const auto& [name, type] : wanted.inputs) names.push_back(name);
  for (const std::string& name : names)
    if (!data.tensors.contains(name))
      throw Error(ErrorCode::kBadInput, name == kTargets ? "there are no targets" : "there is no data for the input",
                  "data: " + name);
  for (const auto& [name, tensor] : data.tensors)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Error(ErrorCode::kBadInput, "the model has no input of this name", "data: " + name);
  return Dataset(data.tensors);
}

// One line of JSON a step. Unless the run continues the file, the first step empties it.
class Metrics {
 public:
  Metrics(std::string file, bool append) : file_(std::move(file)), begins_(!append) {
    if (!file_.empty()) open(std::ios::app);
  }
  void add(const StepReport& r) {
    if (file_.empty()) return;
    if (std::exchange(begins_, false)) out_.close(), open(std::ios::trunc);
    nlohmann::json line{{"step", r.step}, {"epoch", r.epoch}, {"rate", r.rate}, {"examples_per_second", r.examples_per_second}};
    line["loss"] = r.skipped ? nlohmann::json() : nlohmann::json(r.loss);
    out_ << line.dump() << "\n" << std::flush;
  }

 private:
  void open(std::ios::openmode mode) {
    out_.open(file_, mode);
    if (!out_) throw Error(ErrorCode::kMissing, "cannot be written", file_);
  }
  std::string file_;
  bool begins_;
  std::ofstream out_;
};

void tell(const TrainingListener& listener, const std::string& text) {
  if (listener.note) listener.note(text);
}

// The fastest graph that the first process finds; the others follow its certificate.
Graph rewritten(const Graph& graph, const TrainingRequest& request, Communicator& processes, const TrainingListener& listener) {
  const std::vector<Rule> rules = read_proved_rules({}, false);
  const int threads = usable_threads(request.threads);
  const std::unique_ptr<Evaluator> evaluator = cpu::make_cpu_evaluator(threads);
  std::string certificate;
  if (processes.rank() == 0) {
    const std::unique_ptr<Device> device = make_device(request.device, threads);
    CostDatabase database(CostDatabase::default_file());
    OptimizeOptions options;
    options.for_training = true;
    options.budget_seconds = request.rewrite_seconds;
    options.seed = request.train.seed;
    const OptimizeResult found = optimize(graph, rules, *device, *evaluator, &database, options);
    certificate = to_json(found.certificate);
    std::ostringstream text;
    text << "a step's graph: " << found.report.nodes_before << " -> " << found.report.nodes_after << " nodes, "
         << std::setprecision(3) << found.report.measured_before * 1e3 << " -> " << found.report.measured_after * 1e3 << " ms, "
         << found.report.rules_applied.size() << " rewrites\n";
    tell(listener, text.str());
  }
  processes.broadcast(certificate, 0);
  return replay(graph, parse_certificate(certificate, "the first process's rewrites"), rules, *evaluator);
}

// The costs of a step's nodes, measured where they are not known yet.
std::vector<NodeCost> measured_costs(const Graph& graph, const TrainingRequest& request) {
  const std::unique_ptr<Device> device = make_device(request.device, usable_threads(request.threads));
  CostDatabase database(CostDatabase::default_file());
  CostOptions for_training;
  for_training.for_training = true;
  CostModel model(device.get(), &database, for_training);
  const MatchedGraph matched(graph, true);
  const MatchedGraph* const one = &matched;
  model.prepare({&one, 1});
  return model.alone(matched);
}

// Without a named device each process of a machine uses a GPU of its own.
std::string own_device(const std::string& device, Communicator& processes) {
  if (device != "cuda" || processes.size() == 1) return device;
  const std::string own = "cuda:" + std::to_string(own_gpu(processes));
  std::string missing;
  try {
    find_backend(own);
  } catch (const Error& error) {
    missing = error.text();
  }
  const std::vector<std::string> all = processes.all_gather(missing);
  for (std::size_t p = 0; p < all.size(); ++p)
    if (!all[p].empty())
      throw Error(ErrorCode::kMissing, all[p], "--device cuda: " + process_name(p, all.size()),
                  "each process of a machine takes a GPU of its own, unless one is named for all, as --device cuda:0");
  return own;
}

// Do gradients stay in the memory of GPUs while processes add them up?
bool adds_on_gpus(const TrainingRequest& request) {
  const bool chosen = request.all_reduce == "nccl" || (request.all_reduce == "engine" && request.device == "cuda");
  const TrainOptions& o = request.train;
  return chosen && request.device.starts_with("cuda") && o.shards == 0 && o.exchange.zero == 0 &&
         o.exchange.gradients == DataType::kFloat && !o.whole_batch_statistics;
}

void require_consistent(const TrainingRequest& request) {
  for (const TrainingData* data : {&request.data, &request.validation})
    if (!data->files.empty() && !data->tensors.empty())
      throw Error(ErrorCode::kUsage, "data are given twice, as tensors and in files", data->files);
  if (!request.data.given()) throw Error(ErrorCode::kUsage, "there is no data to train on", {}, "name it with --data");
  if (request.resume && request.checkpoint.empty()) throw Error(ErrorCode::kUsage, "--resume needs --checkpoint FILE");
  if (request.train.shards > 0 && request.train.accumulate > 1)
    throw Error(ErrorCode::kUsage, "--accumulate excludes --shards", {}, "a process computes its shards one after another");
  if (request.train.shards > 0 && request.all_reduce != "engine")
    throw Error(ErrorCode::kUsage, "--shards adds gradients in one order, and leaves nothing to choose for --allreduce");
}

// Refuses options that a plan decides itself, or that change the graph of its step. Throws Error(kUsage).
void require_planned(const TrainingRequest& request) {
  const TrainOptions& o = request.train;
  const auto refuse = [](bool given, const char* option) {
    if (given) throw Error(ErrorCode::kUsage, std::string("--plan excludes ") + option);
  };
  refuse(o.shards > 0, "--shards");
  refuse(o.accumulate > 1, "--accumulate");
  refuse(o.exchange.zero > 0, "--zero");
  refuse(o.exchange.gradients != DataType::kFloat, "--gradients");
  refuse(o.whole_batch_statistics, "--batch-norm batch, which is what a plan computes anyway");
  refuse(o.check_every > 0, "--check-every");
  refuse(request.all_reduce != "engine", "--allreduce");
  refuse(request.memory_budget > 0, "--memory-budget");
  refuse(request.rewrite_seconds > 0, "--rewrite");
  refuse(request.device != "cpu" && request.device != "reference", "--device, other than cpu and reference");
}

// Reads the plan at once, so that a wrong one is refused before the long work.
std::function<std::unique_ptr<TrainingStep>(const TrainingGraphs&, TrainedTensors)> planned_step_maker(
    const TrainingRequest& request, const TrainOptions& o, Communicator& processes, const Backend& backend) {
  const auto plan = std::make_shared<plans::Plan>(read_plan_together(processes, request.plan, "training"));
  if (plan->batch && *plan->batch != o.batch)
    throw Error(ErrorCode::kBadInput,
                "the plan is for batches of " + std::to_string(*plan->batch) + ", not of " + std::to_string(o.batch),
                request.plan, "--batch " + std::to_string(*plan->batch));
  const SessionOptions session{.threads = o.threads, .profile = o.profile};
  return [plan, session, file = request.plan, &processes, &backend](const TrainingGraphs& graphs, TrainedTensors start) {
    return make_planned_step(*plan, file, graphs, std::move(start), processes, backend, session);
  };
}

nlohmann::json facts_of(const FinishedTraining& training, const Trainer& trainer, const std::string& output,
                        std::size_t processes, std::size_t resident) {
  nlohmann::json facts{{"output", output},          {"steps", training.steps}, {"complete", training.complete},
                       {"loss", training.loss},     {"processes", processes},  {"peak_bytes", trainer.peak_bytes()},
                       {"resident_bytes", resident}};
  if (const auto& r = training.rematerialized)
    facts["rematerialization"] = {{"peak_bytes_before", r->peak_before},
                                  {"predicted_bytes", r->predicted_bytes},
                                  {"predicted_ms", r->seconds * 1e3},
                                  {"predicted_ms_again", r->seconds_again * 1e3},
                                  {"least_ms_again", r->least_seconds_again * 1e3},
                                  {"nodes_again", r->nodes_again}};
  if (const auto& v = training.validation) {
    facts["validation"] = {{"loss", v->loss}, {"examples", v->examples}};
    if (v->accuracy) facts["validation"]["accuracy"] = *v->accuracy;
  }
  if (const std::optional<TrainingMemory> memory = trainer.memory())
    facts["bytes"] = {{"parameters", memory->parameters}, {"gradients", memory->gradients}, {"states", memory->states}};
  return facts;
}

FinishedTraining trained_with(Graph model, TrainingRequest request, Communicator& processes, bool everywhere,
                              const std::string& output, const std::stop_token& cancel, const TrainingListener& listener) {
  const bool first = processes.rank() == 0;
  const bool adds = adds_on_gpus(request);
  TrainOptions o = request.train;
  o.exchange.all_reduce = all_reduce_from_name(adds ? "engine" : request.all_reduce);
  o.threads = usable_threads(request.threads);
  if (request.rewrite_seconds > 0)
    o.rewrite = [&](const Graph& graph) { return rewritten(graph, request, processes, listener); };
  if (request.memory_budget > 0) {
    o.memory.bytes = request.memory_budget;
    if (request.device != "reference") o.memory.costs = [&](const Graph& graph) { return measured_costs(graph, request); };
  }
  const WantedData wanted = wanted_data(model, request);
  const Dataset data = dataset(request.data, wanted);
  std::optional<Dataset> validation;  // read now, so that errors in it show before the long work
  if (first && request.validation.given()) validation = dataset(request.validation, wanted);
  Metrics metrics(first ? request.metrics : "", request.resume);
  request.device = own_device(request.device, processes);
  const Backend& backend = find_backend(request.device);
  const std::unique_ptr<DeviceSums> sums =
      adds && processes.size() > 1 ? make_nccl_sums(processes, gpu_number(request.device).value()) : nullptr;
  o.device_sums = sums.get();
  if (!request.plan.empty()) o.planned = planned_step_maker(request, o, processes, backend);
  Trainer trainer(std::move(model), data, o, processes, backend);
  if (request.resume && std::filesystem::exists(request.checkpoint)) trainer.resume(read_checkpoint(request.checkpoint));
  if (first && !request.step_graph.empty()) export_onnx(trainer.graphs().step, request.step_graph);
  const bool in_parts = o.exchange.zero > 0 || o.planned;  // no process has all of the model
  const auto save = [&] {
    if (request.checkpoint.empty() || !(first || in_parts)) return;
    const TrainingCheckpoint now = trainer.checkpoint();
    if (first) write_checkpoint(now, request.checkpoint);
  };

  FinishedTraining result;
  result.loss = std::numeric_limits<double>::quiet_NaN();
  result.complete = trainer.run(cancel, [&](const StepReport& r) {
    result.loss = r.loss;
    metrics.add(r);
    if (listener.step) listener.step(r);
    if (request.save_every > 0 && r.step % request.save_every == 0) save();
  });
  const std::size_t resident = peak_resident_bytes();
  save();
  result.steps = trainer.steps_done();
  if (!first && !in_parts && !everywhere) return result;
  result.graph = trainer.trained(everywhere);
  if (const Rematerialized* r = trainer.rematerialized()) result.rematerialized = *r;
  if (validation)
    result.validation = evaluate(*result.graph, o.output, o.graph.loss, *validation, o.batch, backend, {.threads = o.threads});
  if (first) result.facts = facts_of(result, trainer, output, processes.size(), resident).dump();
  if (everywhere) processes.broadcast(result.facts, 0);
  if (o.profile) result.profile_table = profile_table(trainer.profile(), make_device(request.device, o.threads)->roofline());
  return result;
}

// Reports a failure as the program does.
int report_failure() {
  try {
    throw;
  } catch (const std::exception& error) {
    std::cerr << "rewright: error: " << error.what() << std::endl;
  }
  return 1;
}

}  // namespace

Graph with_procedures_as_graphs(const Graph& model, const std::string& name) {
  const auto is_opaque = [](const std::shared_ptr<const Node>& node) { return node->op == nullptr; };
  if (std::none_of(model.nodes().begin(), model.nodes().end(), is_opaque)) return model;
  return import_onnx_bytes(export_onnx_bytes(model), name, {.procedures_as_graphs = true});
}

FinishedTraining run_training(Graph model, const TrainingRequest& request, Communicator& processes, bool everywhere,
                              const std::string& output, const std::stop_token& cancel, const TrainingListener& listener) {
  require_consistent(request);
  if (!request.plan.empty()) require_planned(request);
  if (request.all_reduce != "nccl" || adds_on_gpus(request))
    return trained_with(std::move(model), request, processes, everywhere, output, cancel, listener);
  TrainingRequest with_nccl = request;
  with_nccl.all_reduce = "engine";
  const std::unique_ptr<Communicator> nccl = make_nccl_communicator(processes);
  return trained_with(std::move(model), with_nccl, *nccl, everywhere, output, cancel, listener);
}

FinishedTraining train_in_program(const Graph& model, const TrainingRequest& request, const std::string& name,
                                  const std::stop_token& cancel, const TrainingListener& listener) {
  const std::unique_ptr<Communicator> processes = make_communicator();
  FinishedTraining result;
  work_together(
      *processes, library_versions(),
      [&] {
        const bool first = processes->rank() == 0;
        result = run_training(with_procedures_as_graphs(model, name), request, *processes, true, name, cancel,
                              first ? listener : TrainingListener());
      },
      report_failure);
  return result;
}

}  // namespace rewright::api
