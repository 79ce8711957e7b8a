#include "optimizer/saturation/costs.h"

#include <algorithm>

namespace rewright::optimizer {

namespace {

// All live e-nodes side by side in one graph: each reads placeholders for its input classes, and nothing reads its results.
struct SideBySide {
  Graph graph;
  std::vector<ENodeId> nodes;
  std::vector<bool> constant;  // of values

  explicit SideBySide(const EGraph& e) {
    std::vector<ValueId> values(e.value_count(), kNoValue);
    for (ENodeId id = 0; id < e.node_count(); ++id) {
      const ValueId leaf = e.node(id).leaf;
      if (leaf == kNoValue) continue;
      const ClassId made = e.find(e.outputs(id)[0]);
      if (values[made] == kNoValue || e.graph().is_constant(leaf)) values[made] = graph.add_value(e.graph().value(leaf));
    }
    const auto new_value = [&](ClassId id) {
      Value value;
      value.type = e.type_of(e.type(id));
      value.shape_known = e.known(e.type(id));
      return graph.add_value(std::move(value));
    };
    const auto value_of = [&](ClassId id) {
      if (id == kNoClass) return kNoValue;
      ValueId& value = values[e.find(id)];
      if (value == kNoValue) value = new_value(id);
      return value;
    };
    for (ENodeId id = 0; id < e.node_count(); ++id) {
      const ENode& node = e.node(id);
      if (!node.live || node.leaf != kNoValue) continue;
      Node made;
      if (node.position >= 0) made = *e.graph().nodes()[static_cast<std::size_t>(node.position)];
      made.op = node.op;
      made.attributes = e.attributes(node.attributes);
      made.inputs.clear();
      made.parameters.clear();
      made.outputs.clear();
      for (const ClassId input : e.inputs(id)) made.inputs.push_back(value_of(input));
      for (const ClassId output : e.outputs(id)) made.outputs.push_back(output == kNoClass ? kNoValue : new_value(output));
      graph.add_raw(std::move(made));
      nodes.push_back(id);
    }
    constant.assign(graph.value_count(), false);
    for (ClassId id = 0; id < e.value_count(); ++id)
      if (e.find(id) == id && values[id] != kNoValue) constant[values[id]] = e.constant(id);
  }
};

// Moving elements is free if all e-nodes that might read the result take strides: then it is free in every choice.
void free_passed(const EGraph& e, const std::vector<const NodeCost*>& of, CostModel& costs, ExtractionProblem& problem) {
  if (costs.strided_reads() == StridedReads::kNone) return;
  std::vector<bool> is_output(e.value_count()), passed(e.node_count());
  for (const GraphOutput& output : e.graph().outputs()) is_output[e.find(e.value_of(output.value))] = true;
  const auto takes_strides = [&](ENodeId reader, ClassId value) {
    if (!of[reader]) return false;
    if (of[reader]->free) return static_cast<bool>(passed[reader]);
    const std::span<const ClassId> inputs = e.inputs(reader);
    bool reads = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == kNoClass || e.find(inputs[i]) != value) continue;
      reads = true;
      if (!of[reader]->moves && !of[reader]->strided[i]) return false;
    }
    return reads;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (ENodeId id = 0; id < e.node_count(); ++id) {
      if (passed[id] || !of[id] || !(of[id]->moves || of[id]->free)) continue;
      const std::span<const ClassId> outputs = e.outputs(id);
      passed[id] = std::all_of(outputs.begin(), outputs.end(), [&](ClassId output) {
        if (output == kNoClass) return true;
        const ClassId value = e.find(output);
        const auto readers = e.users(value);
        return !is_output[value] &&
               std::all_of(readers.begin(), readers.end(), [&](ENodeId reader) { return takes_strides(reader, value); });
      });
      if (!passed[id]) continue;
      changed = true;
      problem.seconds[id] = costs.least();
    }
  }
}

// A pointwise e-node fused into the contraction whose result only it reads, directly or through others.
struct Join {
  ENodeId above, below;
  std::uint32_t saving;
};

// All joins, each with its saving in the problem. `of`: known costs of e-nodes, null for unusable ones.
std::vector<Join> add_joins(const EGraph& e, const std::vector<const NodeCost*>& of, ExtractionProblem& problem) {
  std::vector<Join> joins;
  const auto makes = [&](ENodeId id, ClassId value) {
    return id < of.size() && of[id] && e.node(id).outputs > 0 && e.outputs(id)[0] != kNoClass &&
           e.equal(e.outputs(id)[0], value);
  };
  for (ENodeId id = 0; id < e.node_count(); ++id) {
    if (!of[id] || !of[id]->pointwise || of[id]->executed <= 0) continue;
    std::vector<ClassId> varying;
    const std::span<const ClassId> inputs = e.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] != kNoClass && of[id]->aligned[i] && !e.constant(inputs[i])) varying.push_back(e.find(inputs[i]));
    const double share = varying.size() > 1 ? CostModel::fused_share() : 0;
    std::sort(varying.begin(), varying.end());
    varying.erase(std::unique(varying.begin(), varying.end()), varying.end());
    for (const ClassId input : varying) {
      for (const ENodeId below : e.makers(input)) {
        if (below == id || !makes(below, input) || !(of[below]->contraction || of[below]->pointwise)) continue;
        joins.push_back({id, below, static_cast<std::uint32_t>(problem.savings.size())});
        problem.savings.push_back({{below, id}, {id}, {input}, {}, (1 - share) * of[id]->executed});
      }
    }
  }
  std::vector<std::vector<std::uint32_t>> joined(e.node_count());  // savings by which an e-node is fused
  for (const Join& join : joins) joined[join.above].push_back(join.saving);
  for (const Join& join : joins)
    if (!of[join.below]->contraction) problem.savings[join.saving].one_of = joined[join.below];
  return joins;
}

// A pointwise e-node that cannot be fused itself cannot be a link in a chain: drops such savings. So far only joins have
// savings.
void leave_out_impossible(const std::vector<Join>& joins, const std::vector<const NodeCost*>& of, ExtractionProblem& problem) {
  std::vector<Saving> kept;
  std::vector<std::uint32_t> renumbered(problem.savings.size());
  std::vector<bool> possible(problem.savings.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (const Join& join : joins) {
      if (possible[join.saving]) continue;
      const std::vector<std::uint32_t>& others = problem.savings[join.saving].one_of;
      if (!of[join.below]->contraction &&
          std::none_of(others.begin(), others.end(), [&](std::uint32_t other) { return possible[other]; }))
        continue;
      possible[join.saving] = changed = true;
    }
  }
  for (std::size_t s = 0; s < possible.size(); ++s) {
    renumbered[s] = static_cast<std::uint32_t>(kept.size());
    if (possible[s]) kept.push_back(std::move(problem.savings[s]));
  }
  for (Saving& saving : kept) {
    std::erase_if(saving.one_of, [&](std::uint32_t other) { return !possible[other]; });
    for (std::uint32_t& other : saving.one_of) other = renumbered[other];
  }
  problem.savings = std::move(kept);
}

// Groups of the original graph that cost less together than apart.
void add_groups(const EGraph& e, CostModel& costs, bool for_training, ExtractionProblem& problem) {
  const MatchedGraph given(e.graph(), for_training);
  for (const auto& [positions, seconds] : costs.groups(given)) {
    Saving saving;
    double apart = 0;
    for (const std::uint32_t position : positions) {
      const ENodeId id = e.live(*e.node_at(static_cast<std::int32_t>(position)));
      saving.nodes.push_back(id);
      apart += problem.seconds[id];
    }
    saving.spent = saving.nodes;
    for (std::size_t i = 0; i + 1 < saving.nodes.size(); ++i) saving.inner.push_back(e.outputs(saving.nodes[i])[0]);
    saving.seconds = apart - seconds;
    if (saving.seconds > 0) problem.savings.push_back(std::move(saving));
  }
}

}  // namespace

ExtractionProblem make_problem(const EGraph& e, CostModel& costs, bool for_training) {
  SideBySide side(e);
  MatchedGraph facts(side.graph, for_training);
  facts.constant = side.constant;
  const std::vector<NodeCost> found = costs.alone(facts);
  ExtractionProblem problem;
  problem.graph = &e;
  problem.seconds.assign(e.node_count(), 0);
  std::vector<const NodeCost*> of(e.node_count());
  for (std::size_t i = 0; i < found.size(); ++i) {
    problem.seconds[side.nodes[i]] = found[i].seconds;
    of[side.nodes[i]] = &found[i];
  }
  free_passed(e, of, costs, problem);
  leave_out_impossible(add_joins(e, of, problem), of, problem);
  add_groups(e, costs, for_training, problem);
  return problem;
}

}  // namespace rewright::optimizer
