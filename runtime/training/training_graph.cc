#include "runtime/training/training_graph.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/training/builder.h"
#include "runtime/training/differentiate.h"

namespace rewright {

namespace {

// The model with its loss and gradients; what training changes is still constant.
struct Differentiated {
  Graph graph;
  ValueId targets, loss;
  std::vector<ValueId> parameters, gradients;         // constants of the model, and their gradients
  std::vector<ValueId> statistics, statistics_after;  // constants of the model, and what they become
};

// Replaces nodes by what they compute in training; returns the statistics of the batch that this brings.
void use_training_forms(Differentiated& d, double momentum) {
  NodeBuilder builder(d.graph);
  const std::vector<std::shared_ptr<const Node>> nodes(d.graph.nodes().begin(), d.graph.nodes().end());
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (const auto& node : nodes) {
    const TrainingFunction* form = node->op ? stated_gradients().find_training_form(*node->op) : nullptr;
    if (!form) continue;
    const TrainingForm in_training = (*form)(builder, node->attributes, node->inputs, momentum);
    for (std::size_t k = 0; k < node->outputs.size(); ++k)
      if (node->outputs[k] != kNoValue) replaced.emplace_back(node->outputs[k], in_training.outputs[k]);
    for (const auto& [input, value] : in_training.updated_inputs)
      if (d.graph.is_constant(node->inputs[input])) {
        d.statistics.push_back(node->inputs[input]);
        d.statistics_after.push_back(value);
      }
  }
  d.graph.replace_uses(replaced);
}

// Real constants, but for scalars, that `value` is computed from.
std::vector<ValueId> trainable(const Graph& graph, const std::set<std::string>& frozen,
                               const std::vector<ValueId>& statistics) {
  std::vector<ValueId> result;
  std::set<ValueId> seen(statistics.begin(), statistics.end());
  for (const auto& node : graph.nodes())
    for (const ValueId input : node->inputs) {
      if (input == kNoValue || !graph.is_constant(input) || !seen.insert(input).second) continue;
      const Value& value = graph.value(input);
      if (is_real(value.type.type) && value.type.rank() > 0 && !frozen.contains(value.name)) result.push_back(input);
    }
  return result;
}

Differentiated differentiated(const Graph& model, const std::string& output, const TrainingOptions& options) {
  Differentiated d{model, kNoValue, kNoValue, {}, {}, {}, {}};
  d.graph.set_outputs({});
  d.graph.add_output("predictions", find_predictions(model, output));
  d.graph.tidy();
  use_training_forms(d, options.batch_norm_momentum);
  for (std::size_t n = 0; n < d.statistics_after.size(); ++n) d.graph.add_output(std::to_string(n), d.statistics_after[n]);
  d.graph.tidy();
  const ValueId predictions = d.graph.outputs()[0].value;
  for (std::size_t n = 0; n < d.statistics_after.size(); ++n) d.statistics_after[n] = d.graph.outputs()[n + 1].value;

  const std::vector<ValueId> candidates =
      trainable(d.graph, std::set<std::string>(options.frozen.begin(), options.frozen.end()), d.statistics);
  d.targets = d.graph.add_input("training.targets", target_type(options.loss, d.graph.value(predictions).type));
  d.loss = add_loss(d.graph, options.loss, predictions, d.targets);
  NodeBuilder builder(d.graph);
  const Seed seed{d.loss, builder.scalar(d.graph.value(d.loss).type.type, 1)};
  const std::vector<ValueId> gradients = differentiate(d.graph, {&seed, 1}, candidates);
  for (std::size_t n = 0; n < candidates.size(); ++n) {
    if (gradients[n] == kNoValue) continue;
    d.parameters.push_back(candidates[n]);
    d.gradients.push_back(gradients[n]);
  }
  if (d.parameters.empty()) throw Error(ErrorCode::kBadInput, "nothing in the model can be trained");
  return d;
}

std::string name_of(const Graph& graph, ValueId constant) {
  const std::string& name = graph.value(constant).name;
  return name.empty() ? "constant " + std::to_string(constant) : name;
}

// Makes inputs of constants, in this order.
std::vector<ValueId> as_inputs(Graph& graph, const std::vector<ValueId>& constants) {
  std::vector<ValueId> inputs;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (const ValueId constant : constants) {
    inputs.push_back(graph.add_input(name_of(graph, constant), graph.value(constant).type));
    replaced.emplace_back(constant, inputs.back());
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

// Gradients whose length, of all together, is at most `norm`.
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

// Adds the updates, and the new parameters and states as outputs.
struct Schedule {
  ValueId rate, step;
};
Schedule add_schedule_inputs(Graph& graph) {
  const TensorType scalar{DataType::kFloat, {}};
  const ValueId rate = graph.add_input("training.rate", scalar);
  return {rate, graph.add_input("training.step", scalar)};
}
std::vector<Updated> add_updates(Graph& graph, const TrainingOptions& options, const std::vector<ValueId>& parameters,
                                 const std::vector<ValueId>& gradients, const std::vector<std::vector<ValueId>>& states,
                                 const Schedule& schedule) {
  NodeBuilder b(graph);
  const std::vector<ValueId> short_gradients = clipped(graph, gradients, options.clip_norm);
  std::vector<Updated> result;
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    const DataType type = graph.value(parameters[n]).type.type;
    result.push_back(add_update(graph, options.update, parameters[n], short_gradients[n], states[n],
                                b.cast(schedule.rate, type), b.cast(schedule.step, type)));
  }
  return result;
}

// Outputs in order, named by their place: names of values are taken by inputs.
void set_outputs(Graph& graph, const std::vector<ValueId>& values) {
  graph.set_outputs({});
  for (std::size_t n = 0; n < values.size(); ++n) graph.add_output("training.output." + std::to_string(n), values[n]);
  graph.tidy();
}

void append(std::vector<ValueId>& list, const std::vector<Updated>& updated, bool states, std::size_t kinds) {
  if (!states)
    for (const Updated& u : updated) list.push_back(u.parameter);
  else
    for (std::size_t kind = 0; kind < kinds; ++kind)
      for (const Updated& u : updated) list.push_back(u.states[kind]);
}

}  // namespace

TrainingGraphs make_training_graphs(const Graph& model, const std::string& output, const TrainingOptions& options) {
  const Differentiated d = differentiated(model, output, options);
  TrainingGraphs result;
  result.states = states_of(options.update.method);
  for (const ValueId id : d.parameters) result.parameters.push_back({id, name_of(model, id)});
  for (const ValueId id : d.statistics) result.statistics.push_back({id, name_of(model, id)});

  result.gradients = d.graph;
  as_inputs(result.gradients, d.parameters);
  as_inputs(result.gradients, d.statistics);
  std::vector<ValueId> outputs{d.loss};
  outputs.insert(outputs.end(), d.gradients.begin(), d.gradients.end());
  outputs.insert(outputs.end(), d.statistics_after.begin(), d.statistics_after.end());
  set_outputs(result.gradients, outputs);

  const Schedule schedule = add_schedule_inputs(result.update);
  std::vector<ValueId> parameters, gradients;
  for (const TrainedTensor& p : result.parameters)
    parameters.push_back(result.update.add_input(p.name, model.value(p.in_model).type));
  for (const TrainedTensor& p : result.parameters)
    gradients.push_back(result.update.add_input("training.gradient." + p.name, model.value(p.in_model).type));
  const auto states = add_state_inputs(result.update, parameters, options.update.method);
  const std::vector<Updated> updated = add_updates(result.update, options, parameters, gradients, states, schedule);
  outputs.clear();
  append(outputs, updated, false, 0);
  append(outputs, updated, true, result.states.size());
  set_outputs(result.update, outputs);

  result.step = d.graph;
  const Schedule in_step = add_schedule_inputs(result.step);
  const std::vector<ValueId> as_input = as_inputs(result.step, d.parameters);
  as_inputs(result.step, d.statistics);
  const auto states_in_step = add_state_inputs(result.step, as_input, options.update.method);
  const std::vector<Updated> joint = add_updates(result.step, options, as_input, d.gradients, states_in_step, in_step);
  outputs = {d.loss};
  append(outputs, joint, false, 0);
  outputs.insert(outputs.end(), d.statistics_after.begin(), d.statistics_after.end());
  append(outputs, joint, true, result.states.size());
  set_outputs(result.step, outputs);
  return result;
}

}  // namespace rewright
