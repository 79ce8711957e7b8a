#include "runtime/planned/planned_run.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "runtime/mixed.h"
#include "runtime/planned/exchange_queue.h"
#include "runtime/stream.h"

namespace rewright::runtime {

namespace {

using distribution::Communicator;
using plans::LocalExchange, plans::LocalPiece, plans::LocalProgram, plans::LocalValue;

// The inputs and outputs of a piece that runs.
class PieceStream final : public TensorStream {
 public:
  PieceStream(const LocalProgram& program, const LocalPiece& piece, ExchangeQueue& queue, TensorPool& pool)
      : program_(program), piece_(piece), queue_(queue), pool_(pool), results_(piece.outputs.size()) {}

  Tensor input(std::size_t number) override { return queue_.get(piece_.inputs[number]); }
  std::span<std::byte> output(std::size_t number) override {
    const LocalValue& value = program_.values[piece_.outputs[number]];
    TensorPool::Output& result = results_[number];
    if (!result.tensor) result = pool_.take(value.type, value.sizes);
    return {result.bytes, result.tensor.byte_count()};
  }
  void finished(std::size_t number) override { queue_.put(piece_.outputs[number], std::move(results_[number].tensor)); }

 private:
  const LocalProgram& program_;
  const LocalPiece& piece_;
  ExchangeQueue& queue_;
  TensorPool& pool_;
  std::vector<TensorPool::Output> results_;
};

std::vector<int> count_readers(const LocalProgram& program) {
  std::vector<int> readers(program.values.size());
  for (const LocalPiece& piece : program.pieces)
    for (const std::size_t v : piece.inputs) ++readers[v];
  for (const LocalExchange& e : program.exchanges) ++readers[e.from];
  for (const plans::LocalPort& output : program.outputs) ++readers[output.value];
  return readers;
}

}  // namespace

bool can_exchange_beside(Communicator& processes, int threads) {
  const std::vector<std::size_t> nodes = processes.nodes();
  const bool on_one_machine = std::ranges::all_of(nodes, [&](std::size_t node) { return node == nodes.front(); });
  const auto busy = static_cast<std::size_t>(usable_threads(threads)) + 1;
  // Processes that may not use all processors are taken to share those that this one may use.
  return !on_one_machine || nodes.size() * busy <= static_cast<std::size_t>(usable_threads(0));
}

PlannedRun::PlannedRun(LocalProgram program, Communicator& processes, const Backend& backend, const SessionOptions& options,
                       std::optional<bool> beside)
    : program_(std::move(program)),
      processes_(std::make_shared<plans::PlanProcesses>(processes, program_.groups)),
      readers_(count_readers(program_)),
      exchanges_(std::make_shared<ExchangesOfRuns>()) {
  exchanges_->exchanges = program_.exchanges;
  exchanges_->processes = processes_;
  exchanges_->beside = beside ? *beside : can_exchange_beside(processes, options.threads);
  exchanges_->at_once.resize(program_.exchanges.size());
  exchanges_->seconds.resize(program_.exchanges.size());
  for (const plans::LocalExchange& e : program_.exchanges)
    exchanges_->shrinks.push_back(element_count(program_.values[e.to].sizes) < element_count(program_.values[e.from].sizes));
  for (LocalPiece& piece : program_.pieces) {
    pieces_.push_back(prepare_session(backend, piece.graph, options));
    piece.graph = {};  // the session has what it needs of the constants
  }
}
PlannedRun::~PlannedRun() = default;

std::vector<Tensor> PlannedRun::run(std::vector<Tensor> inputs) {
  const auto queue = std::make_shared<ExchangeQueue>(exchanges_, readers_);
  ++runs_;
  for (std::size_t v = 0; v < program_.values.size(); ++v)
    if (program_.values[v].constant) queue->put(v, program_.values[v].constant);
  for (std::size_t i = 0; i < inputs.size(); ++i) queue->put(program_.inputs[i].value, std::move(inputs[i]));
  inputs.clear();
  std::thread thread;
  if (exchanges_->beside && !exchanges_->exchanges.empty()) thread = std::thread([queue] { queue->exchange_beside(); });
  try {
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const LocalPiece& piece = program_.pieces[p];
      PieceStream stream(program_, piece, *queue, exchanges_->pool);
      run_streamed(*pieces_[p], piece.inputs.size(), stream);
      for (const std::size_t v : piece.inputs) queue->release(v);
    }
    std::vector<Tensor> outputs;
    for (const plans::LocalPort& port : program_.outputs) outputs.push_back(queue->get(port.value));
    queue->finish();
    if (thread.joinable()) thread.join();
    return outputs;
  } catch (...) {
    queue->fail(std::current_exception());
    // Others may never send what the thread waits for: they end when this process does.
    if (thread.joinable()) {
      if (queue->is_left_within(std::chrono::seconds(2)))
        thread.join();
      else
        thread.detach();
    }
    throw;
  }
}

std::size_t PlannedRun::peak_bytes() const {
  std::size_t most = 0;
  for (const auto& piece : pieces_) most = std::max(most, piece->peak_bytes());
  return most;
}

std::vector<StepProfile> PlannedRun::profile() const {
  std::vector<StepProfile> steps;
  for (const auto& piece : pieces_) {
    const std::vector<StepProfile> more = piece->profile();
    steps.insert(steps.end(), more.begin(), more.end());
  }
  for (std::size_t e = 0; e < program_.exchanges.size(); ++e) {
    const LocalValue &from = program_.values[program_.exchanges[e].from], &to = program_.values[program_.exchanges[e].to];
    StepProfile step{from.name, "(" + std::string(plans::name(program_.exchanges[e].exchange)) + ")"};
    step.seconds = exchanges_->seconds[e], step.runs = runs_;
    for (const LocalValue* v : {&from, &to})
      step.bytes += static_cast<double>(element_count(v->sizes)) * static_cast<double>(byte_size(v->type));
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace rewright::runtime
