#include "runtime/training/steps/parallel_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "runtime/stream.h"
#include "runtime/training/graphs/staged_gradients.h"
#include "runtime/training/memory/parameter_layout.h"
#include "runtime/training/memory/work_queue.h"
#include "runtime/training/steps/gradient_exchange.h"
#include "runtime/training/steps/kept_tensors.h"

namespace rewright::training {

namespace {

// The parameters by the place of what computes their gradients, which are the outputs behind the first.
std::vector<std::size_t> order_of_gradients(const Graph& graph, std::size_t parameters) {
  std::vector<std::size_t> order;
  for (const std::size_t o : outputs_as_computed(graph))
    if (o >= 1 && o <= parameters) order.push_back(o - 1);
  return order;
}

std::vector<ParameterKind> kinds(const std::vector<Tensor>& tensors) {
  std::vector<ParameterKind> result;
  for (const Tensor& t : tensors) result.push_back({t.type(), t.sizes()});
  return result;
}

// Does each element move by what is known of this element alone?
bool moves_by_elements(const TrainingOptions& options) {
  return options.update.method != UpdateMethod::kLars && options.update.method != UpdateMethod::kLamb;
}

ParameterLayout layout_for(const TrainingGraphs& graphs, const TrainingOptions& training, const ExchangeOptions& exchange,
                           std::size_t processes, const std::vector<Tensor>& parameters) {
  return {kinds(parameters), order_of_gradients(graphs.gradients, graphs.parameters.size()),
          LayoutOptions{exchange.bucket_bytes, processes, exchange.zero > 0 && moves_by_elements(training)}};
}

}  // namespace

std::vector<std::size_t> outputs_as_computed(const Graph& graph) {
  std::map<ValueId, std::size_t> made;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    for (const ValueId v : graph.nodes()[n]->outputs) made[v] = n + 1;
  std::vector<std::size_t> order(graph.outputs().size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t o) { return made[graph.outputs()[o].value]; });
  return order;
}

struct ParallelStep::State {
  const TrainingGraphs& graphs;
  TrainingOptions training;
  const int zero;
  const std::size_t inputs;  // of the graph of gradients, before parameters
  ProcessLayout layout;
  std::unique_ptr<WorkQueue> queue;  // the one thread that speaks with other processes while gradients are computed
  KeptTensors kept;
  GradientExchange exchange;
  std::unique_ptr<Session> gradients, update;
  std::unique_ptr<StagedGradients> staged;  // instead of gradients, where shards share statistics
  std::vector<std::vector<double>> facts;   // of one step, by shard: the loss and the statistics

  State(const TrainingGraphs& g, const TrainingOptions& t, const ExchangeOptions& e, Communicator& processes,
        std::int64_t shards, const Prepare& prepare, const TrainedTensors& start)
      : graphs(g),
        training(t),
        zero(e.zero),
        inputs(g.gradients.inputs().size() - g.parameters.size() - g.statistics.size() - g.sums),
        layout(layout_for(g, t, e, processes.size(), start.parameters), processes.rank()),
        queue(needs_queue(processes.size()) ? std::make_unique<WorkQueue>() : nullptr),
        kept(layout, zero, g.states.size(), processes, queue.get()),
        exchange(layout, e, processes, static_cast<std::size_t>(shards), queue.get()) {
    if (graphs.sums == 0)
      gradients = prepare(graphs.gradients, true);
    else
      staged = std::make_unique<StagedGradients>(graphs.gradients, graphs.sums,
                                                 [&](const Graph& part) { return prepare(part, true); });
    if (zero == 0)
      update = prepare(graphs.update, true);
    else if (!layout.own_pieces().empty())
      update = prepare(update_of_pieces(), false);
    kept.load(start);
  }
  ~State() { queue.reset(); }  // before what it works on

  bool needs_queue(std::size_t processes) const {
    return processes > 1 && (zero == 3 || graphs.sums > 0 || layout.buckets().size() > 1);
  }

  Graph update_of_pieces() const {
    std::vector<UpdatedPart> parts;
    for (const Piece& piece : layout.own_pieces())
      parts.push_back({graphs.parameters[piece.parameter].name,
                       {layout.parameters()[piece.parameter].type, to_indices(piece.sizes)},
                       static_cast<std::int64_t>(piece.parameter),
                       static_cast<std::int64_t>(piece.first - layout.slot_of(piece.parameter).first)});
    return make_update_graph(parts, training);
  }

  // The tensors of one shard's run.
  struct Stream : TensorStream {
    State& state;
    const std::vector<Tensor>& given;
    const std::size_t shard;
    std::map<std::size_t, Tensor> real;  // outputs that are no gradients

    Stream(State& s, const std::vector<Tensor>& g, std::size_t number) : state(s), given(g), shard(number) {}

    bool is_gradient(std::size_t output) const { return output > 0 && output <= state.layout.parameters().size(); }

    Tensor input(std::size_t number) override {
      if (number < state.inputs) return given[number];
      number -= state.inputs;
      const std::size_t count = state.layout.parameters().size();
      return number < count ? state.kept.parameter(number) : state.kept.statistics()[number - count];
    }

    std::span<std::byte> output(std::size_t number) override {
      if (is_gradient(number)) return state.exchange.memory(shard, number - 1);
      const TensorType& type = state.graphs.gradients.value(state.graphs.gradients.outputs()[number].value).type;
      return (real[number] = Tensor(type.type, values(type.shape))).mutable_bytes();
    }

    void finished(std::size_t number) override {
      if (is_gradient(number)) return state.exchange.known(shard, number - 1);
      std::vector<double>& facts = state.facts[shard];
      std::size_t at = 0;
      for (std::size_t o = 0; o < number; ++o)
        if (!is_gradient(o)) at += static_cast<std::size_t>(state.size_of_output(o));
      const std::vector<double> numbers = real.at(number).reals();
      facts.resize(std::max(facts.size(), at + numbers.size()));
      std::ranges::copy(numbers, facts.begin() + static_cast<std::ptrdiff_t>(at));
    }
  };

  std::int64_t size_of_output(std::size_t output) const {
    return element_count(values(graphs.gradients.value(graphs.gradients.outputs()[output].value).type.shape));
  }

  void compute_gradients(const std::vector<std::vector<Tensor>>& given) {
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<TensorStream*> of_shards;
    for (std::size_t k = 0; k < given.size(); ++k) {
      streams.push_back(std::make_unique<Stream>(*this, given[k], k));
      of_shards.push_back(streams.back().get());
    }
    if (!staged) {
      for (TensorStream* const stream : of_shards) run_streamed(*gradients, graphs.gradients.inputs().size(), *stream);
      return;
    }
    // One thread speaks with the other processes, and all of them in the same order.
    staged->run(of_shards, [this](std::span<const std::span<std::byte>> shares, DataType type) {
      if (!queue) return exchange.add_over_shards(shares, type);
      queue->add([this, shares, type] { exchange.add_over_shards(shares, type); }, WorkQueue::kAny);
      queue->wait();
    });
  }

  double advance(const std::vector<std::vector<Tensor>>& given, const std::vector<Tensor>& schedule, bool bad) {
    exchange.start_step(given.size());
    kept.start_step();
    facts.assign(given.size(), {});
    try {
      compute_gradients(given);
    } catch (...) {
      // The others wait for the buckets that are under way: only then can this process say what has happened.
      if (queue && zero < 3 && !staged) exchange.give_up();
      if (queue) queue->wait();
      throw;
    }
    if (queue) queue->wait();
    if (bad) facts[0][0] = NAN;
    const std::vector<double> means = exchange.mean_over_shards(facts);
    const bool useful = exchange.finite();
    if (useful) {
      move(schedule);
      std::size_t next = 1;
      for (Tensor& s : kept.statistics()) {
        s = Tensor::from_reals(s.type(), s.sizes(), std::span(means).subspan(next, static_cast<std::size_t>(s.size())));
        next += static_cast<std::size_t>(s.size());
      }
    }
    exchange.end_step();
    return useful ? means[0] : NAN;
  }

  // The update, and in all processes what has become of the parameters.
  void move(const std::vector<Tensor>& schedule) {
    if (training.clip_norm > 0) exchange.clip(training.clip_norm);
    if (update) {
      std::vector<Tensor> from = schedule;
      const auto add = [&](const std::vector<Tensor>& tensors) { from.insert(from.end(), tensors.begin(), tensors.end()); };
      add(kept.updated_parameters()), add(exchange.means()), add(kept.updated_states());
      std::vector<Tensor> after = update->run(from);
      from.clear();
      kept.take(std::move(after));
    }
    kept.share();
  }
};

ParallelStep::ParallelStep(const TrainingGraphs& graphs, const TrainingOptions& training, const ExchangeOptions& exchange,
                           Communicator& processes, std::int64_t shards, const Prepare& prepare, const TrainedTensors& start)
    : state_(std::make_unique<State>(graphs, training, exchange, processes, shards, prepare, start)) {}
ParallelStep::~ParallelStep() = default;

double ParallelStep::advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) {
  return state_->advance(shards, schedule, bad);
}
TrainedTensors ParallelStep::gather() { return state_->kept.gather(); }
void ParallelStep::load(const TrainedTensors& tensors) { state_->kept.load(tensors); }

std::vector<std::uint64_t> ParallelStep::copies() const {
  const TrainedTensors& copies = state_->kept.copies();
  std::vector<std::uint64_t> hashes;
  for (const auto* list : {&copies.parameters, &copies.statistics})
    for (const Tensor& t : *list) hashes.push_back(t.content_hash());
  return hashes;
}

std::vector<Tensor> ParallelStep::sums() const { return state_->staged ? state_->staged->sums() : std::vector<Tensor>(); }

std::size_t ParallelStep::peak_bytes() const {
  return state_->staged ? state_->staged->peak_bytes() : state_->gradients->peak_bytes();
}

std::vector<StepProfile> ParallelStep::profile() const {
  std::vector<StepProfile> result = state_->staged ? state_->staged->profile() : state_->gradients->profile();
  if (state_->update)
    for (StepProfile& step : state_->update->profile()) result.push_back(std::move(step));
  return result;
}

TrainingMemory ParallelStep::memory() const {
  return {state_->kept.most_parameter_bytes(), state_->exchange.most_bytes(), state_->kept.most_state_bytes()};
}

}  // namespace rewright::training
