#include "plans/execution/pipeline_program.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"

namespace rewright::plans {

namespace {

std::size_t at(TaskKind kind) { return static_cast<std::size_t>(kind); }

class PipelineProgramMaker {
 public:
  PipelineProgramMaker(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced,
                       std::size_t rank)
      : plan_(plan),
        pipeline_(*plan.pipeline),
        whole_(graph),
        group_(group_of(plan, graph, replaced, 0)),
        graph_(group_.graph),
        replaced_(replaced),
        producers_(graph_.producers()),
        users_(graph_.users()),
        facts_(task_facts(pipeline_, group_, roles_of(group_, plan.purpose == "training"))) {
    program_.rank = rank, program_.micro_batches = static_cast<std::size_t>(plan.processes);
    program_.tasks = pipeline_tasks(pipeline_, group_, facts_);
  }

  PipelineProgram make() {
    find_varying();
    find_values();
    require_one_version_between_stages();
    add_inputs();
    add_outputs();
    for (std::uint32_t s = 0; s < pipeline_.schedule.stages; ++s)
      if (has(s)) add_stage(s);
    return std::move(program_);
  }

 private:
  bool has(std::uint32_t stage) const {
    const auto& list = program_.tasks.processes[stage];
    return std::ranges::find(list, program_.rank) != list.end();
  }

  // Constants of which micro-batches have parts.
  void find_varying() {
    std::vector<GroupGraph> others;
    for (std::size_t i = 1; i < program_.micro_batches; ++i) others.push_back(group_of(plan_, whole_, replaced_, i));
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      if (!graph_.is_constant(v)) continue;
      std::vector<Tensor> tensors{graph_.value(v).constant};
      for (const GroupGraph& other : others) tensors.push_back(other.graph.value(v).constant);
      if (std::ranges::all_of(tensors, [&](const Tensor& t) { return t.bytes().data() == tensors[0].bytes().data(); }))
        continue;
      for (const std::int32_t user : users_[v])
        if (const TaskKind kind = facts_.nodes[static_cast<std::size_t>(user)];
            kind == TaskKind::kBefore || kind == TaskKind::kUpdate || kind == TaskKind::kEnd)
          throw Error(ErrorCode::kUnsupported, "the constant \"" + graph_.value(v).name +
                                                   "\" is cut into micro-batches, and read by what is computed once");
      program_.varying.emplace(v, std::move(tensors));
    }
  }

  void find_values() {
    program_.values.resize(graph_.value_count());
    std::set<ValueId> kept;
    for (const auto& [output, given] : group_.replaced) kept.insert(given);
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      PipelineValue& value = program_.values[v];
      value.name = graph_.value(v).name, value.type = graph_.value(v).type.type;
      if (value.name.empty()) value.name = "value_" + std::to_string(v);
      value.sizes = rewright::values(graph_.value(v).type.shape);
      if (producers_[v] < 0 && !kept.contains(v) && !program_.varying.contains(v)) continue;
      value.stage = producers_[v] < 0 ? pipeline_.given[v] : pipeline_.nodes[static_cast<std::size_t>(producers_[v])];
      if (producers_[v] < 0) {
        value.kind = kept.contains(v) ? ValueKind::kKept : ValueKind::kVarying;
        continue;
      }
      const TaskKind made = facts_.nodes[static_cast<std::size_t>(producers_[v])];
      value.kind = made == TaskKind::kBefore                             ? ValueKind::kOnce
                   : made == TaskKind::kUpdate || made == TaskKind::kEnd ? ValueKind::kAll
                                                                         : ValueKind::kMicroBatch;
    }
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      PipelineValue& value = program_.values[graph_.inputs()[i]];
      value.input = i;
      if (!group_.inputs[i].parts.is_whole()) value.kind = ValueKind::kData;
    }
  }

  // Weights of several versions stay where they are.
  void require_one_version_between_stages() const {
    if (pipeline_.schedule.steps == 1 && program_.tasks.updates == 1) return;
    std::vector<bool> changes(graph_.value_count(), false);
    for (ValueId v = 0; v < graph_.value_count(); ++v) changes[v] = program_.values[v].kind == ValueKind::kKept;
    for (const auto& node : graph_.nodes())
      for (const ValueId v : node->inputs)
        if (v != kNoValue && changes[v])
          for (const ValueId o : node->outputs)
            if (o != kNoValue && program_.values[o].kind == ValueKind::kOnce) changes[o] = true;
    for (const StageSend& s : pipeline_.sends)
      if (s.time == SendTime::kBefore && changes[s.value])
        throw Error(ErrorCode::kUnsupported, "\"" + program_.values[s.value].name +
                                                 "\" is read by two stages, which have different versions of the weights");
  }

  void add_inputs() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      PipelineInput input;
      input.value = graph_.inputs()[i], input.division = group_.inputs[i];
      const PipelineValue& value = program_.values[input.value];
      input.is_kept = value.kind == ValueKind::kKept;
      std::set<std::uint32_t> stages;
      if (input.is_kept) stages.insert(value.stage);
      for (const std::int32_t user : users_[input.value])
        if (!input.is_kept) stages.insert(pipeline_.nodes[static_cast<std::size_t>(user)]);
      std::set<std::uint32_t> used;
      for (const std::uint32_t s : stages) used.insert(program_.tasks.processes[s].begin(), program_.tasks.processes[s].end());
      input.used.assign(used.begin(), used.end());
      program_.inputs.push_back(std::move(input));
    }
  }

  void add_outputs() {
    std::map<ValueId, std::size_t> number;
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) number[graph_.inputs()[i]] = i;
    for (std::size_t o = 0; o < graph_.outputs().size(); ++o) {
      PipelineOutput output;
      output.name = graph_.outputs()[o].name, output.value = graph_.outputs()[o].value;
      const PipelineValue& value = program_.values[output.value];
      if (value.kind != ValueKind::kAll && value.kind != ValueKind::kOnce && value.kind != ValueKind::kKept)
        throw Error(ErrorCode::kUnsupported, "the output \"" + output.name + "\" is not computed of all micro-batches");
      output.stage = value.stage;
      for (const auto& [replacing, given] : group_.replaced)
        if (replacing == o) output.input = number.at(given), output.stage = program_.values[given].stage;
      output.process = program_.tasks.processes[output.stage].front();
      program_.outputs.push_back(std::move(output));
    }
  }

  // ---- A stage

  void add_stage(std::uint32_t s) {
    StageCode& code = program_.stages[s];
    std::array<std::vector<std::size_t>, kTaskKinds> nodes;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (pipeline_.nodes[n] != s) continue;
      const auto exchange = group_.exchanges.find(n);
      if (exchange == group_.exchanges.end())
        nodes[at(facts_.nodes[n])].push_back(n);
      else if (exchange->second.exchange == Exchange::kNone)
        code.slices[at(facts_.nodes[n])].push_back(slice(n, exchange->second));
      else
        code.sums.push_back(sum(n, exchange->second));
    }
    const std::map<ValueId, std::set<TaskKind>> reads = reads_of(s, code);
    for (std::size_t kind = 0; kind < kTaskKinds; ++kind)
      code.pieces[kind] = piece(static_cast<TaskKind>(kind), nodes[kind], reads);
    add_done(s, code, reads);
  }

  StageSlice slice(std::size_t n, const BetweenGroups& exchange) const {
    const Node& node = *graph_.nodes()[n];
    return {node.inputs.at(0), node.outputs.at(0),
            parts_of({exchange.to}, rewright::values(exchange.whole.shape), plan_.processes)};
  }

  StageSum sum(std::size_t n, const BetweenGroups& exchange) const {
    const Node& node = *graph_.nodes()[n];
    StageSum result;
    result.from = node.inputs.at(0), result.to = node.outputs.at(0);
    result.is_added = exchange.exchange == Exchange::kAllReduce;
    result.reduction = exchange.from.reduction;
    result.whole = rewright::values(exchange.whole.shape);
    if (!result.is_added) result.parts = parts_of({exchange.from}, result.whole, plan_.processes);
    if (const std::int32_t maker = producers_[result.from]; maker >= 0)
      result.made = facts_.nodes[static_cast<std::size_t>(maker)];
    if (result.made == TaskKind::kBefore) result.made = TaskKind::kForward;
    return result;
  }

  // The kinds of tasks that read a value in the stage, beyond the one that makes it.
  std::map<ValueId, std::set<TaskKind>> reads_of(std::uint32_t s, const StageCode& code) const {
    std::map<ValueId, std::set<TaskKind>> reads;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n)
      if (pipeline_.nodes[n] == s && !group_.exchanges.contains(n))
        for (const ValueId v : graph_.nodes()[n]->inputs)
          if (v != kNoValue) reads[v].insert(facts_.nodes[n]);
    for (const StageSum& sum : code.sums) reads[sum.from].insert(sum.made);
    for (std::size_t kind = 0; kind < kTaskKinds; ++kind)
      for (const StageSlice& slice : code.slices[kind]) reads[slice.from].insert(static_cast<TaskKind>(kind));
    for (const StageSend& send : pipeline_.sends) {
      if (send.from != s) continue;
      constexpr TaskKind kBehind[] = {TaskKind::kBefore, TaskKind::kForward, TaskKind::kBackward, TaskKind::kUpdate};
      TaskKind kind = kBehind[static_cast<std::size_t>(send.time)];
      if (kind == TaskKind::kUpdate) kind = facts_.nodes[static_cast<std::size_t>(producers_[send.value])];
      reads[send.value].insert(kind);
    }
    for (const PipelineOutput& output : program_.outputs)
      reads[output.value].insert(output.input ? TaskKind::kUpdate : TaskKind::kEnd);
    return reads;
  }

  // Is the value the result of one of these nodes that something beyond the piece reads?
  bool leaves(ValueId v, TaskKind kind, const std::vector<std::size_t>& nodes,
              const std::map<ValueId, std::set<TaskKind>>& reads) const {
    const auto read = reads.find(v);
    if (read == reads.end()) return false;
    if (read->second.size() > 1 || *read->second.begin() != kind) return true;
    // By the piece's own nodes alone?
    for (const StageSend& send : pipeline_.sends)
      if (send.value == v && send.from == pipeline_.nodes[nodes[0]]) return true;
    for (const std::int32_t user : users_[v])
      if (group_.exchanges.contains(static_cast<std::size_t>(user))) return true;
    return std::ranges::any_of(program_.outputs, [&](const PipelineOutput& o) { return o.value == v; });
  }

  StagePiece piece(TaskKind kind, const std::vector<std::size_t>& nodes, const std::map<ValueId, std::set<TaskKind>>& reads) {
    StagePiece result;
    std::map<ValueId, ValueId> here;
    const auto operand = [&](ValueId v) {
      if (v == kNoValue) return kNoValue;
      const auto [found, is_new] = here.try_emplace(v, kNoValue);
      if (!is_new) return found->second;
      const Value& value = graph_.value(v);
      if (graph_.is_constant(v) && !program_.varying.contains(v)) {
        found->second = result.graph.add_constant(value.constant, value.name);
      } else {
        result.inputs.push_back(v);
        found->second = result.graph.add_input(program_.values[v].name, value.type);
      }
      return found->second;
    };
    for (const std::size_t n : nodes) {
      const Node& node = *graph_.nodes()[n];
      std::vector<ValueId> operands;
      for (const ValueId v : node.inputs) operands.push_back(operand(v));
      std::vector<std::string> names;
      for (const ValueId v : node.outputs) names.push_back(v == kNoValue ? "" : graph_.value(v).name);
      const std::vector<ValueId> results = result.graph.add_node(*node.op, node.attributes, std::move(operands), names);
      for (std::size_t o = 0; o < node.outputs.size(); ++o)
        if (node.outputs[o] != kNoValue) here[node.outputs[o]] = results[o];
    }
    for (const std::size_t n : nodes)
      for (const ValueId v : graph_.nodes()[n]->outputs) {
        if (v == kNoValue || !leaves(v, kind, nodes, reads)) continue;
        result.outputs.push_back(v);
        result.graph.add_output(program_.values[v].name, here.at(v));
      }
    return result;
  }

  // Values are dropped behind the last kind of task that reads them; what nothing reads was not kept.
  void add_done(std::uint32_t s, StageCode& code, const std::map<ValueId, std::set<TaskKind>>& reads) const {
    for (const auto& [v, kinds] : reads) {
      const ValueKind kind = program_.values[v].kind;
      if (kind != ValueKind::kMicroBatch && kind != ValueKind::kAll) continue;
      const bool is_output = std::ranges::any_of(
          program_.outputs, [&, v = v](const PipelineOutput& o) { return o.value == v && o.stage == s && !o.input; });
      if (is_output) continue;
      TaskKind last = *kinds.rbegin();
      if (kind == ValueKind::kMicroBatch) last = std::min(last, TaskKind::kWeights);
      code.done[at(last)].push_back(v);
    }
  }

  const Plan& plan_;
  const Pipeline& pipeline_;
  const Graph& whole_;
  const GroupGraph group_;
  const Graph& graph_;
  const std::vector<std::pair<std::size_t, ValueId>>& replaced_;
  const std::vector<std::int32_t> producers_;
  const std::vector<std::vector<std::int32_t>> users_;
  const TaskFacts facts_;
  PipelineProgram program_;
};

}  // namespace

PipelineProgram pipeline_program(const Plan& plan, const Graph& graph,
                                 const std::vector<std::pair<std::size_t, ValueId>>& replaced, std::size_t rank) {
  return PipelineProgramMaker(plan, graph, replaced, rank).make();
}

}  // namespace rewright::plans
