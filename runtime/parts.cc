#include "runtime/parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "graph/sizes.h"

namespace rewright::runtime {

namespace {

class Cutter {
 public:
  explicit Cutter(const Graph& graph) : graph_(graph) {}

  std::vector<Stage> run() {
    find_stages();
    repeat_constants();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      if (!compiled_[i]) stages_[stage_of_node_[i]].interpreted.push_back(i);
    for (std::size_t s = 0; s < stages_.size(); ++s)
      stages_[s].part = part_of(graph_, std::vector(members_[s].begin(), members_[s].end()), leaves_of(s));
    return std::move(stages_);
  }

 private:
  // Results of an interpreted node are available to compiled nodes one stage later, and to other interpreted nodes at once.
  void find_stages() {
    for (const auto& node : graph_.nodes()) compiled_.push_back(is_compiled(graph_, *node));
    std::vector<std::size_t> ready(graph_.value_count(), 0), interpreted(graph_.value_count(), 0);
    stage_of_node_.resize(graph_.nodes().size());
    members_.resize(1);
    std::map<std::string, std::size_t> known;  // the stage in which a named size is known
    for (const ValueId id : graph_.inputs())
      for (const std::string& symbol : symbols_of(graph_.value(id).type.shape)) known.emplace(symbol, 0);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = *graph_.nodes()[i];
      std::size_t stage = 0;
      for (const ValueId id : node.inputs)
        if (id != kNoValue) stage = std::max(stage, ready[id] + (compiled_[i] ? interpreted[id] : 0));
      for (const std::string& symbol : symbols_of(node.attributes))
        if (const auto at = known.find(symbol); at != known.end()) stage = std::max(stage, at->second);
      for (const ValueId id : node.outputs) {
        if (id == kNoValue) continue;
        ready[id] = stage;
        interpreted[id] = !compiled_[i];
        if (!compiled_[i])
          for (const std::string& symbol : symbols_of(graph_.value(id).type.shape)) known.emplace(symbol, stage + 1);
      }
      stage_of_node_[i] = stage;
      if (members_.size() <= stage) members_.resize(stage + 1);
      if (compiled_[i]) members_[stage].insert(i);
    }
    stages_.resize(members_.size());
    find_constants();
    // Marks values needed outside of the stage that computes them, or by an interpreted node.
    leaves_.resize(graph_.value_count());
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      for (const ValueId id : graph_.nodes()[i]->inputs)
        if (id != kNoValue && (!compiled_[i] || (stage_of_node_[i] != ready[id] && constant_producer_[id] < 0)))
          leaves_[id] = true;
    for (const GraphOutput& output : graph_.outputs()) leaves_[output.value] = true;
  }

  void find_constants() {
    const std::vector<bool> constant = graph_.constant_values();
    constant_producer_.assign(graph_.value_count(), -1);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      for (const ValueId id : graph_.nodes()[i]->outputs)
        if (id != kNoValue && constant[id] && compiled_[i]) constant_producer_[id] = static_cast<std::int32_t>(i);
  }

  // Weights that are computed from constants, or that an Identity hands on to several layers, have to be constants of each part
  // that reads them: kernels pack constant weights once. So the nodes that compute them are in each of these parts, and only
  // there.
  void repeat_constants() {
    const auto is_needed_elsewhere = [&](std::size_t i) {
      const std::vector<ValueId>& outputs = graph_.nodes()[i]->outputs;
      return std::any_of(outputs.begin(), outputs.end(),
                         [&](ValueId id) { return id != kNoValue && (constant_producer_[id] < 0 || leaves_[id]); });
    };
    for (std::set<std::size_t>& members : members_) {
      std::erase_if(members, [&](std::size_t i) { return !is_needed_elsewhere(i); });
      std::vector<std::size_t> open(members.begin(), members.end());
      while (!open.empty()) {
        const Node& node = *graph_.nodes()[open.back()];
        open.pop_back();
        for (const ValueId id : node.inputs) {
          if (id == kNoValue || constant_producer_[id] < 0) continue;
          const auto producer = static_cast<std::size_t>(constant_producer_[id]);
          if (members.insert(producer).second) open.push_back(producer);
        }
      }
    }
  }

  // The leaves without the constants that another stage computes as well.
  std::vector<bool> leaves_of(std::size_t stage) const {
    std::vector<bool> leaves = leaves_;
    for (const std::size_t i : members_[stage])
      if (stage_of_node_[i] != stage)
        for (const ValueId id : graph_.nodes()[i]->outputs)
          if (id != kNoValue) leaves[id] = false;
    return leaves;
  }

  const Graph& graph_;
  std::vector<Stage> stages_;
  std::vector<std::set<std::size_t>> members_;  // compiled nodes by stage
  std::vector<bool> compiled_;                  // by node
  std::vector<std::size_t> stage_of_node_;
  std::vector<bool> leaves_;
  std::vector<std::int32_t> constant_producer_;  // by value: the node that computes it from constants alone; -1: none
};

bool is_text(const Graph& graph, ValueId id) { return id != kNoValue && graph.value(id).type.type == DataType::kString; }

}  // namespace

bool is_compiled(const Graph& graph, const Node& node) {
  const auto holds_text = [&](const std::vector<ValueId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return is_text(graph, id); });
  };
  return node.op != nullptr && !holds_text(node.inputs) && !holds_text(node.outputs);
}

bool is_compiled(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) { return is_compiled(graph, *node); }) &&
         std::none_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId id) { return is_text(graph, id); }) &&
         std::none_of(graph.outputs().begin(), graph.outputs().end(),
                      [&](const GraphOutput& output) { return is_text(graph, output.value); });
}

Part part_of(const Graph& graph, std::span<const std::size_t> nodes, const std::vector<bool>& leaves) {
  Part part;
  std::unordered_map<ValueId, ValueId> local;
  std::set<std::string> symbols;
  const auto add = [&](ValueId id) { local.emplace(id, part.graph.add_value(graph.value(id))); };
  const auto add_input = [&](ValueId id) {
    local.emplace(id, part.graph.add_input(graph.value(id).name, graph.value(id).type));
    part.inputs.push_back(id);
  };
  for (const std::size_t i : nodes) {
    Node node = *graph.nodes()[i];
    node.parameters.clear();
    node.expansion = nullptr;
    symbols.merge(symbols_of(node.attributes));
    for (ValueId& id : node.inputs) {
      if (id == kNoValue) continue;
      if (!local.contains(id)) graph.is_constant(id) ? add(id) : add_input(id);
      id = local.at(id);
    }
    for (ValueId& id : node.outputs) {
      if (id == kNoValue) continue;
      add(id);
      if (leaves[id]) {
        part.outputs.push_back(id);
        part.graph.add_output(graph.value(id).name, local.at(id));
      }
      id = local.at(id);
    }
    part.graph.add_raw(std::move(node));
  }
  part.symbols.assign(symbols.begin(), symbols.end());
  return part;
}

namespace {

// Throws if a value's sizes differ from those its declared names have: attributes with these names would be wrong too.
void require_same_sizes(const Value& declared, const TensorType& computed, const Substitution& sizes) {
  if (!declared.shape_known) return;
  const Indices expected = substitute(declared.type.shape, sizes);
  if (all_constant(expected) && all_constant(computed.shape) && expected != computed.shape)
    throw Error(ErrorCode::kBadInput,
                "is " + to_string(computed) + " for these inputs, not " + to_string(TensorType{computed.type, expected}) +
                    " as the model's names of sizes say",
                "\"" + declared.name + "\"");
}

}  // namespace

bool is_definite(const Graph& graph) {
  for (const auto& node : graph.nodes())
    for (const auto* values : {&node->inputs, &node->outputs})
      for (const ValueId id : *values)
        if (id != kNoValue && !(graph.value(id).shape_known && all_constant(graph.value(id).type.shape))) return false;
  return true;
}

std::vector<Stage> stages_of(const Graph& graph) { return Cutter(graph).run(); }

Graph with_types(const Part& part, std::span<const TensorType> inputs, const Substitution& sizes) {
  Graph result;
  std::unordered_map<ValueId, ValueId> local;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueId id = part.graph.inputs()[i];
    local.emplace(id, result.add_input(part.graph.value(id).name, inputs[i]));
  }
  for (const auto& node : part.graph.nodes()) {
    std::vector<ValueId> operands;
    for (const ValueId id : node->inputs) {
      if (id != kNoValue && !local.contains(id)) local.emplace(id, result.add_value(part.graph.value(id)));  // a constant
      operands.push_back(id == kNoValue ? kNoValue : local.at(id));
    }
    std::vector<std::string> names;
    for (const ValueId id : node->outputs) names.push_back(id == kNoValue ? "" : part.graph.value(id).name);
    const std::vector<ValueId> outputs = result.add_node(*node->op, substitute(node->attributes, sizes), operands, names);
    for (std::size_t k = 0; k < node->outputs.size(); ++k) {
      if (node->outputs[k] == kNoValue) continue;
      local.emplace(node->outputs[k], outputs.at(k));
      require_same_sizes(part.graph.value(node->outputs[k]), result.value(outputs.at(k)).type, sizes);
    }
  }
  for (const GraphOutput& output : part.graph.outputs()) result.add_output(output.name, local.at(output.value));
  return result;
}

namespace {

bool has_inputs(const Graph& graph, std::span<const TensorType> types) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (!value.shape_known || !(value.type == types[i])) return false;
  }
  return true;
}

}  // namespace

Graph OpenPart::with_types(std::span<const TensorType> inputs, const Substitution& sizes) const {
  try {
    Graph sized = open_.with_sizes(sizes);
    if (has_inputs(sized, inputs) && is_definite(sized)) return sized;
  } catch (const Error& error) {  // says what is wrong with the types of these inputs, if anything is
    if (error.code() != ErrorCode::kBadInput) throw;
  }
  return runtime::with_types(part_, inputs, sizes);
}

}  // namespace rewright::runtime
