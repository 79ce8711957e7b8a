#include "runtime/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace rewright {

double RateSchedule::at(std::int64_t step, std::int64_t steps) const {
  if (step < warm_up) return rate * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  const auto done = static_cast<double>(step - warm_up), all = static_cast<double>(std::max<std::int64_t>(1, steps - warm_up));
  switch (kind) {
    case Kind::kConstant:
      return rate;
    case Kind::kCosine:
      return rate * 0.5 * (1 + std::cos(std::numbers::pi * done / all));
    case Kind::kStep:
      return rate * std::pow(0.1, std::floor(3 * done / all));
  }
  return rate;
}

namespace {

constexpr const char* kTargets = "targets";  // the column of the data

std::vector<std::string> input_names(const Graph& model) {
  std::vector<std::string> names;
  for (const ValueId id : model.inputs()) names.push_back(model.value(id).name);
  return names;
}

// The model for shards of this many examples.
Graph bound(const Graph& model, const Dataset& data, std::int64_t rows) {
  std::vector<Tensor> example;
  const std::vector<std::int64_t> first(static_cast<std::size_t>(rows), 0);
  for (const std::string& name : input_names(model)) example.push_back(data.rows(name, first));
  return with_sizes(model, bind_sizes(model, example));
}

bool all_finite(const Tensor& tensor) {
  const auto finite = [](const auto& values) {
    return std::all_of(values.begin(), values.end(), [](auto v) { return std::isfinite(v); });
  };
  return tensor.type() == DataType::kFloat ? finite(tensor.data<float>()) : finite(tensor.reals());
}

// f(a, b), element by element, rounded to their type.
template <class F>
Tensor combined(const Tensor& a, const Tensor& b, const F& f) {
  if (a.type() == DataType::kFloat) {
    Tensor result(a.type(), a.sizes());
    std::transform(a.data<float>().begin(), a.data<float>().end(), b.data<float>().begin(),
                   result.mutable_data<float>().begin(), [&](float x, float y) { return static_cast<float>(f(x, y)); });
    return result;
  }
  std::vector<double> x = a.reals();
  const std::vector<double> y = b.reals();
  std::transform(x.begin(), x.end(), y.begin(), x.begin(), f);
  return Tensor::from_reals(a.type(), a.sizes(), x);
}

Tensor added(const Tensor& a, const Tensor& b) {
  return combined(a, b, [](double x, double y) { return x + y; });
}

Tensor scaled(const Tensor& a, double factor) {
  return combined(a, a, [=](double x, double) { return x * factor; });
}

std::string joined_bytes(const std::vector<Tensor>& tensors) {
  std::string bytes;
  for (const Tensor& t : tensors) bytes.append(reinterpret_cast<const char*>(t.bytes().data()), t.byte_count());
  return bytes;
}

std::vector<Tensor> from_bytes(std::string_view bytes, const std::vector<Tensor>& like) {
  std::vector<Tensor> result;
  for (const Tensor& t : like) {
    Tensor copy(t.type(), t.sizes());
    if (bytes.size() < copy.byte_count()) throw Error(ErrorCode::kBadInput, "processes compute tensors of different sizes");
    std::memcpy(copy.mutable_bytes().data(), bytes.data(), copy.byte_count());
    bytes.remove_prefix(copy.byte_count());
    result.push_back(std::move(copy));
  }
  return result;
}

}  // namespace

struct Trainer::State {
  const Graph& model;
  const Dataset& data;
  TrainOptions options;
  Communicator& processes;
  std::int64_t shards, rows, steps_per_epoch, step = 0;
  TrainingGraphs graphs;
  std::unique_ptr<Session> whole, gradients, update;
  std::vector<Tensor> parameters, statistics, states;

  State(const Graph& m, const Dataset& d, const TrainOptions& o, Communicator& p, const Backend& backend)
      : model(m), data(d), options(o), processes(p) {
    const auto count = static_cast<std::int64_t>(processes.size());
    shards = options.shards > 0 ? options.shards : count;
    if (shards % count != 0)
      throw Error(ErrorCode::kUsage,
                  std::to_string(shards) + " shards cannot be divided among " + std::to_string(count) + " processes");
    if (options.batch < 1 || options.batch % shards != 0)
      throw Error(ErrorCode::kUsage, "a batch of " + std::to_string(options.batch) + " cannot be divided into " +
                                         std::to_string(shards) + " shards");
    rows = options.batch / shards;
    steps_per_epoch = data.size() / options.batch;
    if (steps_per_epoch == 0)
      throw Error(ErrorCode::kBadInput, "the data holds " + std::to_string(data.size()) + " examples, fewer than a batch of " +
                                            std::to_string(options.batch));
    const Graph sized = bound(model, data, rows);
    graphs = make_training_graphs(sized, options.output, options.graph);
    check_type_of_targets();
    check_targets(options.graph.loss, sized.value(find_predictions(sized, options.output)).type, data.column(kTargets));
    const auto start = [&](const std::vector<TrainedTensor>& which) {
      std::vector<Tensor> tensors;
      for (const TrainedTensor& t : which) tensors.push_back(model.value(t.in_model).constant);
      return tensors;
    };
    parameters = start(graphs.parameters), statistics = start(graphs.statistics);
    for (std::size_t kind = 0; kind < graphs.states.size(); ++kind)
      for (const Tensor& p : parameters) states.push_back(scaled(p, 0));
    const auto prepare = [&](const Graph& graph) {
      return backend.prepare(options.rewrite ? options.rewrite(graph) : graph, {.threads = options.threads});
    };
    if (shards == 1) {
      whole = prepare(graphs.step);
    } else {
      gradients = prepare(graphs.gradients);
      update = prepare(graphs.update);
    }
  }

  // The targets' column has the type that the loss needs.
  void check_type_of_targets() const {
    const Graph& graph = graphs.gradients;
    const TensorType wanted = graph.value(graph.inputs()[model.inputs().size()]).type;
    const std::vector<std::int64_t> first(static_cast<std::size_t>(rows), 0);
    const Tensor have = data.rows(kTargets, first);
    if (have.type() != wanted.type || to_indices(have.sizes()) != wanted.shape)
      throw Error(ErrorCode::kBadInput, "targets of " + std::to_string(rows) + " examples are " +
                                            to_string(TensorType{have.type(), to_indices(have.sizes())}) + ", the loss needs " +
                                            to_string(wanted));
  }

  std::int64_t steps() const { return steps_per_epoch * options.epochs; }

  // The model's inputs and the targets of one shard of the present step.
  std::vector<Tensor> shard(const std::vector<std::int64_t>& order, std::int64_t number) const {
    const std::int64_t first = (step % steps_per_epoch) * options.batch + number * rows;
    const std::span<const std::int64_t> which(order.data() + first, static_cast<std::size_t>(rows));
    std::vector<Tensor> inputs;
    for (const std::string& name : input_names(model)) inputs.push_back(data.rows(name, which));
    inputs.push_back(data.rows(kTargets, which));
    return inputs;
  }

  // One step; returns the loss. What training changes is changed only if everything is finite.
  double advance(const std::vector<std::int64_t>& order, double rate) {
    const std::vector<Tensor> schedule{Tensor::scalar(DataType::kFloat, rate),
                                       Tensor::scalar(DataType::kFloat, static_cast<double>(step + 1))};
    return shards == 1 ? advance_alone(shard(order, 0), schedule) : advance_together(order, schedule);
  }

  double advance_alone(std::vector<Tensor> inputs, const std::vector<Tensor>& schedule) {
    for (const auto* list : {&schedule, &std::as_const(parameters), &std::as_const(statistics), &std::as_const(states)})
      inputs.insert(inputs.end(), list->begin(), list->end());
    std::vector<Tensor> outputs = whole->run(inputs);
    const double loss = outputs[0].reals()[0];
    if (!std::isfinite(loss) || !std::all_of(outputs.begin(), outputs.end(), all_finite)) return NAN;
    auto next = outputs.begin() + 1;
    for (auto* list : {&parameters, &statistics, &states})
      for (Tensor& t : *list) t = std::move(*next++);
    return loss;
  }

  double advance_together(const std::vector<std::int64_t>& order, const std::vector<Tensor>& schedule) {
    const auto count = static_cast<std::int64_t>(processes.size()), rank = static_cast<std::int64_t>(processes.rank());
    std::vector<std::vector<Tensor>> mine;
    for (std::int64_t k = rank * shards / count; k < (rank + 1) * shards / count; ++k) {
      std::vector<Tensor> inputs = shard(order, k);
      for (const auto* list : {&parameters, &statistics}) inputs.insert(inputs.end(), list->begin(), list->end());
      mine.push_back(gradients->run(inputs));
    }
    std::vector<Tensor> sum = options.shards > 0 ? sum_in_order(mine) : sum_as_it_comes(mine);
    for (Tensor& t : sum) t = scaled(t, 1.0 / static_cast<double>(shards));
    const double loss = sum[0].reals()[0];
    if (!std::all_of(sum.begin(), sum.end(), all_finite)) return NAN;
    const auto first_gradient = sum.begin() + 1,
               first_statistic = first_gradient + static_cast<std::ptrdiff_t>(parameters.size());
    std::vector<Tensor> inputs = schedule;
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    inputs.insert(inputs.end(), first_gradient, first_statistic);
    inputs.insert(inputs.end(), states.begin(), states.end());
    std::vector<Tensor> outputs = update->run(inputs);
    auto next = outputs.begin();
    for (auto* list : {&parameters, &states})
      for (Tensor& t : *list) t = std::move(*next++);
    std::copy(first_statistic, sum.end(), statistics.begin());
    return loss;
  }

  // The shards of all processes, one after the other: the same bits for any number of processes.
  std::vector<Tensor> sum_in_order(const std::vector<std::vector<Tensor>>& mine) {
    std::string bytes;
    for (const auto& shard : mine) bytes += joined_bytes(shard);
    std::vector<Tensor> sum;
    for (const std::string& message : processes.all_gather(bytes)) {
      const std::size_t width = message.size() / mine.size();
      for (std::size_t k = 0; k < mine.size(); ++k) {
        std::vector<Tensor> one = from_bytes(std::string_view(message).substr(k * width, width), mine[0]);
        if (sum.empty()) {
          sum = std::move(one);
          continue;
        }
        for (std::size_t n = 0; n < sum.size(); ++n) sum[n] = added(sum[n], one[n]);
      }
    }
    return sum;
  }

  std::vector<Tensor> sum_as_it_comes(const std::vector<std::vector<Tensor>>& mine) {
    std::vector<Tensor> sum = mine[0];
    for (std::size_t k = 1; k < mine.size(); ++k)
      for (std::size_t n = 0; n < sum.size(); ++n) sum[n] = added(sum[n], mine[k][n]);
    std::vector<float> values;  // of all tensors, so that there is one message
    for (const Tensor& t : sum) {
      if (t.type() == DataType::kFloat)
        values.insert(values.end(), t.data<float>().begin(), t.data<float>().end());
      else
        for (const double v : t.reals()) values.push_back(static_cast<float>(v));
    }
    processes.sum(std::span(values));
    std::size_t next = 0;
    for (Tensor& t : sum) {
      const std::vector<double> part(values.begin() + static_cast<std::ptrdiff_t>(next),
                                     values.begin() + static_cast<std::ptrdiff_t>(next) + t.size());
      next += part.size();
      t = Tensor::from_reals(t.type(), t.sizes(), part);
    }
    return sum;
  }

  // What a checkpoint must agree in.
  std::map<std::string, std::string> facts() const {
    return {{"rewright.checkpoint", "1"},
            {"model", std::to_string(graphs.update.hash())},
            {"data", std::to_string(data.size())},
            {"batch", std::to_string(options.batch)},
            {"shards", std::to_string(options.shards)},
            {"seed", std::to_string(options.seed)}};
  }

  template <class F>
  void for_each_tensor(const F& visit) {
    for (std::size_t n = 0; n < parameters.size(); ++n) visit(graphs.parameters[n].name, parameters[n]);
    for (std::size_t n = 0; n < statistics.size(); ++n) visit(graphs.statistics[n].name, statistics[n]);
    for (std::size_t n = 0; n < states.size(); ++n)
      visit("training." + graphs.states[n / parameters.size()] + "." + graphs.parameters[n % parameters.size()].name,
            states[n]);
  }
};

Trainer::Trainer(const Graph& model, const Dataset& data, const TrainOptions& options, Communicator& processes,
                 const Backend& backend)
    : state_(std::make_unique<State>(model, data, options, processes, backend)) {}
Trainer::~Trainer() = default;

bool Trainer::run(const std::stop_token& stop, const std::function<void(const StepReport&)>& report) {
  State& s = *state_;
  std::vector<std::int64_t> order;
  std::int64_t order_of = -1;
  while (s.step < s.steps()) {
    if (s.processes.any(stop.stop_requested())) return false;
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t epoch = s.step / s.steps_per_epoch;
    if (order_of != epoch) order = shuffled(s.data.size(), s.options.seed, order_of = epoch);
    const double rate = s.options.schedule.at(s.step, s.steps());
    const double loss = s.advance(order, rate);
    const bool skipped = !std::isfinite(loss);
    if (skipped && !s.options.skip_bad_steps)
      throw Error(ErrorCode::kBadInput, "step " + std::to_string(s.step + 1) +
                                            ": the loss or a gradient is not finite; the learning rate may be too high (now " +
                                            std::to_string(rate) + "), or the data holds NaN");
    ++s.step;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (report) report({s.step, s.steps(), epoch, loss, rate, static_cast<double>(s.options.batch) / seconds, skipped});
  }
  return true;
}

TrainingCheckpoint Trainer::checkpoint() const {
  TrainingCheckpoint result{state_->facts(), {}};
  result.facts["step"] = std::to_string(state_->step);
  state_->for_each_tensor([&](const std::string& name, const Tensor& t) { result.tensors.emplace(name, t); });
  return result;
}

void Trainer::resume(const TrainingCheckpoint& checkpoint) {
  for (const auto& [key, value] : state_->facts()) {
    const auto at = checkpoint.facts.find(key);
    if (at == checkpoint.facts.end() || at->second != value)
      throw Error(ErrorCode::kBadInput, "the checkpoint is of another run: its " + key + " is " +
                                            (at == checkpoint.facts.end() ? "not there" : at->second) + ", here it is " +
                                            value);
  }
  const auto step = checkpoint.facts.find("step");
  const bool counted = step != checkpoint.facts.end() && !step->second.empty() && step->second.size() < 19 &&
                       step->second.find_first_not_of("0123456789") == std::string::npos;
  if (!counted) throw Error(ErrorCode::kBadInput, "the checkpoint does not say how far it is");
  state_->for_each_tensor([&](const std::string& name, Tensor& t) {
    const auto at = checkpoint.tensors.find(name);
    if (at == checkpoint.tensors.end() || at->second.type() != t.type() || at->second.sizes() != t.sizes())
      throw Error(ErrorCode::kBadInput, "the checkpoint does not hold '" + name + "' as this model has it");
  });
  state_->for_each_tensor([&](const std::string& name, Tensor& t) { t = checkpoint.tensors.at(name); });
  state_->step = std::stoll(step->second);
}

std::int64_t Trainer::steps_done() const { return state_->step; }
const TrainingGraphs& Trainer::graphs() const { return state_->graphs; }

Graph Trainer::trained() const {
  Graph result = state_->model;
  for (std::size_t n = 0; n < state_->parameters.size(); ++n)
    result.set_constant(state_->graphs.parameters[n].in_model, state_->parameters[n]);
  for (std::size_t n = 0; n < state_->statistics.size(); ++n)
    result.set_constant(state_->graphs.statistics[n].in_model, state_->statistics[n]);
  return result;
}

}  // namespace rewright
