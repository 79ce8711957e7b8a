#include "runtime/training/steps/parallel_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/stream.h"
#include "runtime/training/graphs/staged_gradients.h"
#include "runtime/training/memory/parameter_layout.h"
#include "runtime/training/memory/work_queue.h"
#include "runtime/training/steps/gradient_exchange.h"
#include "runtime/training/steps/kept_tensors.h"

namespace rewright::training {

namespace {

// The parameters in the order in which the graph computes their gradients (its outputs after the loss).
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

ParameterLayout layout_for(const TrainingGraphs& graphs, const TrainingGraphOptions& training, const ExchangeOptions& exchange,
                           std::size_t processes, const std::vector<Tensor>& parameters) {
  return {kinds(parameters), order_of_gradients(graphs.gradients, graphs.parameters.size()),
          LayoutOptions{exchange.bucket_bytes, processes, exchange.zero > 0 && updates_by_elements(training.update.method)}};
}

class ParallelStep final : public TrainingStep {
 public:
  ParallelStep(const TrainingGraphs& graphs, const TrainingGraphOptions& training, const ExchangeOptions& exchange,
               Communicator& processes, std::int64_t shards, const PrepareParallel& prepare, const TrainedTensors& start)
      : graphs_(graphs),
        training_(training),
        zero_(exchange.zero),
        inputs_(graphs.gradients.inputs().size() - graphs.parameters.size() - graphs.statistics.size() - graphs.sums),
        layout_(layout_for(graphs, training, exchange, processes.size(), start.parameters), processes.rank()),
        queue_(needs_queue(processes.size()) ? std::make_unique<WorkQueue>() : nullptr),
        kept_(layout_, zero_, graphs.states.size(), processes, queue_.get()),
        exchange_(layout_, exchange, processes, static_cast<std::size_t>(shards), queue_.get()) {
    if (graphs.sums == 0)
      gradients_ = prepare.gradients(graphs.gradients);
    else
      staged_ = std::make_unique<StagedGradients>(graphs.gradients, graphs.sums, prepare.gradients);
    if (zero_ == 0)
      update_ = prepare.update(graphs.update);
    else if (!layout_.own_pieces().empty())
      update_ = prepare.own_update(update_of_pieces());
    kept_.load(start);
  }
  ~ParallelStep() override { queue_.reset(); }  // its thread uses the other members

  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) override {
    exchange_.start_step(shards.size());
    kept_.start_step();
    facts_.assign(shards.size(), {});
    try {
      compute_gradients(shards);
    } catch (...) {
      // Other processes wait for the buckets being exchanged; this process can only report its failure after these.
      if (queue_ && zero_ < 3 && !staged_) exchange_.give_up();
      if (queue_) queue_->wait();
      throw;
    }
    if (queue_) queue_->wait();
    if (bad) facts_[0][0] = NAN;
    const std::vector<double> means = exchange_.mean_over_shards(facts_);
    const bool useful = exchange_.finite();
    if (useful) {
      update_parameters(schedule);
      std::size_t next = 1;
      for (Tensor& s : kept_.statistics()) {
        s = Tensor::from_reals(s.type(), s.sizes(), std::span(means).subspan(next, static_cast<std::size_t>(s.size())));
        next += static_cast<std::size_t>(s.size());
      }
    }
    exchange_.end_step();
    return useful ? means[0] : NAN;
  }

  TrainedTensors gather() override { return kept_.gather(); }
  void load(const TrainedTensors& tensors) override { kept_.load(tensors); }

  std::vector<std::uint64_t> copies() const override {
    const TrainedTensors& copies = kept_.copies();
    std::vector<std::uint64_t> hashes;
    for (const auto* list : {&copies.parameters, &copies.statistics})
      for (const Tensor& t : *list) hashes.push_back(t.content_hash());
    return hashes;
  }
  std::vector<Tensor> sums() const override { return staged_ ? staged_->sums() : std::vector<Tensor>(); }

  std::optional<TrainingMemory> memory() const override {
    return TrainingMemory{kept_.most_parameter_bytes(), exchange_.most_bytes(), kept_.most_state_bytes()};
  }
  std::size_t peak_bytes() const override { return staged_ ? staged_->peak_bytes() : gradients_->peak_bytes(); }
  std::vector<StepProfile> profile() const override {
    std::vector<StepProfile> result = staged_ ? staged_->profile() : gradients_->profile();
    if (update_)
      for (StepProfile& step : update_->profile()) result.push_back(std::move(step));
    return result;
  }

 private:
  // One shard's tensors in the graph of gradients. Gradients are written directly into exchange buckets.
  class Stream final : public TensorStream {
   public:
    Stream(ParallelStep& step, const std::vector<Tensor>& given, std::size_t shard)
        : step_(step), given_(given), shard_(shard) {}

    Tensor input(std::size_t number) override {
      if (number < step_.inputs_) return given_[number];
      number -= step_.inputs_;
      const std::size_t count = step_.layout_.parameters().size();
      return number < count ? step_.kept_.parameter(number) : step_.kept_.statistics()[number - count];
    }

    std::span<std::byte> output(std::size_t number) override {
      if (is_gradient(number)) return step_.exchange_.memory(shard_, number - 1);
      const Graph& graph = step_.graphs_.gradients;
      const TensorType& type = graph.value(graph.outputs()[number].value).type;
      return (others_[number] = Tensor(type.type, values(type.shape))).mutable_bytes();
    }

    void finished(std::size_t number) override {
      if (is_gradient(number)) return step_.exchange_.known(shard_, number - 1);
      std::vector<double>& facts = step_.facts_[shard_];
      std::size_t at = 0;
      for (std::size_t o = 0; o < number; ++o)
        if (!is_gradient(o)) at += static_cast<std::size_t>(step_.size_of_output(o));
      const std::vector<double> numbers = others_.at(number).reals();
      facts.resize(std::max(facts.size(), at + numbers.size()));
      std::ranges::copy(numbers, facts.begin() + static_cast<std::ptrdiff_t>(at));
    }

   private:
    bool is_gradient(std::size_t output) const { return output > 0 && output <= step_.layout_.parameters().size(); }

    ParallelStep& step_;
    const std::vector<Tensor>& given_;
    const std::size_t shard_;
    std::map<std::size_t, Tensor> others_;  // by output: loss and statistics
  };

  bool needs_queue(std::size_t processes) const {
    return processes > 1 && (zero_ == 3 || graphs_.sums > 0 || layout_.buckets().size() > 1);
  }

  Graph update_of_pieces() const {
    std::vector<UpdatedPart> parts;
    for (const Piece& piece : layout_.own_pieces())
      parts.push_back({graphs_.parameters[piece.parameter].name,
                       {layout_.parameters()[piece.parameter].type, to_indices(piece.sizes)},
                       static_cast<std::int64_t>(piece.parameter),
                       static_cast<std::int64_t>(piece.first - layout_.slot_of(piece.parameter).first)});
    return make_update_graph(parts, training_);
  }

  std::int64_t size_of_output(std::size_t output) const {
    return element_count(values(graphs_.gradients.value(graphs_.gradients.outputs()[output].value).type.shape));
  }

  void compute_gradients(const std::vector<std::vector<Tensor>>& given) {
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<TensorStream*> of_shards;
    for (std::size_t k = 0; k < given.size(); ++k) {
      streams.push_back(std::make_unique<Stream>(*this, given[k], k));
      of_shards.push_back(streams.back().get());
    }
    if (!staged_) {
      for (TensorStream* const stream : of_shards) run_streamed(*gradients_, graphs_.gradients.inputs().size(), *stream);
      return;
    }
    // Only the queue's thread communicates, so that all processes send in the same order.
    staged_->run(of_shards, [this](std::span<const std::span<std::byte>> shares, DataType type) {
      if (!queue_) return exchange_.add_over_shards(shares, type);
      queue_->add([this, shares, type] { exchange_.add_over_shards(shares, type); }, WorkQueue::kAny);
      queue_->wait();
    });
  }

  // Updates this process's parameters, then sends the new ones to all processes that hold them.
  void update_parameters(const std::vector<Tensor>& schedule) {
    if (training_.clip_norm > 0) exchange_.clip(training_.clip_norm);
    if (update_) {
      std::vector<Tensor> from = schedule;
      const auto add = [&](const std::vector<Tensor>& tensors) { from.insert(from.end(), tensors.begin(), tensors.end()); };
      add(kept_.updated_parameters()), add(exchange_.means()), add(kept_.updated_states());
      std::vector<Tensor> after = update_->run(from);
      from.clear();
      kept_.take(std::move(after));
    }
    kept_.share();
  }

  const TrainingGraphs& graphs_;
  const TrainingGraphOptions training_;
  const int zero_;
  const std::size_t inputs_;  // of the graph of gradients, before the parameters
  ProcessLayout layout_;
  std::unique_ptr<WorkQueue> queue_;  // only its thread communicates while gradients are computed
  KeptTensors kept_;
  GradientExchange exchange_;
  std::unique_ptr<Session> gradients_, update_;
  std::unique_ptr<StagedGradients> staged_;  // replaces gradients_ if shards share statistics
  std::vector<std::vector<double>> facts_;   // of this step by shard: the loss, then statistics
};

}  // namespace

std::unique_ptr<TrainingStep> make_parallel_step(const TrainingGraphs& graphs, const TrainingGraphOptions& training,
                                                 const ExchangeOptions& exchange, Communicator& processes, std::int64_t shards,
                                                 const PrepareParallel& prepare, const TrainedTensors& start) {
  return std::make_unique<ParallelStep>(graphs, training, exchange, processes, shards, prepare, start);
}

}  // namespace rewright::training
