#include "runtime/training/graphs/staged_gradients.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

namespace rewright::training {

StagedGradients::StagedGradients(const Graph& graph, std::size_t sums, const Prepare& prepare)
    : graph_(graph), kept_(graph.value_count()), sums_(sums) {
  for (const auto& node : graph.nodes())
    if (!node->op)
      throw Error(ErrorCode::kUnsupported,
                  "node \"" + (node->origin ? node->origin->name : std::string()) +
                      "\" is not made of operators: the graph cannot be cut for statistics of the whole "
                      "batch");
  const std::size_t inputs = graph.inputs().size() - sums, outputs = graph.outputs().size() - sums;
  for (std::size_t n = 0; n < inputs; ++n) input_of_[graph.inputs()[n]] = n;
  for (std::size_t n = 0; n < sums; ++n) sum_of_[graph.inputs()[inputs + n]] = n;
  for (std::size_t n = 0; n < outputs; ++n) outputs_of_[graph.outputs()[n].value].push_back(n);
  for (std::size_t n = 0; n < sums; ++n) shares_.push_back(graph.outputs()[outputs + n].value);
  cut();
  find_last_uses();
  for (Stage& stage : stages_) stage.session = prepare(stage.part.graph);
}

// Nodes keep their order, so that each value is computed when it is needed and not as early as possible. A stage ends where a
// sum is read that has not been computed.
void StagedGradients::cut() {
  const auto nodes = graph_.nodes();
  std::vector<std::vector<std::size_t>> members(1), summed(1);
  std::vector<bool> made(sums_.size());
  std::vector<std::size_t> stage_of(graph_.value_count());
  std::vector<bool> computed(graph_.value_count());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const bool waits = std::ranges::any_of(nodes[n]->inputs, [&](ValueId v) {
      const auto sum = sum_of_.find(v);
      return sum != sum_of_.end() && !made[sum->second];
    });
    if (waits) {
      for (std::size_t s = 0; s < made.size(); ++s)
        if (!made[s] && computed[shares_[s]]) made[s] = true, summed.back().push_back(s);
      members.emplace_back();
      summed.emplace_back();
    }
    for (const ValueId v : nodes[n]->inputs)
      if (v != kNoValue && computed[v] && stage_of[v] + 1 < members.size()) kept_[v] = true;
    members.back().push_back(n);
    for (const ValueId v : nodes[n]->outputs)
      if (v != kNoValue) stage_of[v] = members.size() - 1, computed[v] = true;
  }
  for (const ValueId share : shares_) kept_[share] = true;
  std::vector<bool> leaves = kept_;
  for (const auto& [value, numbers] : outputs_of_) {
    leaves[value] = true;
    if (numbers.size() > 1) kept_[value] = true;
  }
  for (std::size_t s = 0; s < members.size(); ++s)
    stages_.push_back({part_of(graph_, members[s], leaves), std::move(summed[s]), {}, nullptr});
}

void StagedGradients::find_last_uses() {
  std::set<ValueId> read;
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage)
    for (const auto* list : {&stage->part.inputs, &stage->part.outputs})
      for (const ValueId v : *list)
        if (kept_[v] && read.insert(v).second) stage->not_read_any_more.push_back(v);
}

void StagedGradients::keep(Values& values, ValueId id, Tensor tensor) {
  kept_bytes_ += tensor.byte_count();
  most_kept_bytes_ = std::max(most_kept_bytes_, kept_bytes_);
  values.insert_or_assign(id, std::move(tensor));
}

void StagedGradients::let_go(Values& values, ValueId id) {
  const auto at = values.find(id);
  kept_bytes_ -= at->second.byte_count();
  values.erase(at);
}

namespace {

void write_output(TensorStream& to, std::size_t number, const Tensor& tensor) {
  const std::span<std::byte> memory = to.output(number);
  if (!memory.empty()) std::memcpy(memory.data(), tensor.bytes().data(), memory.size());
  to.finished(number);
}

}  // namespace

// One stage of one shard.
struct StagedGradients::Stream final : TensorStream {
  StagedGradients& owner;
  const Part& part;
  TensorStream& whole;
  Values& values;

  Stream(StagedGradients& o, const Part& p, TensorStream& w, Values& v) : owner(o), part(p), whole(w), values(v) {}

  Tensor input(std::size_t number) override {
    const ValueId id = part.inputs[number];
    if (const auto sum = owner.sum_of_.find(id); sum != owner.sum_of_.end()) return owner.sums_[sum->second];
    if (const auto given = owner.input_of_.find(id); given != owner.input_of_.end()) return whole.input(given->second);
    return values.at(id);
  }
  std::span<std::byte> output(std::size_t number) override {
    const ValueId id = part.outputs[number];
    if (!owner.kept_[id]) return whole.output(owner.outputs_of_.at(id)[0]);
    const TensorType& type = owner.graph_.value(id).type;
    Tensor tensor(type.type, rewright::values(type.shape));
    const std::span<std::byte> memory = tensor.mutable_bytes();
    owner.keep(values, id, std::move(tensor));
    return memory;
  }
  void finished(std::size_t number) override {
    const ValueId id = part.outputs[number];
    const auto outputs = owner.outputs_of_.find(id);
    if (outputs == owner.outputs_of_.end()) return;
    if (!owner.kept_[id]) return whole.finished(outputs->second[0]);
    for (const std::size_t o : outputs->second) write_output(whole, o, values.at(id));
  }
};

void StagedGradients::run(std::span<TensorStream* const> shards, const AddUp& how) {
  std::vector<Values> values(shards.size());
  kept_bytes_ = 0;
  for (Stage& stage : stages_) {
    for (std::size_t k = 0; k < shards.size(); ++k) {
      Stream stream(*this, stage.part, *shards[k], values[k]);
      run_streamed(*stage.session, stage.part.inputs.size(), stream);
    }
    add_up(stage, values, how);
    for (Values& of_shard : values)
      for (const ValueId id : stage.not_read_any_more) let_go(of_shard, id);
  }
  for (TensorStream* const shard : shards) hand_over_leaves(*shard);
}

void StagedGradients::add_up(const Stage& stage, std::vector<Values>& values, const AddUp& how) {
  for (const std::size_t s : stage.summed) {
    std::vector<Tensor> shares;
    std::vector<std::span<std::byte>> bytes;
    for (const Values& of_shard : values) {
      const Tensor& share = of_shard.at(shares_[s]);
      shares.emplace_back(share.type(), share.sizes());
      bytes.push_back(shares.back().mutable_bytes());
      std::ranges::copy(share.bytes(), bytes.back().begin());
    }
    how(bytes, shares[0].type());
    sums_[s] = std::move(shares[0]);
  }
}

// Delivers outputs that no node computes.
void StagedGradients::hand_over_leaves(TensorStream& shard) {
  const std::vector<std::int32_t> producers = graph_.producers();
  for (const auto& [value, numbers] : outputs_of_)
    for (const std::size_t o : numbers) {
      if (producers[value] >= 0) continue;
      const auto sum = sum_of_.find(value);
      write_output(shard, o,
                   graph_.is_constant(value) ? graph_.value(value).constant
                   : sum != sum_of_.end()    ? sums_[sum->second]
                                             : shard.input(input_of_.at(value)));
    }
}

std::size_t StagedGradients::peak_bytes() const {
  std::size_t most = 0;
  for (const Stage& stage : stages_) most = std::max(most, stage.session->peak_bytes());
  return most + most_kept_bytes_;
}

std::vector<StepProfile> StagedGradients::profile() const {
  std::vector<StepProfile> all;
  for (const Stage& stage : stages_)
    for (StepProfile& step : stage.session->profile()) all.push_back(std::move(step));
  return all;
}

}  // namespace rewright::training
