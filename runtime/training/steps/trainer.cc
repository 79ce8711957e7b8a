#include "runtime/training/steps/trainer.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numbers>
#include <optional>
#include <sstream>
#include <utility>

#include "distribution/agreement.h"
#include "graph/onnx/release.h"
#include "runtime/mixed.h"
#include "runtime/training/data/batches.h"
#include "runtime/training/graphs/mixed_precision.h"
#include "runtime/training/steps/device_step.h"
#include "runtime/training/steps/diagnosis.h"

namespace rewright::training {

double RateSchedule::at(std::int64_t step, std::int64_t steps) const {
  if (step < warm_up) return rate * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  const auto done = static_cast<double>(step - warm_up), all = static_cast<double>(std::max<std::int64_t>(1, steps - warm_up));
  switch (kind) {
    case Kind::kConstant:
      return rate;
    case Kind::kCosine:
      return rate * 0.5 * (1 + std::cos(std::numbers::pi * done / all));
    case Kind::kStep:
      return rate * std::pow(0.1, std::floor(3 * done / all));
  }
  return rate;
}

namespace {

constexpr const char* kTargets = "targets";  // the column of the data

std::vector<std::string> input_names(const Graph& model) {
  std::vector<std::string> names;
  for (const ValueId id : model.inputs()) names.push_back(model.value(id).name);
  return names;
}

// The model for shards of this many examples.
Graph bound(const Graph& model, const Dataset& data, std::int64_t rows) {
  std::vector<Tensor> example;
  for (const std::string& name : input_names(model)) example.push_back(data.like_rows(name, rows));
  return with_sizes(model, bind_sizes(model, example));
}

Tensor zeros_like(const Tensor& tensor) {
  Tensor zeros(tensor.type(), tensor.sizes());
  std::ranges::fill(zeros.mutable_bytes(), std::byte{0});
  return zeros;
}

// Zeros like each of these, in one memory: nothing may write them.
std::vector<Tensor> shared_zeros_like(const std::vector<Tensor>& tensors) {
  std::size_t most = 0;
  for (const Tensor& t : tensors) most = std::max(most, t.byte_count());
  const auto zeros = std::make_shared<const Tensor>(zeros_like(Tensor(DataType::kUint8, {static_cast<std::int64_t>(most)})));
  std::vector<Tensor> result;
  for (const Tensor& t : tensors) result.emplace_back(t.type(), t.sizes(), zeros, zeros->bytes().data());
  return result;
}

// The same elements in memory that nothing else holds: a step may overwrite it.
Tensor own_copy(const Tensor& tensor) {
  Tensor copy(tensor.type(), tensor.sizes());
  std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
  return copy;
}

void make_own(TrainedTensors& tensors) {
  for (std::vector<Tensor>* list : {&tensors.parameters, &tensors.statistics, &tensors.states})
    for (Tensor& t : *list) t = own_copy(t);
}

// Making graphs and plans takes and frees much in small pieces, which the C library keeps for later.
void give_back_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

Tensor number(double value) { return Tensor::scalar(DataType::kFloat, value); }

}  // namespace

struct Trainer::State {
  Graph model;  // without what is trained
  const Dataset& data;
  TrainOptions options;
  Communicator& processes;
  const Backend& backend;
  std::int64_t shards, rows, steps_per_epoch, step = 0;
  TrainingGraphs graphs;
  std::unique_ptr<Session> whole;          // where there is one shard
  std::unique_ptr<ParallelStep> parallel;  // where there are several: it has the tensors
  const ResidentBackend* device = nullptr;
  std::unique_ptr<DeviceStep> on_device;  // instead of both, where a device keeps the tensors
  TrainedTensors alone;                   // else
  bool lent = false;                      // somebody else may hold these as well: a step must not write them
  std::unique_ptr<Batches> batches;
  std::optional<Rematerialized> rematerialized;
  std::string complaint;                     // about the data of the present step
  std::vector<std::vector<Tensor>> present;  // what the graph of gradients is given in it beside weights, by shard
  LossScale scale;                           // of float16

  State(Graph m, const Dataset& d, const TrainOptions& o, Communicator& p, const Backend& b)
      : model(std::move(m)), data(d), options(o), processes(p), backend(b) {
    const auto count = static_cast<std::int64_t>(processes.size());
    shards = options.shards > 0 ? options.shards : count * options.accumulate;
    if (shards % count != 0)
      throw Error(ErrorCode::kUsage,
                  std::to_string(shards) + " shards cannot be divided among " + std::to_string(count) + " processes");
    if (options.batch < 1 || options.batch % shards != 0)
      throw Error(ErrorCode::kUsage, "a batch of " + std::to_string(options.batch) + " cannot be divided into " +
                                         std::to_string(shards) + " shards");
    rows = options.batch / shards;
    steps_per_epoch = data.size() / options.batch;
    if (steps_per_epoch == 0)
      throw Error(ErrorCode::kBadInput, "the data holds " + std::to_string(data.size()) + " examples, fewer than a batch of " +
                                            std::to_string(options.batch));
    options.graph.seed = options.seed;
    device = keeping_device();
    options.graph.guarded = options.memory.bytes == 0 || device != nullptr;
    if (options.whole_batch_statistics && shards > 1) {
      if (options.rewrite || options.memory.bytes > 0)
        throw Error(
            ErrorCode::kUsage,
            "statistics of the whole batch cut the graph of a step into parts: it can neither be rewritten nor be given a "
            "memory budget");
      options.graph.shared_by = shards;
    }
    make_graphs();
    require_same_start();
    take_start();
    SessionOptions session{.threads = options.threads, .profile = options.profile};
    const auto rewritten = [&](const Graph& graph, bool same_in_all) {
      return options.rewrite && same_in_all ? options.rewrite(graph) : graph;
    };
    const auto improved_large = [&](const Graph& graph) {
      Graph prepared = rewritten(graph, true);
      if (options.memory.bytes > 0) {
        rematerialized = rematerialize(prepared, options.memory, processes, backend, session);
        prepared = rematerialized->graph;
      }
      return prepared;
    };
    const auto prepare_large = [&](const Graph& graph) { return prepare_session(backend, improved_large(graph), session); };
    const auto prepare = [&, hash = graphs.gradients.hash()](const Graph& graph, bool same_in_all) {
      if (graph.hash() == hash) return prepare_large(graph);
      return prepare_session(backend, rewritten(graph, same_in_all), session);
    };
    options.exchange.in_order = options.shards > 0;
    if (device != nullptr) {
      const auto rewritten_update = [&](const Graph& graph) { return rewritten(graph, true); };
      on_device = std::make_unique<DeviceStep>(
          graphs, options.graph, options.exchange, processes, *device,
          DeviceStepOptions{session, shards, options.device_sums, improved_large, rewritten_update}, alone);
      alone = {};
    } else if (shards == 1) {
      // What training changes comes last among the inputs, and after the loss among the outputs.
      const std::size_t changed = alone.parameters.size() + alone.statistics.size() + alone.states.size();
      for (std::size_t n = 0; n < changed && options.graph.guarded; ++n)
        session.replacements.push_back({graphs.step.inputs().size() - changed + n, 1 + n});
      whole = prepare_large(graphs.step);
    } else {
      parallel = std::make_unique<ParallelStep>(graphs, options.graph, options.exchange, processes, shards, prepare, alone);
      alone = {};
    }
    std::vector<std::string> columns = input_names(model);
    columns.emplace_back(kTargets);
    const std::int64_t mine = shards / count;
    batches = std::make_unique<Batches>(
        data, std::move(columns), BatchPart{options.batch, rows, static_cast<std::int64_t>(processes.rank()) * mine, mine},
        options.seed, steps());
    give_back_free_memory();
  }

  // Takes what training starts from out of the model, and of the graphs made of it, into memory of its own.
  void take_start() {
    std::vector<ValueId> taken;
    const auto copies = [&](const std::vector<TrainedTensor>& which) {
      std::vector<Tensor> tensors;
      for (const TrainedTensor& t : which) {
        const Tensor& start = model.value(t.in_model).constant;
        tensors.push_back(start.type() == t.type ? own_copy(start) : converted(start, t.type));
        taken.push_back(t.in_model);
      }
      return tensors;
    };
    alone = {copies(graphs.parameters), copies(graphs.statistics), {}};
    release_constants(model, taken);
    for (Graph* graph : {&graphs.gradients, &graphs.step}) graph->set_model(model.model());
    for (std::size_t kind = 0; kind < graphs.states.size(); ++kind)
      if (shards == 1 && device == nullptr)  // a step works in this memory
        for (const Tensor& t : alone.parameters) alone.states.push_back(zeros_like(t));
      else
        std::ranges::copy(shared_zeros_like(alone.parameters), std::back_inserter(alone.states));
  }

  void make_graphs() {
    const Graph sized = bound(model, data, rows);
    graphs = make_training_graphs(sized, options.output, options.graph);
    check_type_of_targets();
    check_targets(options.graph.loss, sized.value(find_predictions(sized, options.output)).type, data.column(kTargets));
    if (device == nullptr || (graphs.sums == 0 && is_known(graphs.gradients))) return;
    device = nullptr;
    if (options.memory.bytes == 0) return;
    options.graph.guarded = false;  // as every budget has it on the host
    graphs = make_training_graphs(sized, options.output, options.graph);
  }

  // The device that weights and states can stay on. Parts of them, and gradients of other types, are the hosts' matter.
  const ResidentBackend* keeping_device() const {
    const bool whole = options.exchange.zero == 0 && (options.exchange.gradients == DataType::kFloat || shards == 1);
    return whole ? dynamic_cast<const ResidentBackend*>(&backend) : nullptr;
  }
  // A device executes graphs of known operators and sizes; others are cut, and what is between crosses the bus.
  static bool is_known(const Graph& graph) {
    return std::ranges::all_of(graph.nodes(), [&](const auto& node) {
      return node->op && std::ranges::all_of(node->outputs, [&](ValueId v) {
               return v == kNoValue || (graph.value(v).shape_known && all_constant(graph.value(v).type.shape));
             });
    });
  }

  // The targets' column has the type that the loss needs.
  void check_type_of_targets() const {
    const Graph& graph = graphs.gradients;
    const TensorType wanted = graph.value(graph.inputs()[model.inputs().size()]).type;
    const Tensor have = data.like_rows(kTargets, rows);
    if (have.type() != wanted.type || to_indices(have.sizes()) != wanted.shape)
      throw Error(ErrorCode::kBadInput, "targets of " + std::to_string(rows) + " examples are " +
                                            to_string(TensorType{have.type(), to_indices(have.sizes())}) + ", the loss needs " +
                                            to_string(wanted));
  }

  std::int64_t steps() const { return steps_per_epoch * options.epochs; }

  // One step; returns the loss. What training changes is changed only if everything is finite.
  double advance(double rate) {
    Batch batch = batches->take(step);
    complaint = batch.complaint;
    present = std::move(batch.shards);
    for (std::size_t k = 0; k < present.size(); ++k) {
      const std::size_t part = processes.rank() * present.size() + k;
      present[k].insert(present[k].end(),
                        {number(static_cast<double>(step + 1)), number(static_cast<double>(part)), number(scale.scale)});
    }
    const std::vector<Tensor> schedule{number(rate), number(static_cast<double>(step + 1))};
    if (on_device) return on_device->advance(present, schedule, !complaint.empty());
    if (shards == 1) return complaint.empty() ? advance_alone(rate) : NAN;
    return parallel->advance(present, schedule, !complaint.empty());
  }

  double advance_alone(double rate) {
    std::vector<Tensor> inputs = present[0];
    inputs.push_back(number(rate));
    const std::array changed{&alone.parameters, &alone.statistics, &alone.states};
    const bool guarded = options.graph.guarded;
    if (guarded && std::exchange(lent, false)) make_own(alone);
    for (std::vector<Tensor>* list : changed) {
      inputs.insert(inputs.end(), list->begin(), list->end());
      if (guarded) list->assign(list->size(), Tensor());  // their memory is the session's
    }
    std::vector<Tensor> outputs = whole->advance(std::move(inputs));
    const bool finite = outputs.back().integers()[0] != 0;
    auto next = outputs.begin() + 1;
    if (guarded || finite)
      for (std::vector<Tensor>* list : changed)
        for (Tensor& t : *list) t = std::move(*next++);
    return finite ? outputs[0].reals()[0] : NAN;
  }

  // What of the present step was the first that is not finite. Called by all processes.
  std::string diagnosis() {
    const TrainedTensors all = tensors();
    // A sum that is not finite is another shard's doing: here it is taken for any other number.
    std::vector<Tensor> sums = parallel ? parallel->sums() : std::vector<Tensor>();
    for (Tensor& sum : sums)
      if (std::ranges::any_of(sum.reals(), [](double v) { return !std::isfinite(v); })) sum = zeros_like(sum);
    std::string found;
    for (std::vector<Tensor> inputs : present) {
      for (const auto* list : {&all.parameters, &all.statistics}) inputs.insert(inputs.end(), list->begin(), list->end());
      inputs.insert(inputs.end(), sums.begin(), sums.end());
      if (found.empty()) found = first_not_finite(graphs.gradients, inputs, backend, options.threads);
    }
    for (const std::string& of_process : processes.all_gather(found))
      if (!of_process.empty()) return of_process;
    return {};
  }

  // What a checkpoint must agree in.
  std::map<std::string, std::string> facts() const {
    return {
        {"rewright.checkpoint", "1"},
        {"model", std::to_string(graphs.update.hash())},
        {"data", std::to_string(data.size())},
        {"batch", std::to_string(options.batch)},
        {"shards", std::to_string(options.shards) + (options.whole_batch_statistics ? ", statistics of the whole batch" : "")},
        {"accumulate", std::to_string(options.accumulate)},
        {"precision", std::string(name(options.graph.precision))},
        {"weights", std::string(name(options.graph.weights)) + (options.graph.stochastic ? ", rounded at random" : "")},
        {"clip", std::to_string(options.graph.clip_norm)},
        {"seed", std::to_string(options.seed)}};
  }

  TrainedTensors tensors() {
    if (on_device) return on_device->gather();
    if (parallel) return parallel->gather();
    lent = true;
    return alone;
  }
  void replace(const TrainedTensors& by) {
    if (on_device) return on_device->load(by);
    if (parallel) return parallel->load(by);
    alone = by;
    lent = true;
  }

  template <class F>
  void for_each(TrainedTensors& all, const F& visit) const {
    const std::size_t count = all.parameters.size();
    for (std::size_t n = 0; n < count; ++n) visit(graphs.parameters[n].name, all.parameters[n]);
    for (std::size_t n = 0; n < all.statistics.size(); ++n) visit(graphs.statistics[n].name, all.statistics[n]);
    for (std::size_t n = 0; n < all.states.size(); ++n)
      visit("training." + graphs.states[n / count] + "." + graphs.parameters[n % count].name, all.states[n]);
  }

  // Throws Error(kMissing) if processes hold different weights: each computes the same from the same, unless it is broken.
  void compare_copies() {
    const std::vector<std::uint64_t> mine = on_device  ? on_device->copies()
                                            : parallel ? parallel->copies()
                                                       : std::vector<std::uint64_t>{};
    const std::vector<std::string> all =
        processes.all_gather({reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(std::uint64_t)});
    for (std::size_t p = 1; p < all.size(); ++p)
      for (std::size_t n = 0; n < mine.size(); ++n) {
        if (all[p].compare(8 * n, 8, all[0], 8 * n, 8) == 0) continue;
        const bool parameter = mine.size() > graphs.statistics.size() && n < graphs.parameters.size();
        const std::string& name =
            parameter ? graphs.parameters[n].name : graphs.statistics[n + graphs.statistics.size() - mine.size()].name;
        throw Error(ErrorCode::kMissing,
                    "step " + std::to_string(step) + ": process " + std::to_string(p) + " holds another '" + name +
                        "' than process 0, though both computed it from the same numbers",
                    {}, "memory or a processor may be faulty; the checkpoint before it is good");
      }
  }

  // What all processes must be started with.
  void require_same_start() {
    std::map<std::string, std::string> mine = facts();
    mine["model and its weights"] = std::to_string(model.hash());
    mine["device"] = backend.name();
    mine["epochs"] = std::to_string(options.epochs);
    mine["schedule"] = std::to_string(static_cast<int>(options.schedule.kind)) + "/" + std::to_string(options.schedule.rate) +
                       "/" + std::to_string(options.schedule.warm_up);
    const ExchangeOptions& e = options.exchange;
    mine["exchange of gradients"] = std::to_string(static_cast<int>(e.all_reduce.strategy)) + "/" +
                                    std::to_string(e.all_reduce.node) + "/" + std::to_string(e.bucket_bytes) + "/" +
                                    std::string(name(e.gradients)) + "/zero " + std::to_string(e.zero);
    // Where weights are fetched, plans must be the same.
    if (e.zero == 3) mine["number of threads"] = std::to_string(options.threads);
    mine["check-every"] = std::to_string(options.check_every);
    mine["on-nan"] = options.skip_bad_steps ? "skip" : "stop";
    require_agreement(processes, mine);
  }
};

Trainer::Trainer(Graph model, const Dataset& data, const TrainOptions& options, Communicator& processes, const Backend& backend)
    : state_(std::make_unique<State>(std::move(model), data, options, processes, backend)) {}
Trainer::~Trainer() = default;

bool Trainer::run(const std::stop_token& stop, const std::function<void(const StepReport&)>& report) {
  State& s = *state_;
  while (s.step < s.steps()) {
    if (s.processes.any(stop.stop_requested())) return false;
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t epoch = s.step / s.steps_per_epoch;
    const double rate = s.options.schedule.at(s.step, s.steps());
    const double loss = s.advance(rate);
    const bool skipped = !std::isfinite(loss), half = s.options.graph.precision == DataType::kHalf;
    if (skipped && !s.options.skip_bad_steps)
      for (const std::string& complaint : s.processes.all_gather(s.complaint))
        if (!complaint.empty()) throw Error(ErrorCode::kBadInput, complaint);
    const bool overflow = half && s.scale.update(!skipped);
    if (skipped && !overflow && !s.options.skip_bad_steps) {
      const std::string where = s.diagnosis();
      throw Error(ErrorCode::kBadInput, "step " + std::to_string(s.step + 1) + ": the loss or a gradient is not finite" +
                                            (where.empty() ? "" : ", first in " + where) +
                                            "; the learning rate may be too high (now " + std::to_string(rate) + ")");
    }
    ++s.step;
    if (s.options.check_every > 0 && s.step % s.options.check_every == 0) s.compare_copies();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (report) report({s.step, s.steps(), epoch, loss, rate, static_cast<double>(s.options.batch) / seconds, skipped});
  }
  return true;
}

TrainingCheckpoint Trainer::checkpoint() const {
  TrainingCheckpoint result{state_->facts(), {}};
  result.facts["step"] = std::to_string(state_->step);
  result.facts["scale"] = std::to_string(state_->scale.scale) + " " + std::to_string(state_->scale.good_steps);
  TrainedTensors all = state_->tensors();
  state_->for_each(all, [&](const std::string& name, const Tensor& t) { result.tensors.emplace(name, t); });
  return result;
}

void Trainer::resume(const TrainingCheckpoint& checkpoint) {
  for (const auto& [key, value] : state_->facts()) {
    const auto at = checkpoint.facts.find(key);
    if (at == checkpoint.facts.end() || at->second != value)
      throw Error(ErrorCode::kBadInput, "the checkpoint is of another run: its " + key + " is " +
                                            (at == checkpoint.facts.end() ? "not there" : at->second) + ", here it is " +
                                            value);
  }
  const auto step = checkpoint.facts.find("step");
  const bool counted = step != checkpoint.facts.end() && !step->second.empty() && step->second.size() < 19 &&
                       step->second.find_first_not_of("0123456789") == std::string::npos;
  if (!counted) throw Error(ErrorCode::kBadInput, "the checkpoint does not say how far it is");
  TrainedTensors all = state_->tensors();
  state_->for_each(all, [&](const std::string& name, Tensor& t) {
    const auto at = checkpoint.tensors.find(name);
    if (at == checkpoint.tensors.end() || at->second.type() != t.type() || at->second.sizes() != t.sizes())
      throw Error(ErrorCode::kBadInput, "the checkpoint does not hold '" + name + "' as this model has it");
    t = at->second;
  });
  state_->replace(all);
  state_->step = std::stoll(step->second);
  if (const auto scale = checkpoint.facts.find("scale"); scale != checkpoint.facts.end()) {
    std::istringstream text(scale->second);
    LossScale found;
    if (text >> found.scale >> found.good_steps && found.scale >= 1 && found.good_steps >= 0) state_->scale = found;
  }
}

std::optional<TrainingMemory> Trainer::memory() const {
  if (state_->on_device) return state_->on_device->memory();
  return state_->parallel ? std::optional(state_->parallel->memory()) : std::nullopt;
}
std::int64_t Trainer::steps_done() const { return state_->step; }
std::size_t Trainer::peak_bytes() const {
  if (state_->on_device) return state_->on_device->peak_bytes();
  return state_->whole ? state_->whole->peak_bytes() : state_->parallel->peak_bytes();
}
const Rematerialized* Trainer::rematerialized() const { return state_->rematerialized ? &*state_->rematerialized : nullptr; }
const TrainingGraphs& Trainer::graphs() const { return state_->graphs; }

std::vector<StepProfile> Trainer::profile() const {
  if (state_->on_device) return state_->on_device->profile();
  return state_->whole ? state_->whole->profile() : state_->parallel->profile();
}

Graph Trainer::trained() const {
  Graph result = state_->model;
  const TrainedTensors all = state_->tensors();
  for (std::size_t n = 0; n < all.parameters.size(); ++n)
    result.set_constant(state_->graphs.parameters[n].in_model,
                        converted(all.parameters[n], result.value(state_->graphs.parameters[n].in_model).type.type));
  for (std::size_t n = 0; n < all.statistics.size(); ++n)
    result.set_constant(state_->graphs.statistics[n].in_model, all.statistics[n]);
  return result;
}

}  // namespace rewright::training
