#include "runtime/planned/planned_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "runtime/mixed.h"
#include "runtime/stream.h"

namespace rewright::runtime {

namespace {

using distribution::Communicator;
using plans::LocalExchange, plans::LocalPiece, plans::LocalProgram, plans::LocalValue;

// The tensors of one run. The thread that computes and the one that exchanges wait for each other's. Kept by both, as a thread
// whose message never comes outlives a run that has failed.
class RunState {
 public:
  RunState(const LocalProgram& program, std::vector<int> readers)
      : values_(program.values.size()), ready_(program.values.size()), readers_(std::move(readers)) {}

  void put(std::size_t number, Tensor tensor) {
    const std::lock_guard lock(mutex_);
    values_[number] = std::move(tensor);
    ready_[number] = true;
    changed_.notify_all();
  }
  // Waits for the value. Throws what has failed.
  Tensor get(std::size_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_[number] || failure_; });
    if (!ready_[number]) std::rethrow_exception(failure_);
    return values_[number];
  }
  // One of the value's readers is done.
  void release(std::size_t number) {
    const std::lock_guard lock(mutex_);
    if (--readers_[number] == 0) values_[number] = Tensor();
  }
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    changed_.notify_all();
  }
  void end_exchanges() {
    const std::lock_guard lock(mutex_);
    exchanging_ = false;
    changed_.notify_all();
  }
  // Have the exchanges ended after so long?
  bool exchanges_end_within(std::chrono::seconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return !exchanging_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Tensor> values_;
  std::vector<bool> ready_;
  std::vector<int> readers_;
  std::exception_ptr failure_;
  bool exchanging_ = true;
};

void exchange_all(RunState& state, const std::vector<LocalExchange>& exchanges, plans::PlanProcesses& processes) {
  try {
    for (const LocalExchange& e : exchanges) {
      Tensor result = plans::exchanged(e, state.get(e.from), processes);
      state.release(e.from);
      state.put(e.to, std::move(result));
    }
  } catch (...) {
    state.fail(std::current_exception());
  }
  state.end_exchanges();
}

// The inputs and outputs of a piece that runs.
class PieceStream final : public TensorStream {
 public:
  PieceStream(const LocalProgram& program, const LocalPiece& piece, RunState& state)
      : program_(program), piece_(piece), state_(state), results_(piece.outputs.size()) {}

  Tensor input(std::size_t number) override { return state_.get(piece_.inputs[number]); }
  std::span<std::byte> output(std::size_t number) override {
    const LocalValue& value = program_.values[piece_.outputs[number]];
    if (!results_[number]) results_[number] = Tensor(value.type, value.sizes);
    return results_[number].size() > 0 ? results_[number].mutable_bytes() : std::span<std::byte>();
  }
  void finished(std::size_t number) override { state_.put(piece_.outputs[number], std::move(results_[number])); }

 private:
  const LocalProgram& program_;
  const LocalPiece& piece_;
  RunState& state_;
  std::vector<Tensor> results_;
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

PlannedRun::PlannedRun(LocalProgram program, Communicator& processes, const Backend& backend, const SessionOptions& options)
    : program_(std::move(program)),
      processes_(std::make_shared<plans::PlanProcesses>(processes, program_.groups)),
      readers_(count_readers(program_)),
      exchanges_(std::make_shared<std::vector<LocalExchange>>(program_.exchanges)) {
  for (LocalPiece& piece : program_.pieces) {
    pieces_.push_back(prepare_session(backend, piece.graph, options));
    piece.graph = {};  // the session has what it needs of the constants
  }
}
PlannedRun::~PlannedRun() = default;

std::vector<Tensor> PlannedRun::run(std::vector<Tensor> inputs) {
  const auto state = std::make_shared<RunState>(program_, readers_);
  for (std::size_t v = 0; v < program_.values.size(); ++v)
    if (program_.values[v].constant) state->put(v, program_.values[v].constant);
  for (std::size_t i = 0; i < inputs.size(); ++i) state->put(program_.inputs[i].value, std::move(inputs[i]));
  inputs.clear();
  std::thread thread([state, exchanges = exchanges_, processes = processes_] { exchange_all(*state, *exchanges, *processes); });
  try {
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const LocalPiece& piece = program_.pieces[p];
      PieceStream stream(program_, piece, *state);
      run_streamed(*pieces_[p], piece.inputs.size(), stream);
      for (const std::size_t v : piece.inputs) state->release(v);
    }
    std::vector<Tensor> outputs;
    for (const plans::LocalPort& port : program_.outputs) outputs.push_back(state->get(port.value));
    thread.join();
    return outputs;
  } catch (...) {
    state->fail(std::current_exception());
    // Others may never send what the thread waits for: they end when this process does.
    if (state->exchanges_end_within(std::chrono::seconds(2)))
      thread.join();
    else
      thread.detach();
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
  return steps;
}

}  // namespace rewright::runtime
