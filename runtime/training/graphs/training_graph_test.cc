#include "runtime/training/graphs/training_graph.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "graph/builder.h"
#include "operators/definitions/random_bits.h"
#include "operators/testing.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/training/graphs/mixed_precision.h"

namespace rewright::training {
namespace {

using cpu::cpu_backend;
using testing::random_tensor;
using testing::tensor;

// x [4, 3] -> 5 -> relu -> 2 classes, in double.
Graph perceptron(std::mt19937& random) {
  Graph g;
  const ValueId x = g.add_input("x", {DataType::kDouble, {4, 3}});
  NodeBuilder b(g);
  const auto layer = [&](ValueId in, std::int64_t from, std::int64_t to, const std::string& name) {
    const ValueId w = g.add_constant(random_tensor({from, to}, random), "w" + name);
    return b.add("Add", {b.add("MatMul", {in, w}), g.add_constant(random_tensor({to}, random), "b" + name)});
  };
  g.add_output("y", layer(b.add("Relu", {layer(x, 3, 5, "1")}), 5, 2, "2"));
  return g;
}

TEST_CASE("a loss is what its formula says") {
  const std::vector<double> x{0.5, -1, 2, 0, 3, -2};
  const auto loss = [&](Loss kind, const Tensor& targets) {
    Graph g;
    const ValueId p = g.add_input("p", {DataType::kDouble, {2, 3}});
    const ValueId t = g.add_input("t", {targets.type(), to_indices(targets.sizes())});
    g.add_output("loss", add_loss(g, kind, p, t));
    const std::vector<Tensor> inputs{tensor({2, 3}, x), targets};
    return interpret(g, inputs).at(0).reals().at(0);
  };
  double cross = 0, square = 0, binary = 0;
  const std::vector<std::int64_t> classes{2, 0};
  const std::vector<double> wanted{1, 0, 0.25, 0.5, 1, 0};
  for (std::size_t n = 0; n < 2; ++n) {
    double total = 0;
    for (std::size_t c = 0; c < 3; ++c) total += std::exp(x[3 * n + c]);
    cross -= std::log(std::exp(x[3 * n + static_cast<std::size_t>(classes[n])]) / total) / 2;
  }
  for (std::size_t n = 0; n < 6; ++n) {
    const double s = 1 / (1 + std::exp(-x[n]));
    square += (x[n] - wanted[n]) * (x[n] - wanted[n]) / 6;
    binary -= (wanted[n] * std::log(s) + (1 - wanted[n]) * std::log(1 - s)) / 6;
  }
  CHECK(loss(Loss::kSoftmaxCrossEntropy, Tensor::from_integers(DataType::kInt64, {2}, classes)) == Approx(cross));
  CHECK(loss(Loss::kMeanSquared, tensor({2, 3}, wanted)) == Approx(square));
  CHECK(loss(Loss::kBinaryCrossEntropy, tensor({2, 3}, wanted)) == Approx(binary));
  CHECK_THROWS_AS(loss(Loss::kMeanSquared, tensor({3, 2}, wanted)), Error);
}

// The formulas of the papers, one element at a time.
struct Reference {
  Update update;
  std::vector<double> w, first, second;
  void step(const std::vector<double>& gradient, double rate, int t) {
    const auto length = [](const std::vector<double>& v) {
      double sum = 0;
      for (const double e : v) sum += e * e;
      return std::sqrt(sum);
    };
    std::vector<double> g = gradient, direction(w.size());
    const bool apart = update.method == UpdateMethod::kAdamW || update.method == UpdateMethod::kLamb;
    if (!apart)
      for (std::size_t n = 0; n < w.size(); ++n) g[n] += update.weight_decay * w[n];
    const double lars = update.trust * length(w) / length(g);
    for (std::size_t n = 0; n < w.size(); ++n) {
      switch (update.method) {
        case UpdateMethod::kSgd:
          direction[n] = g[n];
          break;
        case UpdateMethod::kMomentum:
          direction[n] = first[n] = update.momentum * first[n] + g[n];
          break;
        case UpdateMethod::kNesterov:
          first[n] = update.momentum * first[n] + g[n];
          direction[n] = g[n] + update.momentum * first[n];
          break;
        case UpdateMethod::kAdagrad:
          first[n] += g[n] * g[n];
          direction[n] = g[n] / (std::sqrt(first[n]) + update.epsilon);
          break;
        case UpdateMethod::kLars:
          first[n] = update.momentum * first[n] + rate * lars * g[n];
          direction[n] = first[n] / rate;
          break;
        default:
          first[n] = update.beta1 * first[n] + (1 - update.beta1) * g[n];
          second[n] = update.beta2 * second[n] + (1 - update.beta2) * g[n] * g[n];
          direction[n] = first[n] / (1 - std::pow(update.beta1, t)) /
                         (std::sqrt(second[n] / (1 - std::pow(update.beta2, t))) + update.epsilon);
          if (apart) direction[n] += update.weight_decay * w[n];
      }
    }
    const double lamb = update.method == UpdateMethod::kLamb ? length(w) / length(direction) : 1;
    for (std::size_t n = 0; n < w.size(); ++n) w[n] -= rate * lamb * direction[n];
  }
};

TEST_CASE("updates are those of the papers") {
  std::mt19937 random(3);
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "adam", "adamw", "lars", "lamb"}) {
    INFO(name);
    const Update update{.method = update_method_from_name(name), .weight_decay = 0.1, .trust = 0.02};
    Graph g;
    const TensorType type{DataType::kDouble, {2, 3}}, scalar{DataType::kDouble, {}};
    const ValueId rate = g.add_input("rate", scalar), step = g.add_input("step", scalar);
    const ValueId w = g.add_input("w", type), gradient = g.add_input("g", type);
    std::vector<ValueId> states;
    for (const std::string& kind : states_of(update.method)) states.push_back(g.add_input(kind, type));
    const Updated updated = add_update(g, update, w, gradient, states, rate, step);
    g.add_output("w after", updated.parameter);
    for (const ValueId s : updated.states) g.add_output("", s);

    std::vector<Tensor> now{random_tensor({2, 3}, random)};
    for (std::size_t n = 0; n < states.size(); ++n) now.push_back(tensor({2, 3}, std::vector<double>(6, 0)));
    Reference reference{update, now[0].reals(), std::vector<double>(6, 0), std::vector<double>(6, 0)};
    for (int t = 1; t <= 4; ++t) {
      const Tensor moved = random_tensor({2, 3}, random);
      std::vector<Tensor> inputs{Tensor::scalar(DataType::kDouble, 0.1 * t), Tensor::scalar(DataType::kDouble, t), now[0],
                                 moved};
      inputs.insert(inputs.end(), now.begin() + 1, now.end());
      now = interpret(g, inputs);
      reference.step(moved.reals(), 0.1 * t, t);
      for (std::size_t n = 0; n < 6; ++n) CHECK(now[0].reals()[n] == Approx(reference.w[n]));
    }
  }
}

TEST_CASE("a step in one graph is gradients and update, and it lowers the loss") {
  std::mt19937 random(4);
  const Graph model = perceptron(random);
  const TrainingGraphOptions options{.update = {.method = UpdateMethod::kAdam}};
  const TrainingGraphs graphs = make_training_graphs(model, "", options);
  REQUIRE(graphs.parameters.size() == 4);
  REQUIRE(graphs.states.size() == 2);

  const std::vector<Tensor> data{random_tensor({4, 3}, random),
                                 Tensor::from_integers(DataType::kInt64, {4}, std::vector<std::int64_t>{0, 1, 1, 0})};
  std::vector<Tensor> parameters, states;
  for (const TrainedTensor& p : graphs.parameters) parameters.push_back(model.value(p.in_model).constant);
  for (std::size_t kind = 0; kind < 2; ++kind)
    for (const Tensor& p : parameters)
      states.push_back(tensor(p.sizes(), std::vector<double>(static_cast<std::size_t>(p.size()), 0)));
  const auto joined = [](std::initializer_list<std::vector<Tensor>> lists) {
    std::vector<Tensor> all;
    for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  };
  double first = 0, loss = 0;
  for (int t = 1; t <= 60; ++t) {
    const std::vector<Tensor> schedule{Tensor::scalar(DataType::kFloat, 0.05), Tensor::scalar(DataType::kFloat, t)};
    const auto number = [](double v) { return Tensor::scalar(DataType::kFloat, v); };
    const std::vector<Tensor> place{number(t), number(0), number(1)};  // step, part, scale
    const std::vector<Tensor> whole = interpret(graphs.step, joined({data, place, {schedule[0]}, parameters, states}));
    const std::vector<Tensor> found = interpret(graphs.gradients, joined({data, place, parameters}));
    CHECK(whole.back().integers() == std::vector<std::int64_t>{1});
    const std::vector<Tensor> gradients(found.begin() + 1, found.end());
    const std::vector<Tensor> updated = interpret(graphs.update, joined({schedule, parameters, gradients, states}));
    CHECK(whole[0].reals() == found[0].reals());
    for (std::size_t n = 0; n < updated.size(); ++n) CHECK(whole[n + 1].reals() == updated[n].reals());
    parameters.assign(updated.begin(), updated.begin() + 4);
    states.assign(updated.begin() + 4, updated.end());
    loss = found[0].reals()[0];
    if (t == 1) first = loss;
  }
  CHECK(loss < first / 4);
  // Gradients that are not finite change nothing.
  std::vector<double> broken = data[0].reals();
  broken[4] = INFINITY;
  const std::vector<Tensor> place{Tensor::scalar(DataType::kFloat, 61), Tensor::scalar(DataType::kFloat, 0),
                                  Tensor::scalar(DataType::kFloat, 1), Tensor::scalar(DataType::kFloat, 0.05)};
  const std::vector<Tensor> after =
      interpret(graphs.step, joined({{tensor({4, 3}, broken), data[1]}, place, parameters, states}));
  CHECK(after.back().integers() == std::vector<std::int64_t>{0});
  const std::vector<Tensor> before = joined({parameters, states});
  for (std::size_t n = 0; n < before.size(); ++n) CHECK(after[n + 1] == before[n]);
}

TEST_CASE("gradients of a step are clipped by the length of all of them") {
  std::mt19937 random(5);
  const Graph model = perceptron(random);
  const TrainingGraphs graphs = make_training_graphs(model, "", {.clip_norm = 0.01});
  std::vector<Tensor> inputs{random_tensor({4, 3}, random),
                             Tensor::from_integers(DataType::kInt64, {4}, std::vector<std::int64_t>{0, 1, 1, 0})};
  for (const double v : {1, 0, 1, 1}) inputs.push_back(Tensor::scalar(DataType::kFloat, v));  // step, part, scale, rate
  for (const TrainedTensor& p : graphs.parameters) inputs.push_back(model.value(p.in_model).constant);
  const std::vector<Tensor> after = interpret(graphs.step, inputs);
  double moved = 0;
  for (std::size_t p = 0; p < graphs.parameters.size(); ++p) {
    const std::vector<double> from = inputs[6 + p].reals(), to = after[1 + p].reals();
    for (std::size_t n = 0; n < from.size(); ++n) moved += (to[n] - from[n]) * (to[n] - from[n]);
  }
  CHECK(std::sqrt(moved) == Approx(0.01).epsilon(1e-4));
}

TEST_CASE("numbers rounded at random have themselves as their mean, and are one of their neighbours") {
  std::mt19937 random(6);
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    // Includes numbers near powers of 2, where the spacing changes, and below the smallest normal numbers.
    std::vector<double> x{1, -1, 1 + 1e-5, -1 + 1e-5, 2 - 1e-4, 0, 3e-8, type == DataType::kHalf ? -1e-7 : -3e-40, 0.1, -700.3};
    std::uniform_real_distribution<double> uniform(-3, 3);
    while (x.size() < 40) x.push_back(static_cast<float>(uniform(random)));
    const auto count = static_cast<std::int64_t>(x.size());
    const Tensor values = Tensor::from_reals(DataType::kFloat, {count}, x);
    const std::vector<double> wanted = values.reals();
    Graph g;
    NodeBuilder b(g);
    const TensorType scalar{DataType::kInt64, {}};
    const ValueId v = g.add_input("x", {DataType::kFloat, {count}});
    const RandomSource source{11, g.add_input("step", scalar), g.add_input("part", scalar)};
    g.add_output("", b.cast(add_stochastic_round(b, v, type, source), DataType::kDouble));
    std::vector<double> sum(x.size()), low(x.size(), INFINITY), high(x.size(), -INFINITY);
    constexpr int kSteps = 4000;
    const auto session = cpu_backend().prepare(g, {});
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<Tensor> inputs{values, Tensor::scalar(DataType::kInt64, step), Tensor::scalar(DataType::kInt64, 0)};
      const std::vector<double> found = session->run(inputs)[0].reals();
      for (std::size_t n = 0; n < x.size(); ++n)
        sum[n] += found[n], low[n] = std::min(low[n], found[n]), high[n] = std::max(high[n], found[n]);
    }
    for (std::size_t n = 0; n < x.size(); ++n) {
      INFO(name(type) << ": " << wanted[n]);
      CHECK(low[n] <= wanted[n]);
      CHECK(high[n] >= wanted[n]);
      // Both results, if different, are neighbours: numbers between them round to one of them.
      const double between = converted(Tensor::scalar(DataType::kDouble, (low[n] + high[n]) / 2), type).reals()[0];
      CHECK((between == low[n] || between == high[n]));
      // Five deviations.
      CHECK(std::abs(sum[n] / kSteps - wanted[n]) <= 5 * 0.5 * (high[n] - low[n]) / std::sqrt(kSteps));
      // Exactly representable parameters stay unchanged.
      if (converted(Tensor::scalar(DataType::kDouble, wanted[n]), type).reals()[0] == wanted[n]) CHECK(low[n] == high[n]);
    }
  }
}

TEST_CASE("small steps are lost by rounding to the nearest, and not by rounding at random") {
  // w = 1, gradient 1, rate 2^-12: a sixteenth of the distance to the next smaller bfloat16.
  const auto after = [](bool stochastic, std::uint64_t seed) {
    TrainingGraphOptions options;
    options.seed = seed, options.stochastic = stochastic;
    const auto session = cpu_backend().prepare(make_update_graph({{"w", {DataType::kBfloat16, {256}}}}, options), {});
    Tensor w = Tensor::from_reals(DataType::kBfloat16, {256}, std::vector<double>(256, 1));
    const Tensor gradient = w;
    for (int step = 1; step <= 64; ++step) {
      const auto number = [](double v) { return Tensor::scalar(DataType::kFloat, v); };
      w = session->run(std::vector{number(0x1p-12), number(step), w, gradient})[0];
    }
    double sum = 0;
    for (const double v : w.reals()) sum += v;
    return sum / 256;
  };
  CHECK(after(false, 1) == 1);
  for (const std::uint64_t seed : {1, 2, 3}) CHECK(std::abs(after(true, seed) - (1 - 64 * 0x1p-12)) < 2.5e-3);
  CHECK(after(true, 1) == after(true, 1));
}

TEST_CASE("what is dropped depends on the seed, the step and the part alone") {
  // The first of the generator's published test vectors.
  const Tensor zero = Tensor::scalar(DataType::kInt64, 0);
  CHECK(testing::evaluate("RandomBits", {zero, zero}, {{"count", Index(4)}})[0].integers() ==
        std::vector<std::int64_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  Graph g;
  NodeBuilder b(g);
  const TensorType scalar{DataType::kInt64, {}};
  const ValueId x = g.add_input("x", {DataType::kDouble, {50, 41}});
  RandomSource random{7, g.add_input("step", scalar), g.add_input("part", scalar)};
  for (int k = 0; k < 2; ++k) {
    const auto [y, kept] = add_dropout(b, x, 0.3, random);
    g.add_output("", y), g.add_output("", kept);
  }
  const auto masks = [&](std::int64_t step, std::int64_t part) {
    const std::vector<Tensor> inputs{tensor({50, 41}, std::vector<double>(2050, 3)), Tensor::scalar(DataType::kInt64, step),
                                     Tensor::scalar(DataType::kInt64, part)};
    return interpret(g, inputs);
  };
  const std::vector<Tensor> found = masks(1, 0);
  CHECK(found == masks(1, 0));
  CHECK(found[1] != found[3]);
  CHECK(found[1] != masks(2, 0)[1]);
  CHECK(found[1] != masks(1, 1)[1]);
  double kept = 0;
  for (std::size_t n = 0; n < 2050; ++n) {
    const bool is = found[1].integers()[n] != 0;
    kept += is;
    CHECK(found[0].reals()[n] == (is ? Approx(3 / 0.7) : Approx(0)));
  }
  CHECK(std::abs(kept / 2050 - 0.7) < 0.04);  // four deviations
}

TEST_CASE("products are those whose denotation sums products") {
  const auto product = [](const std::string& name, const std::vector<Indices>& shapes, const testing::Named& fields = {}) {
    Graph g;
    std::vector<ValueId> inputs;
    for (const Indices& shape : shapes)
      inputs.push_back(g.add_input("x" + std::to_string(inputs.size()), testing::reals(shape)));
    const Operator& op = registry().get(name);
    const ValueId y = g.add_node(op, testing::attributes(op, fields), inputs)[0];
    const Node& node = *g.nodes()[0];
    const bool is = is_product(g, node);
    g.add_output("y", y);
    use_short_products(g, DataType::kBfloat16);
    CHECK((g.value(g.outputs()[0].value).type.type == DataType::kFloat));
    return is;
  };
  CHECK(product("MatMul", {{2, 3}, {3, 4}}));
  CHECK(product("Gemm", {{2, 3}, {3, 4}, {4}}, {{"alpha", Real(0.5)}}));
  CHECK(product("Conv", {{1, 2, 5}, {3, 2, 3}, {3}}, {{"pads_begin", Indices{1}}, {"pads_end", Indices{1}}}));
  CHECK(product("ConvTranspose", {{1, 2, 5}, {2, 3, 3}}));
  CHECK(product("Einsum", {{2, 3}, {3, 4}}, {{"equation", std::string("ij,jk->ik")}}));
  CHECK(!product("Mul", {{2, 3}, {2, 3}}));
  CHECK(!product("ReduceSumSquare", {{2, 3}}));
  CHECK(!product("LayerNormalization", {{2, 3}, {3}, {3}}));
  CHECK(!product("Softmax", {{2, 3}}));
}

TEST_CASE("batch normalizations train on the statistics of the batch") {
  std::mt19937 random(5);
  Graph model;
  NodeBuilder b(model);
  const ValueId x = model.add_input("x", {DataType::kDouble, {4, 2, 3}});
  const auto constant = [&](const char* name, std::vector<double> v) { return model.add_constant(tensor({2}, v), name); };
  model.add_output("y", b.add("BatchNormalization", {x, constant("scale", {1, 2}), constant("shift", {0, 1}),
                                                     constant("mean", {5, 5}), constant("variance", {7, 7})}));
  const TrainingGraphs graphs = make_training_graphs(model, "y", {.loss = Loss::kMeanSquared, .batch_norm_momentum = 0.75});
  REQUIRE(graphs.parameters.size() == 2);
  REQUIRE(graphs.statistics.size() == 2);
  const Tensor data = random_tensor({4, 2, 3}, random);
  const std::vector<Tensor> inputs{data,
                                   random_tensor({4, 2, 3}, random),
                                   Tensor::scalar(DataType::kFloat, 1),
                                   Tensor::scalar(DataType::kFloat, 0),
                                   Tensor::scalar(DataType::kFloat, 1),
                                   tensor({2}, {1, 2}),
                                   tensor({2}, {0, 1}),
                                   tensor({2}, {5, 5}),
                                   tensor({2}, {7, 7})};
  const std::vector<Tensor> outputs = interpret(graphs.gradients, inputs);
  for (std::size_t c = 0; c < 2; ++c) {
    double mean = 0, square = 0;
    for (std::size_t n = 0; n < 4; ++n)
      for (std::size_t p = 0; p < 3; ++p) {
        const double e = data.reals()[(n * 2 + c) * 3 + p];
        mean += e / 12, square += e * e / 12;
      }
    CHECK(outputs.at(3).reals()[c] == Approx(0.75 * 5 + 0.25 * mean));
    CHECK(outputs.at(4).reals()[c] == Approx(0.75 * 7 + 0.25 * (square - mean * mean)));
  }
}

TEST_CASE("what a Relu is given is not kept for its gradient, which reads what it gives") {
  std::mt19937 random(1);
  const TrainingGraphs graphs = make_training_graphs(perceptron(random), "", {});
  const auto nodes = graphs.gradients.nodes();
  const auto relu =
      std::ranges::find_if(nodes, [](const auto& node) { return node->op != nullptr && node->op->name() == "Relu"; });
  REQUIRE(relu != nodes.end());
  const auto readers = [&](ValueId value) {
    return std::ranges::count_if(nodes, [&](const auto& node) { return std::ranges::count(node->inputs, value) > 0; });
  };
  CHECK(readers(relu->get()->inputs[0]) == 1);
  CHECK(readers(relu->get()->outputs[0]) == 3);  // the next layer, the gradient of its weights, and that of the Relu itself
}

}  // namespace
}  // namespace rewright::training
