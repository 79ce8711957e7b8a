#include "runtime/training/steps/step_maker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/mixed.h"
#include "runtime/training/steps/device_step.h"
#include "runtime/training/steps/parallel_step.h"
#include "runtime/training/steps/whole_step.h"

namespace rewright::training {

namespace {

// The backend as a device that keeps tensors, if the options allow it. Partitioned tensors (ZeRO) and gradients sent in another
// type are only implemented on the host.
const ResidentBackend* keeping_device(const TrainOptions& options, std::int64_t shards, const Backend& backend) {
  const ExchangeOptions& e = options.exchange;
  const bool possible = e.zero == 0 && (e.gradients == DataType::kFloat || shards == 1);
  return possible ? dynamic_cast<const ResidentBackend*>(&backend) : nullptr;
}

// Are all operators and sizes known? Devices execute only such graphs as a whole.
bool is_known(const Graph& graph) {
  return std::ranges::all_of(graph.nodes(), [&](const auto& node) {
    return node->op && std::ranges::all_of(node->outputs, [&](ValueId v) {
             return v == kNoValue || (graph.value(v).shape_known && all_constant(graph.value(v).type.shape));
           });
  });
}

}  // namespace

StepMaker::StepMaker(const TrainOptions& options, std::int64_t shards, Communicator& processes, const Backend& backend)
    : options_(options),
      shards_(shards),
      processes_(processes),
      backend_(backend),
      session_{.threads = options.threads, .profile = options.profile},
      device_(keeping_device(options, shards, backend)),
      graph_(options.graph) {
  graph_.seed = options.seed;
  if (options.planned) device_ = nullptr;
  graph_.rows_by_sample = options.planned != nullptr;
  graph_.guarded = !options.planned && (options.memory.bytes == 0 || device_ != nullptr);
  if (!options.whole_batch_statistics || shards == 1) return;
  if (options.rewrite || options.memory.bytes > 0)
    throw Error(ErrorCode::kUsage,
                "statistics of the whole batch cut the graph of a step into parts: it can neither be rewritten nor be given a "
                "memory budget");
  graph_.shared_by = shards;
}

TrainingGraphs StepMaker::make_graphs(const Graph& sized) {
  TrainingGraphs graphs = make_training_graphs(sized, options_.output, graph_);
  if (device_ == nullptr || (graphs.sums == 0 && is_known(graphs.gradients))) return graphs;
  device_ = nullptr;
  if (options_.memory.bytes == 0) return graphs;
  graph_.guarded = false;  // with a budget, steps on the host are never guarded
  return make_training_graphs(sized, options_.output, graph_);
}

std::unique_ptr<TrainingStep> StepMaker::make_step(const TrainingGraphs& graphs, TrainedTensors start) {
  if (options_.planned) return options_.planned(graphs, std::move(start));
  ExchangeOptions exchange = options_.exchange;
  exchange.in_order = options_.shards > 0;
  if (device_ != nullptr) return on_device(graphs, exchange, start);
  if (shards_ > 1) return in_parallel(graphs, exchange, start);
  const auto prepare = [this](const Graph& graph, std::vector<Replacement> replacements) {
    SessionOptions session = session_;
    session.replacements = std::move(replacements);
    return prepare_session(backend_, rewritten_to_budget(graph), session);
  };
  return make_whole_step(graphs, graph_.guarded, prepare, std::move(start));
}

std::unique_ptr<TrainingStep> StepMaker::on_device(const TrainingGraphs& graphs, const ExchangeOptions& exchange,
                                                   const TrainedTensors& start) {
  const DeviceStepOptions options{.session = session_,
                                  .shards = shards_,
                                  .sums = options_.device_sums,
                                  .rewritten = [this](const Graph& graph) { return rewritten_to_budget(graph); },
                                  .rewritten_update = [this](const Graph& graph) { return rewritten(graph); }};
  return make_device_step(graphs, graph_, exchange, processes_, *device_, options, start);
}

std::unique_ptr<TrainingStep> StepMaker::in_parallel(const TrainingGraphs& graphs, const ExchangeOptions& exchange,
                                                     const TrainedTensors& start) {
  // Updates of partitioned parameters are not rewritten: all processes rewrite together, so they must have the same graph.
  const PrepareParallel prepare{.gradients = [this](const Graph& graph) { return prepared(rewritten_to_budget(graph)); },
                                .update = [this](const Graph& graph) { return prepared(rewritten(graph)); },
                                .own_update = [this](const Graph& graph) { return prepared(graph); }};
  return make_parallel_step(graphs, graph_, exchange, processes_, shards_, prepare, start);
}

Graph StepMaker::rewritten(const Graph& graph) const { return options_.rewrite ? options_.rewrite(graph) : graph; }

Graph StepMaker::rewritten_to_budget(const Graph& graph) {
  Graph result = rewritten(graph);
  if (options_.memory.bytes == 0) return result;
  rematerialized_ = rematerialize(result, options_.memory, processes_, backend_, session_);
  return rematerialized_->graph;
}

std::unique_ptr<Session> StepMaker::prepared(const Graph& graph) const { return prepare_session(backend_, graph, session_); }

}  // namespace rewright::training
