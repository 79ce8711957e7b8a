#include "runtime/training/graphs/training_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "graph/builder.h"
#include "graph/gradients/differentiate.h"
#include "graph/onnx/body.h"
#include "graph/onnx/release.h"
#include "operators/definitions/random_bits.h"
#include "runtime/training/graphs/mixed_precision.h"
#include "runtime/training/graphs/row_order.h"
#include "runtime/training/graphs/shared_statistics.h"

namespace rewright::training {

namespace {

// The model with its loss and gradients. Trainable values are neither constants nor computed nor (yet) inputs: equal constants
// would be merged and trained as one.
struct Differentiated {
  Graph graph;
  ValueId targets, step, part, scale, loss;
  std::vector<ValueId> parameters, gradients;
  std::vector<ValueId> in_model;                      // the model's constants with the parameters' initial values
  std::vector<ValueId> statistics, statistics_after;  // constants of the model, and their new values
  std::set<ValueId> open;                             // constants of the model that training may change
  std::vector<SharedSum> sums;                        // over all shards
};

// Real constants, except scalars, that nodes read.
std::set<ValueId> changeable(const Graph& model) {
  std::set<ValueId> result;
  for (const auto& node : model.nodes())
    for (const ValueId v : node->inputs)
      if (v != kNoValue && model.is_constant(v) && is_real(model.value(v).type.type) && model.value(v).type.rank() > 0)
        result.insert(v);
  return result;
}

// The constant value of a node's input; `otherwise` if the input is absent.
double known_input(const Graph& graph, const Node& node, std::size_t input, double otherwise) {
  if (input >= node.inputs.size() || node.inputs[input] == kNoValue) return otherwise;
  const Tensor& value = graph.value(node.inputs[input]).constant;
  if (!value || value.size() != 1) throw Error(ErrorCode::kUnsupported, "an input of Dropout is computed");
  return value.reals()[0];
}

// Replaces operators by their training forms, and records the statistics that these update.
void use_training_forms(Differentiated& d, const Graph& model, const TrainingGraphOptions& options) {
  NodeBuilder builder(d.graph);
  SharingBuilder sharing(d.graph, options.shared_by, d.sums);
  GraphBuilder& statistics = options.shared_by > 1 ? static_cast<GraphBuilder&>(sharing) : builder;
  RandomSource random{options.seed, builder.cast(d.step, DataType::kInt64), builder.cast(d.part, DataType::kInt64)};
  const std::vector<std::shared_ptr<const Node>> nodes(d.graph.nodes().begin(), d.graph.nodes().end());
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (const auto& node : nodes) {
    if (onnx_operator(*node) == "Dropout" && known_input(model, *node, 2, 0) != 0) {
      const auto dropped = add_dropout(builder, node->inputs[0], known_input(model, *node, 1, 0.5), random);
      for (std::size_t k = 0; k < node->outputs.size(); ++k)
        if (node->outputs[k] != kNoValue) replaced.emplace_back(node->outputs[k], dropped[k]);
      continue;
    }
    if (!node->op || !node->op->training_form()) continue;
    const TrainingForm in_training =
        node->op->training_form()(statistics, node->attributes, node->inputs, options.batch_norm_momentum);
    for (std::size_t k = 0; k < node->outputs.size(); ++k)
      if (node->outputs[k] != kNoValue) replaced.emplace_back(node->outputs[k], in_training.outputs[k]);
    for (const auto& [input, value] : in_training.updated_inputs)
      if (d.open.contains(node->inputs[input])) {
        d.statistics.push_back(node->inputs[input]);
        d.statistics_after.push_back(value);
      }
  }
  d.graph.replace_uses(replaced);
}

// The trainable constants without statistics and frozen ones, in the order in which nodes read them.
std::vector<ValueId> trainable(const Differentiated& d, const std::set<std::string>& frozen) {
  std::vector<ValueId> result;
  std::set<ValueId> seen(d.statistics.begin(), d.statistics.end());
  for (const auto& node : d.graph.nodes())
    for (const ValueId input : node->inputs)
      if (input != kNoValue && d.open.contains(input) && seen.insert(input).second &&
          !frozen.contains(d.graph.value(input).name))
        result.push_back(input);
  return result;
}

// Replaces float constants by values of another type, with casts to float. Returns the values to train.
std::vector<ValueId> kept_as(Graph& graph, const std::vector<ValueId>& constants, DataType type) {
  std::vector<ValueId> result;
  NodeBuilder b(graph);
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (const ValueId id : constants) {
    Value value = graph.value(id);
    result.push_back(id);
    if (value.type.type != DataType::kFloat || type == DataType::kFloat) continue;
    value.type.type = type;
    result.back() = graph.add_value(std::move(value));
    replaced.emplace_back(id, b.cast(result.back(), DataType::kFloat));
  }
  graph.replace_uses(replaced);
  graph.tidy();
  return result;
}

// Reverts kept_as for one constant.
void use_again(Graph& graph, ValueId kept, ValueId constant) {
  if (kept == constant) return;
  const auto cast = std::ranges::find_if(graph.nodes(), [&](const auto& node) { return node->inputs == std::vector{kept}; });
  if (cast != graph.nodes().end()) graph.replace_uses((*cast)->outputs[0], constant);
}

// The gradients in these values. The gradient of a sum over all shards is itself summed over all shards, and flows to each
// share; these sums are appended to the others.
std::vector<ValueId> differentiate_shared(Differentiated& d, const Seed& loss, std::vector<ValueId> wanted) {
  const std::size_t count = wanted.size();
  std::vector<Seed> seeds{loss};
  for (const SharedSum& s : d.sums) {
    seeds.push_back({s.share, add_sum(d.graph, d.graph.value(s.sum).type)});
    wanted.push_back(s.sum);
  }
  std::vector<ValueId> gradients = differentiate(d.graph, seeds, wanted);
  NodeBuilder b(d.graph);
  for (std::size_t n = count; n < gradients.size(); ++n) {
    const ValueId own = gradients[n];
    d.sums.push_back({own == kNoValue ? b.filled(d.graph.value(wanted[n]).type, 0) : own, seeds[1 + n - count].gradient});
  }
  drop_unused(d.graph, d.sums);
  order_by_sums(d.graph, d.sums);
  gradients.resize(count);
  return gradients;
}

Differentiated differentiated(const Graph& model, const std::string& output, const TrainingGraphOptions& options) {
  Differentiated d{model, kNoValue, kNoValue, kNoValue, kNoValue, kNoValue, {}, {}, {}, {}, {}, changeable(model), {}};
  for (const ValueId v : d.open) forget_constant(d.graph, v);
  d.graph.set_outputs({});
  d.graph.add_output("predictions", find_predictions(model, output));
  d.graph.tidy();
  if (options.rows_by_sample) put_samples_outermost(d.graph);
  const ValueId predicted = d.graph.outputs()[0].value;
  d.targets = d.graph.add_input("training.targets", target_type(options.loss, d.graph.value(predicted).type));
  d.step = d.graph.add_input("training.step", {DataType::kFloat, {}});
  d.part = d.graph.add_input("training.part", {DataType::kFloat, {}});
  d.scale = d.graph.add_input("training.scale", {DataType::kFloat, {}});
  use_training_forms(d, model, options);
  if (options.precision != DataType::kFloat) use_short_products(d.graph, options.precision);
  std::vector<ValueId*> kept;
  for (ValueId& v : d.statistics_after) kept.push_back(&v);
  for (SharedSum& s : d.sums) kept.push_back(&s.share);
  for (const ValueId* v : kept) d.graph.add_output(std::to_string(d.graph.outputs().size()), *v);
  d.graph.tidy();
  const ValueId predictions = d.graph.outputs()[0].value;
  for (std::size_t n = 0; n < kept.size(); ++n) *kept[n] = d.graph.outputs()[n + 1].value;
  drop_unused(d.graph, d.sums);

  const std::vector<ValueId> of_model = trainable(d, std::set<std::string>(options.frozen.begin(), options.frozen.end()));
  const std::vector<ValueId> candidates = kept_as(d.graph, of_model, options.weights);
  d.loss = add_loss(d.graph, options.loss, predictions, d.targets);
  NodeBuilder builder(d.graph);
  const DataType type = d.graph.value(d.loss).type.type;
  const bool scaled = options.precision == DataType::kHalf;
  const Seed seed{d.loss, scaled ? builder.cast(d.scale, type) : builder.scalar(type, 1)};
  const std::vector<ValueId> gradients = differentiate_shared(d, seed, candidates);
  for (std::size_t n = 0; n < candidates.size(); ++n) {
    if (gradients[n] == kNoValue) {
      use_again(d.graph, candidates[n], of_model[n]);
      continue;
    }
    d.parameters.push_back(candidates[n]);
    d.in_model.push_back(of_model[n]);
    const DataType of = d.graph.value(gradients[n]).type.type;
    d.gradients.push_back(scaled ? builder.add("Div", {gradients[n], builder.cast(d.scale, of)}) : gradients[n]);
  }
  if (d.parameters.empty()) throw Error(ErrorCode::kBadInput, "nothing in the model can be trained");
  std::set<ValueId> changed(d.in_model.begin(), d.in_model.end());
  changed.insert(d.statistics.begin(), d.statistics.end());
  for (const ValueId v : d.open)
    if (!changed.contains(v)) d.graph.set_value(v, model.value(v));
  return d;
}

std::string name_of(const Graph& graph, ValueId constant) {
  const std::string& name = graph.value(constant).name;
  return name.empty() ? "constant " + std::to_string(constant) : name;
}

// Turns values into inputs, in this order.
std::vector<ValueId> as_inputs(Graph& graph, const std::vector<ValueId>& values) {
  std::vector<ValueId> inputs;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (const ValueId v : values) {
    inputs.push_back(graph.add_input(name_of(graph, v), graph.value(v).type));
    replaced.emplace_back(v, inputs.back());
  }
  graph.replace_uses(replaced);
  return inputs;
}

std::vector<std::vector<ValueId>> add_state_inputs(Graph& graph, const std::vector<ValueId>& parameters, UpdateMethod method) {
  std::vector<std::vector<ValueId>> states(parameters.size());
  for (const std::string& kind : states_of(method))
    for (std::size_t n = 0; n < parameters.size(); ++n)
      states[n].push_back(
          graph.add_input("training." + kind + "." + graph.value(parameters[n]).name, graph.value(parameters[n]).type));
  return states;
}

// Gradients scaled so that their joint norm is at most `norm`.
std::vector<ValueId> clipped(Graph& graph, std::vector<ValueId> gradients, double norm) {
  if (norm <= 0) return gradients;
  NodeBuilder b(graph);
  ValueId total = kNoValue;
  for (const ValueId g : gradients) {
    const ValueId squares = b.cast(b.add("ReduceSumSquare", {g}, {{"keepdims", false}}), DataType::kFloat);
    total = total == kNoValue ? squares : b.add("Add", {total, squares});
  }
  const ValueId ratio = b.add("Div", {b.scalar(DataType::kFloat, norm), b.add("Sqrt", {total})});
  const ValueId factor = b.add("Min", {ratio, b.scalar(DataType::kFloat, 1)});
  for (ValueId& g : gradients) g = b.add("Mul", {g, b.cast(factor, graph.value(g).type.type)});
  return gradients;
}

// Are all elements finite? Tested by a sum of magnitudes, which only overflows for values that no step could use.
ValueId all_finite(Graph& graph, const std::vector<ValueId>& values) {
  NodeBuilder b(graph);
  ValueId total = kNoValue;
  for (const ValueId v : values) {
    const ValueId magnitude = b.cast(b.add("ReduceL1", {v}, {{"keepdims", false}}), DataType::kFloat);
    total = total == kNoValue ? magnitude : b.add("Add", {total, magnitude});
  }
  return b.add("Not", {b.add("Or", {b.add("IsNaN", {total}), b.add("IsInf", {total})})});
}

// Adds the updates of parts of parameters.
struct UpdateSchedule {
  ValueId rate, step;
};
constexpr const char* kRate = "training.rate";
const TensorType kScalar{DataType::kFloat, {}};
bool is_short(DataType type) { return type == DataType::kHalf || type == DataType::kBfloat16; }

std::vector<Updated> add_updates(Graph& graph, const TrainingGraphOptions& options, const std::vector<UpdatedPart>& parts,
                                 const std::vector<ValueId>& parameters, const std::vector<ValueId>& gradients,
                                 const std::vector<std::vector<ValueId>>& states, const UpdateSchedule& schedule,
                                 ValueId allowed = kNoValue) {
  NodeBuilder b(graph);
  constexpr std::int64_t kOfUpdates = -1;  // no part of a batch has this number
  RandomSource random{options.seed, b.cast(schedule.step, DataType::kInt64),
                      b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{kOfUpdates}))};
  std::vector<Updated> result;
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    const DataType kept = graph.value(parameters[n]).type.type, type = is_short(kept) ? DataType::kFloat : kept;
    std::vector<ValueId> wide_states;
    for (const ValueId state : states[n]) wide_states.push_back(b.cast(state, type));
    Updated updated = add_update(graph, options.update, b.cast(parameters[n], type), b.cast(gradients[n], type), wide_states,
                                 b.cast(schedule.rate, type), b.cast(schedule.step, type), allowed);
    random.draws = parts[n].parameter * static_cast<std::int64_t>(1 + wide_states.size());
    const auto rounded = [&](ValueId v) {
      const bool at_random = kept != type && options.stochastic;
      const ValueId result = at_random ? add_stochastic_round(b, v, kept, random, parts[n].first) : b.cast(v, kept);
      ++random.draws;
      return result;
    };
    updated.parameter = rounded(updated.parameter);
    for (ValueId& state : updated.states) state = rounded(state);
    result.push_back(std::move(updated));
  }
  return result;
}

// Drops unused constants, above all weights, which would stay in memory as long as the graph.
void forget_unused_constants(Graph& graph) {
  std::vector<bool> used(graph.value_count());
  for (const auto& node : graph.nodes())
    for (const auto* list : {&node->inputs, &node->parameters})
      for (const ValueId v : *list)
        if (v != kNoValue) used[v] = true;
  for (const GraphOutput& output : graph.outputs()) used[output.value] = true;
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (!used[v] && graph.is_constant(v)) forget_constant(graph, v);
}

// Outputs in order, named by position, since inputs use the values' names.
void set_outputs(Graph& graph, const std::vector<ValueId>& values) {
  graph.set_outputs({});
  for (std::size_t n = 0; n < values.size(); ++n) graph.add_output("training.output." + std::to_string(n), values[n]);
  graph.tidy();
  forget_unused_constants(graph);
}

// Moves the nodes from `first` on directly after the last of their operands: an update then replaces its gradient in memory as
// soon as that exists, not when all exist.
void place_when_ready(Graph& graph, std::size_t first) {
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  const std::vector<std::int32_t> producers = graph.producers();
  std::vector<std::size_t> place(nodes.size());
  std::vector<std::vector<std::size_t>> at(first + 1);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    place[n] = n < first ? n : 0;
    for (const ValueId v : n < first ? std::vector<ValueId>() : nodes[n]->inputs)
      if (v != kNoValue && producers[v] >= 0) place[n] = std::max(place[n], place[static_cast<std::size_t>(producers[v])]);
    if (n >= first) at[place[n]].push_back(n);
  }
  graph.drop_nodes_from(0);
  for (std::size_t n = 0; n < std::max<std::size_t>(first, 1); ++n) {
    if (n < first) graph.add_shared(nodes[n]);
    for (const std::size_t update : at[n]) graph.add_shared(nodes[update]);
  }
}

// The results of a step before updates, and the tensors it changes.
struct BeforeUpdates {
  ValueId loss;
  std::vector<ValueId> gradients, statistics_after;
  std::vector<ValueId> parameters, statistics;
  std::vector<std::vector<ValueId>> states;  // by parameter
};

// The outputs of a step: loss, parameters, statistics, states, and whether everything was finite.
std::vector<ValueId> add_end_of_step(Graph& graph, const TrainingGraphOptions& options, const std::vector<UpdatedPart>& parts,
                                     const BeforeUpdates& before, const UpdateSchedule& schedule) {
  std::vector<ValueId> judged{before.loss};
  for (const auto* list : {&before.gradients, &before.statistics_after})
    judged.insert(judged.end(), list->begin(), list->end());
  const ValueId finite = all_finite(graph, judged);
  const std::vector<Updated> updated =
      add_updates(graph, options, parts, before.parameters, clipped(graph, before.gradients, options.clip_norm), before.states,
                  schedule, options.guarded ? finite : kNoValue);
  NodeBuilder b(graph);
  std::vector<ValueId> outputs{before.loss};
  for (const Updated& u : updated) outputs.push_back(u.parameter);
  for (std::size_t n = 0; n < before.statistics.size(); ++n) {
    const ValueId after = before.statistics_after[n];
    outputs.push_back(options.guarded ? b.add("Where", {finite, after, before.statistics[n]}) : after);
  }
  for (std::size_t kind = 0; kind < states_of(options.update.method).size(); ++kind)
    for (const Updated& u : updated) outputs.push_back(u.states[kind]);
  outputs.push_back(finite);
  return outputs;
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

Tensor converted(const Tensor& tensor, DataType type) {
  return tensor.type() == type ? tensor : Tensor::from_reals(type, tensor.sizes(), tensor.reals());
}

Graph make_update_graph(const std::vector<UpdatedPart>& parts, const TrainingGraphOptions& options) {
  Graph graph;
  const ValueId rate = graph.add_input(kRate, kScalar);
  const UpdateSchedule schedule{rate, graph.add_input("training.step", kScalar)};
  std::vector<ValueId> parameters, gradients, outputs;
  for (const UpdatedPart& part : parts) parameters.push_back(graph.add_input(part.name, part.type));
  for (const UpdatedPart& part : parts) gradients.push_back(graph.add_input("training.gradient." + part.name, part.type));
  const auto states = add_state_inputs(graph, parameters, options.update.method);
  const std::vector<Updated> updated = add_updates(graph, options, parts, parameters, gradients, states, schedule);
  for (const Updated& u : updated) outputs.push_back(u.parameter);
  for (std::size_t kind = 0; kind < states_of(options.update.method).size(); ++kind)
    for (const Updated& u : updated) outputs.push_back(u.states[kind]);
  set_outputs(graph, outputs);
  return graph;
}

namespace {

Graph step_of(const Differentiated& d, const std::vector<UpdatedPart>& parts, const TrainingGraphOptions& options) {
  Graph step = d.graph;
  const UpdateSchedule in_step{step.add_input(kRate, kScalar), d.step};
  const std::vector<ValueId> as_input = as_inputs(step, d.parameters);
  const std::vector<ValueId> statistics = as_inputs(step, d.statistics);
  const auto states_in_step = add_state_inputs(step, as_input, options.update.method);
  const std::size_t before_updates = step.nodes().size();
  const std::vector<ValueId> outputs = add_end_of_step(
      step, options, parts, {d.loss, d.gradients, d.statistics_after, as_input, statistics, states_in_step}, in_step);
  place_when_ready(step, before_updates);
  set_outputs(step, outputs);
  return step;
}

}  // namespace

Graph make_update_from_sums(const TrainingGraphs& graphs, const TrainingGraphOptions& options, std::int64_t shards) {
  Graph graph;
  const ValueId rate = graph.add_input(kRate, kScalar);
  const UpdateSchedule schedule{rate, graph.add_input("training.step", kScalar)};
  std::vector<UpdatedPart> parts;
  for (const TrainedTensor& p : graphs.parameters)  // after rate and step
    parts.push_back({p.name, graphs.update.value(graphs.update.inputs()[2 + parts.size()]).type, std::ssize(parts)});
  BeforeUpdates before;
  for (const UpdatedPart& part : parts) before.parameters.push_back(graph.add_input(part.name, part.type));
  const auto outputs = graphs.gradients.outputs();
  for (std::size_t n = 0; n < graphs.statistics.size(); ++n)
    before.statistics.push_back(
        graph.add_input(graphs.statistics[n].name, graphs.gradients.value(outputs[1 + parts.size() + n].value).type));
  before.states = add_state_inputs(graph, before.parameters, options.update.method);
  NodeBuilder b(graph);
  std::vector<ValueId> means;
  for (const GraphOutput& output : outputs) {
    const TensorType& type = graphs.gradients.value(output.value).type;
    const ValueId sum = graph.add_input("training.sum." + std::to_string(means.size()), type);
    means.push_back(b.add("Mul", {sum, b.scalar(type.type, 1.0 / static_cast<double>(shards))}));
  }
  const auto first_statistic = means.begin() + 1 + std::ssize(parts);
  before.loss = means[0];
  before.gradients.assign(means.begin() + 1, first_statistic);
  before.statistics_after.assign(first_statistic, means.end());
  TrainingGraphOptions guarded = options;
  guarded.guarded = true;
  set_outputs(graph, add_end_of_step(graph, guarded, parts, before, schedule));
  return graph;
}

Graph make_accumulating(const Graph& gradients) {
  Graph graph = gradients;
  NodeBuilder b(graph);
  const ValueId first = graph.add_input("training.first", {DataType::kBool, {}});
  std::vector<ValueId> sums;
  for (const GraphOutput& output : gradients.outputs()) {
    const TensorType type = graph.value(output.value).type;
    const ValueId so_far = graph.add_input("training.sum." + std::to_string(sums.size()), type);
    sums.push_back(b.add("Where", {first, output.value, b.add("Add", {so_far, output.value})}));
  }
  set_outputs(graph, sums);
  return graph;
}

TrainingGraphs make_training_graphs(const Graph& model, const std::string& output, const TrainingGraphOptions& options) {
  const Differentiated d = differentiated(model, output, options);
  TrainingGraphs result;
  result.states = states_of(options.update.method);
  for (std::size_t n = 0; n < d.parameters.size(); ++n)
    result.parameters.push_back({d.in_model[n], name_of(model, d.in_model[n]), d.graph.value(d.parameters[n]).type.type});
  for (const ValueId id : d.statistics) result.statistics.push_back({id, name_of(model, id), model.value(id).type.type});

  result.gradients = d.graph;
  as_inputs(result.gradients, d.parameters);
  as_inputs(result.gradients, d.statistics);
  std::vector<ValueId> sums;
  for (const SharedSum& s : d.sums) sums.push_back(s.sum);
  as_inputs(result.gradients, sums);
  result.sums = sums.size();
  std::vector<ValueId> outputs{d.loss};
  outputs.insert(outputs.end(), d.gradients.begin(), d.gradients.end());
  outputs.insert(outputs.end(), d.statistics_after.begin(), d.statistics_after.end());
  for (const SharedSum& s : d.sums) outputs.push_back(s.share);
  set_outputs(result.gradients, outputs);

  std::vector<UpdatedPart> parts;
  for (const TrainedTensor& p : result.parameters)
    parts.push_back({p.name, {p.type, model.value(p.in_model).type.shape}, std::ssize(parts)});
  result.update = make_update_graph(parts, options);

  if (result.sums == 0) {
    result.step = step_of(d, parts, options);
  } else {
    TrainingGraphOptions alone = options;
    alone.shared_by = 1;
    result.step = step_of(differentiated(model, output, alone), parts, options);
  }
  return result;
}

}  // namespace rewright::training
