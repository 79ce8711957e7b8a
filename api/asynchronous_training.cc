#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "api/devices.h"
#include "api/training_parts.h"
#include "base/process_memory.h"
#include "distribution/agreement.h"
#include "distribution/mail.h"
#include "runtime/training/asynchronous/hogwild.h"
#include "runtime/training/asynchronous/train.h"

namespace rewright::api {

namespace {

constexpr int kExitMissing = 4;  // the program's status for what is missing

std::string mode_option(Mode mode) { return "--mode " + std::string(mode_choices().name(mode)); }

// Refuses what the mode does not do. Throws Error(kUsage).
void require_possible(const TrainingRequest& request, std::size_t processes) {
  const TrainOptions& o = request.train;
  const AsynchronousOptions& a = request.asynchronous;
  const std::string mode = mode_option(a.mode);
  refuse(!request.plan.empty(), mode, "--plan");
  refuse(!request.checkpoint.empty(), mode, "--checkpoint");
  refuse(request.leave_out_lost, mode, "--lost leave-out, which all modes but the synchronous one do anyway");
  refuse(o.shards > 0, mode, "--shards");
  refuse(o.accumulate > 1, mode, "--accumulate");
  refuse(o.exchange.zero > 0, mode, "--zero");
  refuse(o.exchange.gradients != DataType::kFloat, mode, "--gradients");
  refuse(o.whole_batch_statistics, mode, "--batch-norm batch");
  refuse(o.check_every > 0, mode, "--check-every");
  refuse(o.profile, mode, "--profile");
  refuse(o.graph.precision == DataType::kHalf, mode, "--precision float16");
  refuse(o.graph.weights != DataType::kFloat, mode, "--weights, other than float32");
  refuse(request.all_reduce != "engine", mode, "--allreduce");
  refuse(request.memory_budget > 0, mode, "--memory-budget");
  refuse(request.rewrite_seconds > 0, mode, "--rewrite");
  refuse(!request.step_graph.empty(), mode, "--step-graph");
  refuse(request.device != "cpu" && request.device != "reference", mode, "--device, other than cpu and reference");
  if (a.mode == Mode::kHogwild) {
    refuse(a.servers != 1, mode, "--servers");
    refuse(a.fetch != 1 || a.push != 1, mode, "--fetch and --push");
    if (processes > 1)
      throw Error(ErrorCode::kUsage, mode + " trains by threads of one process, not by " + std::to_string(processes), {},
                  "--mode downpour is for several processes");
    return;
  }
  if (a.mode == Mode::kSandblaster) {
    refuse(a.max_staleness.has_value(), mode, "--max-staleness: its gradients are never stale");
    refuse(a.fetch != 1 || a.push != 1, mode, "--fetch and --push");
    refuse(o.graph.clip_norm > 0, mode, "--clip");
    refuse(o.graph.update.weight_decay > 0, mode, "--weight-decay");
  }
  if (a.mode == Mode::kElastic) refuse(a.fetch != 1, mode, "--fetch: weights are exchanged every --push steps");
  if (a.servers >= processes)
    throw Error(ErrorCode::kUsage,
                std::to_string(a.servers) + " of " + std::to_string(processes) + (processes == 1 ? " process" : " processes") +
                    " would be servers, and none would compute",
                {}, "start more processes by mpirun, or give fewer --servers");
}

nlohmann::json facts_of(const AsynchronousFacts& facts, const AsynchronousOptions& options) {
  nlohmann::json result{{"mode", mode_choices().name(options.mode)},
                        {"workers", facts.workers},
                        {"servers", options.mode == Mode::kHogwild ? 0 : options.servers},
                        {"seconds", facts.seconds},
                        {"updates", facts.staleness.updates},
                        {"updates_per_second", static_cast<double>(facts.staleness.updates) / std::max(facts.seconds, 1e-9)},
                        {"staleness", {{"mean", facts.staleness.mean()}, {"max", facts.staleness.most}}},
                        {"workers_lost", facts.workers_lost},
                        {"steps_again", facts.steps_again}};
  if (options.mode == Mode::kHogwild) result["written"] = facts.written;
  return result;
}

std::string told(const AsynchronousFacts& facts) {
  std::ostringstream text;
  text << facts.staleness.updates << " updates, " << std::setprecision(3)
       << static_cast<double>(facts.staleness.updates) / std::max(facts.seconds, 1e-9) << " a second; staleness "
       << facts.staleness.mean() << " in the mean, " << facts.staleness.most << " at most";
  if (facts.workers_lost > 0)
    text << "; " << facts.workers_lost << " of " << facts.workers << " workers lost, " << facts.steps_again
         << " steps computed again, none missing";
  return text.str() + "\n";
}

// Does not return. Another process has reported why the run is over.
void end_quietly(Communicator& processes) {
  std::this_thread::sleep_for(std::chrono::seconds(1));  // mpirun ends all when the first one ends
  processes.abort(kExitMissing);
}

}  // namespace

FinishedTraining train_without_waiting(Graph model, TrainingRequest request, Communicator& processes, bool everywhere,
                                       const std::string& output, const std::stop_token& cancel,
                                       const TrainingListener& listener) {
  require_possible(request, processes.size());
  const bool first = processes.rank() == 0, threads = request.asynchronous.mode == Mode::kHogwild;
  TrainOptions o = request.train;
  o.threads = usable_threads(request.threads);
  const WantedData wanted = wanted_data(model, request);
  const Dataset data = dataset(request.data, wanted);
  std::optional<Dataset> validation;  // read now, so that errors in it show before the long work
  if (first && request.validation.given()) validation = dataset(request.validation, wanted);
  Metrics metrics(first ? request.metrics : "", false);
  const Backend& backend = find_backend(request.device);
  AsynchronousRun run(std::move(model), data, o, request.asynchronous, backend);
  if (request.asynchronous.mode == Mode::kSandblaster && !run.layout().statistics().empty())
    throw Error(ErrorCode::kUnsupported, "batch normalizations make the loss depend on how the data are divided", {},
                "other modes than sandblaster train them");
  require_agreement(processes, run.facts(backend));

  FinishedTraining result;
  result.loss = std::numeric_limits<double>::quiet_NaN();
  const AsynchronousListener reports{[&](const StepReport& r) {
                                       result.loss = r.loss;
                                       metrics.add(r);
                                       if (listener.step) listener.step(r);
                                     },
                                     listener.note};
  AsynchronousFacts facts;
  if (threads) {
    facts = run_hogwild(run, cancel, reports);
  } else {
    Mail mail = introduce(processes);
    // In a program, MPI stays the program's, and ends all processes with one.
    if (!everywhere) leave_starter();
    try {
      facts = train_asynchronously(run, mail, cancel, reports);
    } catch (const Error& error) {
      if (first) throw;
      end_quietly(processes);
    }
  }
  if (everywhere && processes.size() > 1) {
    std::string weights(reinterpret_cast<const char*>(run.weights().data()), run.weights().size() * sizeof(float));
    processes.broadcast(weights, 0);
    std::memcpy(run.weights().data(), weights.data(), weights.size());
  }
  result.steps = facts.steps, result.complete = facts.complete;
  if (!first && !everywhere) return result;
  result.graph = run.trained();
  if (validation)
    result.validation = evaluate(*result.graph, o.output, o.graph.loss, *validation, o.batch, backend, {.threads = o.threads});
  if (first) {
    if (listener.note) listener.note(told(facts));
    nlohmann::json all = common_facts(result, output, processes.size(), peak_resident_bytes());
    all["asynchronous"] = facts_of(facts, request.asynchronous);
    result.facts = all.dump();
  }
  if (everywhere) processes.broadcast(result.facts, 0);
  return result;
}

}  // namespace rewright::api
