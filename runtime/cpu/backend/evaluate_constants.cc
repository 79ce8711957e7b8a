#include "runtime/cpu/planning/evaluate_constants.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/hash_mix.h"
#include "optimizer/folding/rounding.h"
#include "runtime/cpu/backend/evaluator.h"
#include "runtime/cpu/planning/kernels.h"
#include "runtime/cpu/planning/known_values.h"
#include "runtime/cpu/planning/prepared_constants.h"
#include "runtime/cpu/planning/recognitions.h"
#include "runtime/cpu/running/runner.h"
#include "runtime/planning/graph_facts.h"
#include "runtime/planning/strided_read.h"

namespace rewright::cpu {

namespace {

std::uint64_t folded_name(const std::vector<std::uint64_t>& hashes, ValueId value) {
  return cache_name(hashes[value], "folded");
}

// Reads these values from the plan cache; false if it lacks one.
bool find_constants(const Graph& graph, const std::vector<ValueId>& wanted, PlanCache& cache, std::vector<Tensor>& result) {
  const std::vector<std::uint64_t> hashes = graph.value_hashes();
  std::vector<Tensor> found;
  for (const ValueId v : wanted) {
    const TensorType& type = graph.value(v).type;
    const Tensor bytes = cache.find(folded_name(hashes, v));
    if (!bytes || !graph.value(v).shape_known || !all_constant(type.shape)) return false;
    const Sizes sizes = values(type.shape);
    const auto owner = std::make_shared<const Tensor>(bytes);
    found.emplace_back(type.type, sizes, owner, owner->bytes().data());
    if (found.back().byte_count() != bytes.byte_count()) return false;
  }
  for (std::size_t n = 0; n < wanted.size(); ++n) result[wanted[n]] = std::move(found[n]);
  return true;
}

// Adds the bytes of each value under its name.
void add_constants(const Graph& graph, const std::vector<ValueId>& names, PlanCache& cache,
                   const std::vector<Tensor>& tensors) {
  const std::vector<std::uint64_t> hashes = graph.value_hashes();
  for (std::size_t n = 0; n < names.size(); ++n) {
    if (byte_size(tensors[n].type()) == 0) continue;
    const auto owner = std::make_shared<const Tensor>(tensors[n]);
    cache.add(folded_name(hashes, names[n]),
              Tensor(DataType::kUint8, {static_cast<std::int64_t>(owner->byte_count())}, owner, owner->bytes().data()));
  }
}

// Names computations from constants: equal names mean equal values.
class ComputationNames {
 public:
  explicit ComputationNames(const Graph& graph) : graph_(graph), producers_(graph.producers()), names_(graph.value_count()) {}

  std::uint64_t operator()(ValueId value) {
    std::vector<ValueId> open{value};  // without recursion: graphs may be deep
    while (!open.empty()) {
      const ValueId v = open.back();
      const Node* const node = is_leaf(v) ? nullptr : graph_.nodes()[static_cast<std::size_t>(producers_[v])].get();
      bool ready = true;
      for (std::size_t i = 0; node != nullptr && i < node->inputs.size(); ++i)
        if (const ValueId input = node->inputs[i]; input != kNoValue && names_[input] == 0) {
          open.push_back(input);
          ready = false;
        }
      if (!ready) continue;
      open.pop_back();
      if (names_[v] == 0) names_[v] = std::max<std::uint64_t>(node == nullptr ? leaf(v) : computed(*node, v), 1);
    }
    return names_[value];
  }

 private:
  bool is_leaf(ValueId v) const {
    return graph_.is_constant(v) || producers_[v] < 0 || planning::known_tensor(graph_.value(v));
  }
  std::uint64_t leaf(ValueId v) const {
    return graph_.is_constant(v) ? graph_.value(v).constant_hash() : planning::known_tensor(graph_.value(v)).content_hash();
  }
  std::uint64_t computed(const Node& node, ValueId v) const {
    std::uint64_t name = hash_mix(hash_text(node.op->name()), hash(node.attributes));
    for (const ValueId i : node.inputs) name = hash_mix(name, i == kNoValue ? 0 : names_[i]);
    return hash_mix(name,
                    static_cast<std::uint64_t>(std::find(node.outputs.begin(), node.outputs.end(), v) - node.outputs.begin()));
  }

  const Graph& graph_;
  std::vector<std::int32_t> producers_;
  std::vector<std::uint64_t> names_;  // 0: not yet known
};

// Nodes whose results are consecutive elements of a constant, such as the first rows of a table: they share its memory.
void find_parts(const Graph& graph, const std::function<bool(const Node&)>& is_constant, std::vector<Tensor>& result) {
  constexpr std::size_t kWorthwhile = 4096;  // bytes
  for (const auto& node : graph.nodes()) {
    if (node->inputs.size() != 1 || node->outputs.size() != 1 || node->inputs[0] == kNoValue || node->outputs[0] == kNoValue ||
        !is_constant(*node))
      continue;
    const Tensor& whole = result[node->inputs[0]] ? result[node->inputs[0]] : graph.value(node->inputs[0]).constant;
    const Value& value = graph.value(node->outputs[0]);
    if (!whole || whole.byte_count() < kWorthwhile || value.type.type != whole.type() || packed_bits(whole.type()) < 8)
      continue;
    const Definition definition = planning::define(graph, *node);
    if (!definition.has_denotation()) continue;
    const Output& output = definition.outputs()[0];
    if (output.element->kind != ElementNode::Kind::kRead || output.element->zero_outside) continue;
    const Sizes sizes = planning::value_info(graph, node->outputs[0]).sizes;
    const auto read = planning::read_strides(*output.element, output.position, sizes, whole.sizes());
    if (!read || element_count(sizes) == 0) continue;
    std::int64_t stride = 1;
    bool follow = true;
    for (std::size_t a = sizes.size(); a-- > 0; stride *= sizes[a])
      follow = follow && (sizes[a] == 1 || read->coefficient(a) == stride);
    if (follow) result[node->outputs[0]] = part_of(whole, read->constant, whole.type(), sizes);
  }
}

// Marks the nodes that compute wanted values which are not known yet.
std::vector<bool> nodes_for(const Graph& graph, const std::function<bool(const Node&)>& is_constant, std::vector<bool> wanted,
                            const std::function<bool(ValueId)>& known_before) {
  std::vector<bool> needed(graph.nodes().size());
  for (std::size_t n = needed.size(); n-- > 0;) {
    const Node& node = *graph.nodes()[n];
    if (!is_constant(node)) continue;
    needed[n] = std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](ValueId v) { return v != kNoValue && wanted[v] && !known_before(v); });
    if (!needed[n]) continue;
    for (const ValueId i : node.inputs)
      if (i != kNoValue) wanted[i] = true;
  }
  return needed;
}

// The planner's traits of a node; those of others where plans share what is known about nodes.
planning::Traits traits_of(const Graph& graph, const std::shared_ptr<const Node>& node, const PlanOptions& options) {
  const auto find = [&] { return planning::traits_of(planning::define(graph, *node)); };
  return options.recognitions ? recalled_traits(*options.recognitions, graph, node, find) : find();
}

// Leaves large results of looking up constant positions in a constant table to the run, if they differ from plan to plan, such
// as those of the kinds and places of words: the table is read where its rows are used, instead of a copy of them that is made
// for each set of sizes. What only moves the positions is left as well. Kernels of their own want constants, and keep them.
void leave_lookups(const Graph& graph, const PlanOptions& options, const std::function<bool(const Node&)>& is_constant,
                   std::vector<bool>& wanted) {
  constexpr std::int64_t kLarge = 1024;  // elements
  enum Users : std::uint8_t { kNone, kLookups, kOthers };
  std::vector<Users> users(graph.value_count(), kNone);
  const auto is_left = [&](const std::shared_ptr<const Node>& shared) {
    const Node& node = *shared;
    if (node.outputs.size() != 1 || node.outputs[0] >= options.open_values->size()) return false;
    const ValueId result = node.outputs[0];
    if (!(*options.open_values)[result] || !wanted[result] || users[result] == kOthers || !is_constant(node)) return false;
    const bool large = element_count(values(graph.value(result).type.shape)) >= kLarge;
    if (users[result] != kLookups && !large) return false;
    const planning::Traits traits = traits_of(graph, shared, options);
    return traits.moved == 0 && (traits.has_position || users[result] == kLookups);
  };
  for (const GraphOutput& output : graph.outputs()) users[output.value] = kOthers;
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = *graph.nodes()[n];
    const bool left = is_left(graph.nodes()[n]);
    if (left) wanted[node.outputs[0]] = false;
    const bool takes_others = !left && (is_constant(node) || node.op == nullptr || has_node_kernels(node.op->name()));
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoValue) continue;
      if (left) wanted[v] = true;
      if (left && (i > 0 || users[node.outputs[0]] == kLookups)) users[v] = std::max(users[v], kLookups);
      if (takes_others || (left && i == 0 && users[node.outputs[0]] != kLookups)) users[v] = kOthers;
    }
  }
}

// Adds the node to another graph, where it reads these values. Types that are known are not inferred again.
std::vector<ValueId> add_copy(Graph& to, const Graph& graph, const Node& node, std::vector<ValueId> inputs) {
  const auto is_known = [&](ValueId v) {
    return v == kNoValue || (graph.value(v).shape_known && graph.value(v).type.type != DataType::kUndefined);
  };
  if (!std::all_of(node.outputs.begin(), node.outputs.end(), is_known))
    return to.add_node(*node.op, node.attributes, std::move(inputs));
  Node copy;
  copy.op = node.op;
  copy.attributes = node.attributes;
  copy.inputs = std::move(inputs);
  for (const ValueId v : node.outputs) copy.outputs.push_back(v == kNoValue ? kNoValue : to.add_value(graph.value(v)));
  std::vector<ValueId> outputs = copy.outputs;
  to.add_raw(std::move(copy));
  return outputs;
}

// Are these a few integers and truth values, such as positions and masks of a length? The interpreter has computed them before
// a plan for them is made, and the same elements.
bool is_little_integer_arithmetic(const Graph& graph) {
  constexpr std::int64_t kFew = 1500;  // elements of all results
  std::int64_t elements = 0;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    const DataType type = value.constant ? value.constant.type() : value.type.type;
    if (byte_size(type) == 0 || is_real(type) || !value.shape_known || !all_constant(value.type.shape)) return false;
    if (!value.constant) elements += element_count(values(value.type.shape));
    if (elements > kFew) return false;
  }
  return true;
}

}  // namespace

std::vector<Tensor> evaluate_constants(const Graph& graph, const PlanOptions& options, const std::vector<bool>& left_out) {
  std::vector<Tensor> result(graph.value_count());
  const std::vector<bool> constant = graph.constant_values();
  // Values that others need: operands of non-constant nodes, and outputs.
  std::vector<bool> wanted(graph.value_count());
  const auto is_constant_node = [&](const Node& node) {
    return node.op != nullptr && !node.op->random() && !node.outputs.empty() &&
           std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId o) { return o == kNoValue || constant[o]; });
  };
  bool has_constant_nodes = false;
  for (const auto& node : graph.nodes())
    if (is_constant_node(*node))
      has_constant_nodes = true;
    else
      for (const ValueId i : node->inputs)
        if (i != kNoValue) wanted[i] = true;
  if (!has_constant_nodes) return result;
  for (const GraphOutput& o : graph.outputs()) wanted[o.value] = true;
  for (ValueId v = 0; v < left_out.size(); ++v) wanted[v] = wanted[v] && !left_out[v];
  if (options.open_values != nullptr) leave_lookups(graph, options, is_constant_node, wanted);

  Graph part;
  std::map<ValueId, ValueId> copies;
  const auto copy_of = [&](ValueId v) {
    if (v == kNoValue) return kNoValue;
    const auto [found, added] = copies.emplace(v, kNoValue);
    if (added) found->second = part.add_constant(result[v] ? result[v] : graph.value(v).constant);
    return found->second;
  };
  std::vector<ValueId> results;
  if (options.constants) find_parts(graph, is_constant_node, result);
  ComputationNames name_of(graph);
  const auto known_before = [&](ValueId v) {
    if (!result[v] && options.constants) result[v] = options.constants->folded(name_of(v));
    return static_cast<bool>(result[v]);
  };
  std::map<std::uint64_t, std::vector<ValueId>> computed;  // in `part`, by names
  std::map<ValueId, ValueId> wanted_copies;                // results by their copies, and values equal to results
  std::vector<std::pair<ValueId, ValueId>> equal;
  const std::vector<bool> needed = nodes_for(graph, is_constant_node, wanted, known_before);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (!needed[n]) continue;
    const Node& node = *graph.nodes()[n];
    // Layers compute the same tables, each for itself: one of them does.
    std::uint64_t name = 0;
    for (const ValueId v : node.outputs) name = hash_mix(name, v == kNoValue ? 0 : name_of(v));
    std::vector<ValueId>& outputs = computed[name];
    if (outputs.empty()) {
      std::vector<ValueId> inputs;
      for (const ValueId i : node.inputs) inputs.push_back(copy_of(i));
      outputs = add_copy(part, graph, node, std::move(inputs));
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      if (v == kNoValue) continue;
      copies[v] = outputs.at(o);
      if (!wanted[v] || result[v]) continue;
      const auto [first, is_first] = wanted_copies.emplace(outputs.at(o), v);
      if (!is_first) {
        equal.emplace_back(v, first->second);
        continue;
      }
      results.push_back(v);
      part.add_output("v" + std::to_string(v), outputs.at(o));
    }
  }
  if (results.empty()) return result;
  PlanOptions once = options;
  once.fold_constants = false;
  once.cache = nullptr;
  once.constants = nullptr;
  once.open_values = nullptr;
  once.open_graph = nullptr;
  once.choices = nullptr;
  once.loop_problems = nullptr;
  once.replacements.clear();
  PlanCache* const cache = options.cache;
  const auto remember = [&] {
    for (const auto& [value, first] : equal) result[value] = result[first];
    for (std::size_t n = 0; n < results.size() && options.constants; ++n)
      options.constants->add_folded(name_of(results[n]), result[results[n]]);
  };
  if (cache != nullptr && find_constants(graph, results, *cache, result)) {
    remember();
    return result;
  }
  const auto by_kernels = [&](const Graph& constants) { return PlanRunner(make_plan(constants, once)).run({}); };
  // Decides as the optimizer's folding does. A single node has no rounded operands before it.
  std::vector<Tensor> tensors =
      is_little_integer_arithmetic(part) ? interpret(part, {})
      : part.nodes().size() > 1 && decides_by_reals(part)
          ? evaluate_with_decisions(part, deciding_values(part), *make_cpu_evaluator(options.threads), by_kernels)
          : by_kernels(part);
  if (cache != nullptr) add_constants(graph, results, *cache, tensors);
  for (std::size_t n = 0; n < results.size(); ++n) result[results[n]] = std::move(tensors[n]);
  remember();
  return result;
}

}  // namespace rewright::cpu
