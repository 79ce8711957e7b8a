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
#include <numeric>
#include <set>
#include <sstream>

#include "api/devices.h"
#include "api/processes.h"
#include "api/rule_files.h"
#include "api/training_parts.h"
#include "api/versions.h"
#include "base/process_memory.h"
#include "distribution/mail.h"
#include "distribution/survivors.h"
#include "graph/onnx/onnx.h"
#include "optimizer/certificates/replay.h"
#include "optimizer/optimize.h"
#include "runtime/cpu/backend/evaluator.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_step.h"
#include "runtime/training/data/data_files.h"

namespace rewright::api {

namespace {

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
  const AsynchronousOptions& a = request.asynchronous;
  if (a.mode == Mode::kSynchronous) {
    refuse(a.servers != 1, "--mode synchronous", "--servers");
    refuse(a.max_staleness.has_value(), "--mode synchronous", "--max-staleness: its gradients are never stale");
    refuse(a.fetch != 1 || a.push != 1, "--mode synchronous", "--fetch and --push");
  }
}

// Refuses what cannot go on with fewer processes. Throws Error(kUsage).
void require_replaceable(const TrainingRequest& request) {
  refuse(!request.plan.empty(), "--lost leave-out", "--plan, which is for a number of processes");
  refuse(request.rewrite_seconds > 0, "--lost leave-out", "--rewrite");
  refuse(request.device != "cpu" && request.device != "reference", "--lost leave-out",
         "--device, other than cpu and reference");
}

// Refuses options that a plan decides itself, or that change the graph of its step. Throws Error(kUsage).
void require_planned(const TrainingRequest& request) {
  const TrainOptions& o = request.train;
  const auto refuse = [](bool given, const char* option) { api::refuse(given, "--plan", option); };
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
  nlohmann::json facts = common_facts(training, output, processes, resident);
  facts["peak_bytes"] = trainer.peak_bytes();
  if (const auto& r = training.rematerialized)
    facts["rematerialization"] = {{"peak_bytes_before", r->peak_before},
                                  {"predicted_bytes", r->predicted_bytes},
                                  {"predicted_ms", r->seconds * 1e3},
                                  {"predicted_ms_again", r->seconds_again * 1e3},
                                  {"least_ms_again", r->least_seconds_again * 1e3},
                                  {"nodes_again", r->nodes_again}};
  if (const std::optional<TrainingMemory> memory = trainer.memory())
    facts["bytes"] = {{"parameters", memory->parameters}, {"gradients", memory->gradients}, {"states", memory->states}};
  return facts;
}

// The start of the next attempt, after a process was lost.
struct Continuation {
  std::optional<TrainingCheckpoint> from;  // empty: as the request says
  bool again = false;                      // not the first attempt
  // When a process was lost: the steps that were done, and the state then if this process has all of it.
  std::int64_t steps = 0;
  std::optional<TrainingCheckpoint> state;
  std::set<std::size_t> reported;  // of the lost processes
};

FinishedTraining trained_with(Graph model, TrainingRequest request, Communicator& processes, bool everywhere,
                              const std::string& output, const std::stop_token& cancel, const TrainingListener& listener,
                              Continuation* continuation = nullptr) {
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
  const bool again = continuation && continuation->again;
  Metrics metrics(first ? request.metrics : "", request.resume || again);
  request.device = own_device(request.device, processes);
  const Backend& backend = find_backend(request.device);
  const std::unique_ptr<DeviceSums> sums =
      adds && processes.size() > 1 ? make_nccl_sums(processes, gpu_number(request.device).value()) : nullptr;
  o.device_sums = sums.get();
  if (!request.plan.empty()) o.planned = planned_step_maker(request, o, processes, backend);
  Trainer trainer(std::move(model), data, o, processes, backend);
  if (again && continuation->from)
    trainer.resume(*continuation->from);
  else if (request.resume && std::filesystem::exists(request.checkpoint))
    trainer.resume(read_checkpoint(request.checkpoint));
  if (first && !request.step_graph.empty()) export_onnx(trainer.graphs().step, request.step_graph);
  const bool in_parts = o.exchange.zero > 0 || o.planned;  // no process has all of the model
  const auto save = [&] {
    if (request.checkpoint.empty() || !(first || in_parts)) return;
    const TrainingCheckpoint now = trainer.checkpoint();
    if (first) write_checkpoint(now, request.checkpoint);
  };

  FinishedTraining result;
  result.loss = std::numeric_limits<double>::quiet_NaN();
  try {
    result.complete = trainer.run(cancel, [&](const StepReport& r) {
      result.loss = r.loss;
      metrics.add(r);
      if (listener.step) listener.step(r);
      if (request.save_every > 0 && r.step % request.save_every == 0) save();
    });
    save();
  } catch (const ProcessLost&) {
    if (continuation) {
      continuation->steps = trainer.steps_done();
      if (!in_parts) continuation->state = trainer.checkpoint();
    }
    throw;
  }
  const std::size_t resident = peak_resident_bytes();
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

// The largest number of processes, of those that are left, that divides the batches evenly.
std::size_t usable_processes(const TrainOptions& o, std::size_t processes) {
  const auto divides = [&](std::size_t n) {
    const auto count = static_cast<std::int64_t>(n);
    return o.shards > 0 ? o.shards % count == 0 : o.batch % (count * o.accumulate) == 0;
  };
  while (processes > 1 && !divides(processes)) --processes;
  return processes;
}

std::int64_t step_of(const std::optional<TrainingCheckpoint>& checkpoint) {
  return checkpoint ? std::stoll(checkpoint->facts.at("step")) : 0;
}

// After a process was lost: those that are left agree on where to go on. If one of them has all of the state, which is of the
// last step that was done, they take it over; else they read the last checkpoint, or begin again.
void find_continuation(Continuation& c, Survivors& group, const TrainingRequest& request, const TrainingListener& listener) {
  const std::vector<std::int64_t> known = group.regroup(2 * c.steps + (c.state ? 1 : 0));
  const auto most = std::ranges::max_element(known);
  const std::int64_t done = *most / 2;
  c.again = true;
  const bool in_memory = *most % 2 == 1;
  if (in_memory) {
    const auto who = static_cast<std::size_t>(most - known.begin());
    std::string bytes = group.rank() == who ? checkpoint_bytes(*c.state) : std::string();
    group.broadcast(bytes, who);
    c.from = parse_checkpoint(std::move(bytes), "another process's state");
  } else {
    c.from.reset();
    if (!request.checkpoint.empty() && std::filesystem::exists(request.checkpoint))
      c.from = read_checkpoint(request.checkpoint);
  }
  c.state = in_memory ? c.from : std::nullopt;
  c.steps = step_of(c.from);
  if (group.rank() != 0) return;
  std::ostringstream text;
  for (const std::size_t p : group.lost())
    if (c.reported.insert(p).second) text << process_name(p, group.lost().size() + group.size()) << " has ended; ";
  const std::size_t used = usable_processes(request.train, group.size());
  text << used << (used == 1 ? " goes" : " go") << " on ";
  if (in_memory)
    text << "from memory after step " << done << ", 0 steps lost";
  else
    text << (c.from ? "from the checkpoint of step " : "from the start, step ") << c.steps << ", " << done - c.steps
         << " steps lost";
  if (used < group.size())
    text << " (" << group.size() - used << " wait: batches cannot be divided among " << group.size() << ")";
  tell(listener, text.str() + "\n");
}

// Synchronous training that goes on if processes end.
FinishedTraining trained_by_survivors(const Graph& model, const TrainingRequest& request, Communicator& processes,
                                      bool everywhere, const std::string& output, const std::stop_token& cancel,
                                      const TrainingListener& listener) {
  if (processes.size() == 1) return trained_with(model, request, processes, everywhere, output, cancel, listener);
  Survivors group(introduce(processes));
  if (!everywhere) leave_starter();  // in a program, MPI stays the program's, and ends all processes with one
  Continuation continuation;
  std::size_t used = group.size();
  bool lost = false;
  try {
    while (true) {
      try {
        if (std::exchange(lost, false)) {
          find_continuation(continuation, group, request, listener);
          used = usable_processes(request.train, group.size());
        }
        FinishedTraining result;
        if (group.rank() < used) {
          std::vector<std::size_t> ranks(used);
          std::iota(ranks.begin(), ranks.end(), 0);
          const std::unique_ptr<Communicator> workers = make_communicator_of(group, std::move(ranks));
          result = trained_with(model, request, *workers, everywhere, output, cancel, listener, &continuation);
        }
        group.part();
        return result;
      } catch (const ProcessLost&) {
        lost = true;
      }
    }
  } catch (...) {
    group.fail(1);
    throw;
  }
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

bool outlives_processes(const TrainingRequest& request) {
  const Mode mode = request.asynchronous.mode;
  return request.leave_out_lost || (mode != Mode::kSynchronous && mode != Mode::kHogwild);
}

FinishedTraining run_training(Graph model, const TrainingRequest& request, Communicator& processes, bool everywhere,
                              const std::string& output, const std::stop_token& cancel, const TrainingListener& listener) {
  require_consistent(request);
  if (request.asynchronous.mode != Mode::kSynchronous)
    return train_without_waiting(std::move(model), request, processes, everywhere, output, cancel, listener);
  if (!request.plan.empty()) require_planned(request);
  if (request.leave_out_lost) {
    require_replaceable(request);
    return trained_by_survivors(model, request, processes, everywhere, output, cancel, listener);
  }
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
