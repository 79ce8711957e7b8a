#include "runtime/planned/pipeline_run.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "distribution/background_messages.h"
#include "distribution/tensor_exchange.h"
#include "runtime/mixed.h"
#include "runtime/training/memory/step_memory.h"

namespace rewright::runtime {

namespace {

using distribution::BackgroundMessages, distribution::Communicator;
using plans::kTaskKinds, plans::PipelineProgram, plans::StageMessage, plans::StageSum, plans::StageTask, plans::TaskKind,
    plans::ValueKind;

using Tensors = std::map<ValueId, Tensor>;
using Versions = std::map<int, Tensors>;  // of a stage's weights, by updates since the beginning of the step

// Messages beyond the one that a task waits for, for which there is memory already: so a sender seldom waits for a receiver.
constexpr std::size_t kAhead = 3;

std::size_t at(TaskKind kind) { return static_cast<std::size_t>(kind); }
bool is_pass(TaskKind kind) { return kind == TaskKind::kForward || kind == TaskKind::kBackward || kind == TaskKind::kWeights; }

// Messages from one process, in the order in which they come.
struct Inbox {
  std::size_t from = 0;
  std::vector<StageMessage> expected;
  std::vector<std::size_t> numbers;  // of those that receiving began for
};

// A value of all micro-batches that enter one update: those of this process.
struct SumState {
  std::vector<std::uint32_t> order;       // micro-batches
  std::size_t added = 0;                  // of them
  std::map<std::uint32_t, Tensor> parts;  // not added yet; of what is put together all
  Tensor total;
};

// A stage's sessions, by kind of task.
struct PreparedStage {
  std::array<std::unique_ptr<Session>, kTaskKinds> sessions;
  std::set<ValueId> read;  // weights that passes read, of which there are versions
  int oldest = 0;          // the oldest version that a step reads, from its beginning
  bool ends_read = false;  // do tasks at the end read weights as they were before an update?
};
using PreparedStages = std::map<std::uint32_t, PreparedStage>;

}  // namespace

struct PipelineRun::Prepared {
  PreparedStages stages;
};

// State that one run leaves to the next.
struct PipelineRun::History {
  std::size_t steps = 0;
  std::map<std::uint32_t, Versions> versions;
};

namespace {

// One step.
class StepOfPipeline {
 public:
  StepOfPipeline(const PipelineProgram& program, const plans::ProcessTasks& mine, std::size_t pattern,
                 const PreparedStages& prepared, Communicator& processes)
      : program_(program), mine_(mine), prepared_(prepared), messages_(processes) {
    const auto& all = program.tasks.steps[pattern];
    for (std::size_t q = 0; q < all.size(); ++q) {
      if (q == program.rank) continue;
      Inbox inbox;
      inbox.from = q;
      for (const auto& sends : all[q].sends)
        for (const StageMessage& m : sends)
          if (m.to == program.rank) inbox.expected.push_back(m);
      if (!inbox.expected.empty()) inboxes_.push_back(std::move(inbox));
    }
    for (std::size_t box = 0; box < inboxes_.size(); ++box)
      for (std::size_t k = 0; k < inboxes_[box].expected.size(); ++k) {
        const StageMessage& m = inboxes_[box].expected[k];
        awaited_[{m.reader, m.stage, m.number}].emplace_back(box, k);
      }
    for (const StageTask& t : mine.tasks)
      if (is_pass(t.kind)) ++readers_[{t.stage, t.version}];
    find_orders();
  }

  std::vector<std::vector<Tensor>> run(std::vector<Tensor> inputs, std::map<std::uint32_t, Versions> versions) {
    inputs_ = std::move(inputs);
    versions_ = std::move(versions);
    for (const auto& [stage, code] : program_.stages) versions_[stage][0] = {};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const plans::PipelineInput& input = program_.inputs[i];
      const std::uint32_t stage = program_.values[input.value].stage;
      if (input.is_kept && program_.stages.contains(stage)) versions_[stage][0][input.value] = std::move(inputs_[i]);
    }
    for (std::size_t t = 0; t < mine_.tasks.size(); ++t) {
      const StageTask& task = mine_.tasks[t];
      receive(task);
      execute(task);
      for (const StageMessage& m : mine_.sends[t]) send(task, m);
      drop(task);
    }
    messages_.finish();
    return results();
  }

  // The versions of weights that later steps read, as of the beginning of the next one.
  std::map<std::uint32_t, Versions> left() const {
    std::map<std::uint32_t, Versions> result;
    const int updates = static_cast<int>(program_.tasks.updates);
    for (const auto& [stage, versions] : versions_)
      for (const auto& [version, tensors] : versions)
        if (version < updates && version - updates >= prepared_.at(stage).oldest)
          result[stage][version - updates] = of_passes(stage, tensors);
    return result;
  }

 private:
  // ---- Sums of micro-batches

  void find_orders() {
    std::map<std::uint32_t, std::uint32_t> update;  // the next one, by stage
    const TaskKind last = last_pass();
    for (const StageTask& t : mine_.tasks) {
      if (t.kind == TaskKind::kUpdate) ++update[t.stage];
      if (t.kind != last) continue;
      update_of_[{t.stage, t.number}] = update[t.stage];
      for (std::size_t s = 0; s < program_.stages.at(t.stage).sums.size(); ++s)
        sums_[{t.stage, update[t.stage], s}].order.push_back(t.number);
    }
    for (auto& [key, sum] : sums_) std::ranges::sort(sum.order);
  }

  TaskKind last_pass() const {
    TaskKind last = TaskKind::kForward;
    for (const StageTask& t : mine_.tasks)
      if (is_pass(t.kind)) last = std::max(last, t.kind);
    return last;
  }

  void add_up(const StageTask& task) {
    const auto& sums = program_.stages.at(task.stage).sums;
    for (std::size_t s = 0; s < sums.size(); ++s) {
      if (sums[s].made != task.kind) continue;
      SumState& state = sums_.at({task.stage, update_of_.at({task.stage, task.number}), s});
      state.parts[task.number] = get(task, sums[s].from);
      while (sums[s].is_added && state.added < state.order.size()) {
        const auto next = state.parts.find(state.order[state.added]);
        if (next == state.parts.end()) break;
        if (state.added == 0)
          state.total = state.order.size() > 1 ? training::copy_of(next->second) : next->second;
        else
          distribution::combine_into(state.total, next->second, sums[s].reduction);
        state.parts.erase(next);
        ++state.added;
      }
    }
  }

  // The sums of an update over all processes that have the stage, in their order.
  void complete_sums(const StageTask& task) {
    const auto& sums = program_.stages.at(task.stage).sums;
    for (std::size_t s = 0; s < sums.size(); ++s) {
      SumState& mine = sums_.at({task.stage, task.number, s});
      auto shares = shares_.extract({task.stage, task.number, sums[s].to});
      Tensor& result = all_[{task.stage, task.number}][sums[s].to];
      if (!sums[s].is_added) {
        std::vector<Tensor> parts(program_.micro_batches);
        for (auto& [i, part] : mine.parts) parts[i] = std::move(part);
        if (shares)
          for (auto& [from, tensor] : shares.mapped()) parts[from.second] = std::move(tensor);
        result = distribution::put_together(parts, sums[s].whole, sums[s].parts);
        continue;
      }
      if (!shares) {
        result = std::move(mine.total);
        continue;
      }
      shares.mapped()[{program_.rank, 0}] = std::move(mine.total);
      for (auto& [from, tensor] : shares.mapped())
        if (!result)
          result = training::copy_of(tensor);
        else
          distribution::combine_into(result, tensor, sums[s].reduction);
    }
    std::erase_if(sums_,
                  [&](const auto& e) { return std::get<0>(e.first) == task.stage && std::get<1>(e.first) == task.number; });
  }

  // ---- Messages

  void receive(const StageTask& task) {
    const auto waiting = awaited_.find({task.kind, task.stage, task.number});
    if (waiting != awaited_.end()) {
      for (const auto& [box, k] : waiting->second) begin_receiving(inboxes_[box], k + 1 + kAhead);
      for (const auto& [box, k] : waiting->second) {
        const Inbox& inbox = inboxes_[box];
        deliver(inbox.expected[k], inbox.from, messages_.wait(inbox.numbers[k]));
      }
    }
  }

  void begin_receiving(Inbox& inbox, std::size_t count) {
    while (inbox.numbers.size() < std::min(count, inbox.expected.size())) {
      const StageMessage& m = inbox.expected[inbox.numbers.size()];
      const plans::PipelineValue& value = program_.values[m.value];
      Sizes sizes = value.sizes;
      if (m.is_share)
        for (const StageSum& sum : program_.stages.at(m.stage).sums)
          if (sum.to == m.value && !sum.is_added) sizes = distribution::part_sizes(sum.whole, sum.parts, m.micro_batch);
      inbox.numbers.push_back(messages_.receive(inbox.from, value.type, std::move(sizes)));
    }
  }

  void deliver(const StageMessage& m, std::size_t from, Tensor tensor) {
    if (m.is_share)
      shares_[{m.stage, m.number, m.value}][{from, m.micro_batch}] = std::move(tensor);
    else if (m.reader == TaskKind::kBefore)
      received_[m.stage][m.value] = std::move(tensor);
    else if (is_pass(m.reader))
      micro_batches_[{m.stage, m.number}][m.value] = std::move(tensor);
    else
      all_[{m.stage, m.number}][m.value] = std::move(tensor);
  }

  void send(const StageTask& task, const StageMessage& m) {
    Tensor tensor = m.is_share ? share(m) : get(task, m.value);
    if (m.to == program_.rank)
      deliver(m, program_.rank, std::move(tensor));
    else
      messages_.send(m.to, std::move(tensor));
  }

  Tensor share(const StageMessage& m) {
    const auto& sums = program_.stages.at(m.stage).sums;
    for (std::size_t s = 0; s < sums.size(); ++s) {
      if (sums[s].to != m.value) continue;
      const SumState& state = sums_.at({m.stage, m.number, s});
      return sums[s].is_added ? state.total : state.parts.at(m.micro_batch);
    }
    throw Error(ErrorCode::kBadInput, "a process shares what it does not have");
  }

  // ---- Computing

  void execute(const StageTask& task) {
    const plans::StageCode& code = program_.stages.at(task.stage);
    if (task.kind == TaskKind::kBefore) {
      if (task.number > 0) once(task.stage, 0);
      return;
    }
    if (task.kind == TaskKind::kUpdate) complete_sums(task);
    for (const plans::StageSlice& slice : code.slices[at(task.kind)])
      micro_batches_[{task.stage, task.number}][slice.to] =
          distribution::part_of(get(task, slice.from), slice.parts, task.number);
    compute(task, is_pass(task.kind) ? micro_batches_[{task.stage, task.number}] : all_[{task.stage, task.number}]);
    if (is_pass(task.kind)) add_up(task);
    if (task.kind == TaskKind::kUpdate) replace_weights(task);
  }

  void compute(const StageTask& task, Tensors& into) {
    const plans::StagePiece& piece = program_.stages.at(task.stage).pieces[at(task.kind)];
    if (piece.outputs.empty()) return;
    std::vector<Tensor> given;
    for (const ValueId v : piece.inputs) given.push_back(get(task, v));
    std::vector<Tensor> results = prepared_.at(task.stage).sessions[at(task.kind)]->run(given);
    for (std::size_t o = 0; o < results.size(); ++o) into[piece.outputs[o]] = std::move(results[o]);
  }

  // Values that are computed once of a version of the weights.
  Tensors& once(std::uint32_t stage, int version) {
    const auto [found, is_new] = once_.try_emplace({stage, version});
    if (is_new) compute({TaskKind::kBefore, stage, 0, version}, found->second);
    return found->second;
  }

  // A value as a task reads it.
  Tensor get(const StageTask& task, ValueId v) {
    const plans::PipelineValue& value = program_.values[v];
    const bool is_here = value.stage == task.stage;
    const int version = is_pass(task.kind) || task.kind == TaskKind::kBefore ? task.version : static_cast<int>(task.number);
    switch (value.kind) {
      case ValueKind::kGiven:
        return inputs_.at(value.input);
      case ValueKind::kData:
        return distribution::part_of(inputs_.at(value.input), program_.inputs[value.input].division.parts, task.number);
      case ValueKind::kVarying:
        return program_.varying.at(v).at(task.number);
      case ValueKind::kKept:
        return is_here ? versions_.at(task.stage).at(version).at(v) : received_.at(task.stage).at(v);
      case ValueKind::kOnce:
        return is_here ? once(task.stage, version).at(v) : received_.at(task.stage).at(v);
      case ValueKind::kMicroBatch:
        return micro_batches_.at({task.stage, task.number}).at(v);
      case ValueKind::kAll:
        return all_.at({task.stage, task.number}).at(v);
    }
    return {};
  }

  void replace_weights(const StageTask& task) {
    Versions& versions = versions_.at(task.stage);
    const int old = static_cast<int>(task.number);
    Tensors next = versions.at(old);
    for (const plans::PipelineOutput& o : program_.outputs)
      if (o.input && o.stage == task.stage) next[program_.inputs[*o.input].value] = get(task, o.value);
    versions.at(old) = of_passes(task.stage, versions.at(old));
    versions[old + 1] = std::move(next);
  }

  Tensors of_passes(std::uint32_t stage, const Tensors& tensors) const {
    Tensors result;
    for (const ValueId v : prepared_.at(stage).read)
      if (const auto found = tensors.find(v); found != tensors.end()) result.insert(*found);
    return result;
  }

  // Drops what nothing reads any more.
  void drop(const StageTask& task) {
    if (task.kind != TaskKind::kBefore) {
      auto& values = is_pass(task.kind) ? micro_batches_ : all_;
      const auto here = values.find({task.stage, task.number});
      for (const ValueId v : program_.stages.at(task.stage).done[at(task.kind)])
        if (here != values.end()) here->second.erase(v);
    }
    if (is_pass(task.kind)) --readers_.at({task.stage, task.version});
    if (task.kind != TaskKind::kUpdate && !is_pass(task.kind)) return;
    const PreparedStage& stage = prepared_.at(task.stage);
    if (stage.ends_read) return;
    Versions& versions = versions_.at(task.stage);
    const int newest = versions.rbegin()->first, kept = static_cast<int>(program_.tasks.updates) + stage.oldest;
    std::erase_if(versions, [&](const auto& v) {
      const auto readers = readers_.find({task.stage, v.first});
      const bool is_read = readers != readers_.end() && readers->second > 0;
      if (v.first == newest || v.first >= kept || is_read) return false;
      once_.erase({task.stage, v.first});
      return true;
    });
  }

  std::vector<std::vector<Tensor>> results() {
    std::vector<std::vector<Tensor>> result(program_.tasks.updates, std::vector<Tensor>(program_.outputs.size()));
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      const plans::PipelineOutput& output = program_.outputs[o];
      if (!program_.stages.contains(output.stage)) continue;
      if (output.input) {
        result.back()[o] = versions_.at(output.stage).rbegin()->second.at(program_.inputs[*output.input].value);
        continue;
      }
      for (std::uint32_t n = 0; n < result.size(); ++n) result[n][o] = get({TaskKind::kEnd, output.stage, n, 0}, output.value);
    }
    return result;
  }

  const PipelineProgram& program_;
  const plans::ProcessTasks& mine_;
  const PreparedStages& prepared_;
  std::vector<Inbox> inboxes_;
  std::map<std::tuple<TaskKind, std::uint32_t, std::uint32_t>, std::vector<std::pair<std::size_t, std::size_t>>> awaited_;
  std::map<std::pair<std::uint32_t, int>, std::size_t> readers_;                    // passes to come, by stage and version
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> update_of_;      // by stage and micro-batch
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, SumState> sums_;  // by stage, update and number
  // By stage, update and value; then by process and micro-batch.
  std::map<std::tuple<std::uint32_t, std::uint32_t, ValueId>, std::map<std::pair<std::size_t, std::uint32_t>, Tensor>> shares_;
  std::vector<Tensor> inputs_;
  std::map<std::uint32_t, Versions> versions_;
  std::map<std::pair<std::uint32_t, int>, Tensors> once_;
  std::map<std::uint32_t, Tensors> received_;                                       // of weights and what is computed once
  std::map<std::pair<std::uint32_t, std::uint32_t>, Tensors> micro_batches_, all_;  // by stage, and micro-batch or update
  BackgroundMessages messages_;                                                     // the last member: it sends others' tensors
};

}  // namespace

PipelineRun::PipelineRun(PipelineProgram program, Communicator& processes, const Backend& backend,
                         const SessionOptions& options)
    : program_(std::move(program)),
      processes_(processes),
      prepared_(std::make_unique<Prepared>()),
      history_(std::make_unique<History>()),
      before_(std::make_unique<History>()) {
  for (auto& [stage, code] : program_.stages) {
    PreparedStage& prepared = prepared_->stages[stage];
    for (std::size_t kind = 0; kind < kTaskKinds; ++kind) {
      plans::StagePiece& piece = code.pieces[kind];
      if (!piece.outputs.empty()) prepared.sessions[kind] = prepare_session(backend, piece.graph, options);
      piece.graph = {};  // the session has what it needs of the constants
      for (const ValueId v : piece.inputs) {
        const ValueKind of = program_.values[v].kind;
        if (kind <= at(TaskKind::kWeights) && of == ValueKind::kKept) prepared.read.insert(v);
        prepared.ends_read |= kind == at(TaskKind::kEnd) && (of == ValueKind::kKept || of == ValueKind::kOnce);
      }
    }
    for (const auto& step : program_.tasks.steps)
      for (const StageTask& t : step[program_.rank].tasks)
        if (t.stage == stage) prepared.oldest = std::min(prepared.oldest, t.version);
  }
}
PipelineRun::~PipelineRun() = default;

std::vector<std::vector<Tensor>> PipelineRun::run(std::vector<Tensor> inputs) {
  const std::size_t pattern = std::min(history_->steps, program_.tasks.steps.size() - 1);
  StepOfPipeline step(program_, program_.tasks.steps[pattern][program_.rank], pattern, prepared_->stages, processes_);
  std::vector<std::vector<Tensor>> results = step.run(std::move(inputs), history_->versions);
  before_ = std::make_unique<History>(History{history_->steps + 1, step.left()});
  std::swap(before_, history_);
  return results;
}

void PipelineRun::take_back() { std::swap(before_, history_); }
void PipelineRun::begin_anew() { history_ = std::make_unique<History>(); }

bool PipelineRun::needs(std::size_t input) const {
  const auto& used = program_.inputs[input].used;
  return std::ranges::find(used, program_.rank) != used.end();
}

// In the processes `to` the tensor that process `from` has; in others what they have.
Tensor PipelineRun::passed_on(const Tensor& tensor, std::size_t from, const std::vector<std::size_t>& to, DataType type,
                              const Sizes& sizes) {
  const std::size_t me = program_.rank;
  if (me == from) {
    std::vector<distribution::Outgoing> sent;
    for (const std::size_t p : to)
      if (p != me) sent.push_back({p, tensor.bytes()});
    processes_.exchange(sent, {});
  } else if (std::ranges::find(to, me) != to.end()) {
    Tensor result(type, sizes);
    const distribution::Incoming in{from, result.size() > 0 ? result.mutable_bytes() : std::span<std::byte>()};
    processes_.exchange({}, {&in, 1});
    return result;
  }
  return tensor;
}

std::vector<Tensor> PipelineRun::scatter(std::vector<Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const plans::PipelineInput& input = program_.inputs[i];
    inputs[i] = passed_on(inputs[i], 0, {input.used.begin(), input.used.end()}, program_.values[input.value].type,
                          input.division.whole);
    if (!needs(i)) inputs[i] = {};
  }
  return inputs;
}

std::vector<Tensor> PipelineRun::gather_in_first(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> result;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const plans::PipelineOutput& output = program_.outputs[o];
    const plans::PipelineValue& value = program_.values[output.value];
    result.push_back(passed_on(outputs[o], output.process, {0}, value.type, value.sizes));
    if (program_.rank != 0) result.back() = {};
  }
  return result;
}

Tensor PipelineRun::gather(std::size_t number, const Tensor& mine, bool in_first) {
  const plans::PipelineInput& input = program_.inputs[number];
  std::vector<std::size_t> to;
  for (std::size_t p = 0; p < processes_.size(); ++p)
    if ((!in_first || p == 0) && std::ranges::find(input.used, p) == input.used.end()) to.push_back(p);
  const Tensor result = passed_on(mine, input.used.at(0), to, program_.values[input.value].type, input.division.whole);
  return in_first && program_.rank != 0 ? Tensor() : result;
}

std::size_t PipelineRun::peak_bytes() const {
  std::size_t most = 0;
  for (const auto& [stage, prepared] : prepared_->stages)
    for (const auto& session : prepared.sessions)
      if (session) most = std::max(most, session->peak_bytes());
  return most;
}

std::vector<StepProfile> PipelineRun::profile() const {
  std::vector<StepProfile> steps;
  for (const auto& [stage, prepared] : prepared_->stages)
    for (const auto& session : prepared.sessions) {
      if (!session) continue;
      const std::vector<StepProfile> more = session->profile();
      steps.insert(steps.end(), more.begin(), more.end());
    }
  return steps;
}

}  // namespace rewright::runtime
