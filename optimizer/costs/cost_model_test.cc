#include "optimizer/costs/cost_model.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/temporary_folder.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

OperatorTraits traits_of(const char* op, std::vector<TensorType> types, const Attributes* attributes = nullptr) {
  const Operator& found = registry().get(op);
  const std::vector<std::optional<TensorType>> operands(types.begin(), types.end());
  const Attributes normal = found.normalized(attributes ? *attributes : found.defaults(), Inputs::of(operands));
  return operator_traits(found, normal, operands);
}

double cost_of(const Graph& graph, CostModel& model) {
  const MatchedGraph facts(graph, false);
  const MatchedGraph* const one = &facts;
  model.prepare({&one, 1});
  return model.cost(facts);
}

}  // namespace

TEST_CASE("what an operator is to the cost model is read off its denotation") {
  CHECK(traits_of("MatMul", {floats({4, 8}), floats({8, 6})}).contraction);
  CHECK(traits_of("MatMul", {floats({4, 8}), floats({8, 6})}).operations >= 2 * 4 * 8 * 6 * 0.9);
  CHECK(traits_of("MatMul", {floats({4, 8}), floats({8, 6})}).operations == 2 * 4 * 8 * 6);
  // Values that depend only on a row are computed once a row.
  const double short_rows = traits_of("LayerNormalization", {floats({64, 8}), floats({8})}).operations;
  const double long_rows = traits_of("LayerNormalization", {floats({64, 800}), floats({800})}).operations;
  CHECK(long_rows < 101 * short_rows);
  CHECK(long_rows > 64 * 800 * 4);
  CHECK(traits_of("Softmax", {floats({64, 800})}).operations < 64 * 800 * 40);
  CHECK_FALSE(traits_of("Softmax", {floats({4, 8})}).contraction);
  CHECK_FALSE(traits_of("Softmax", {floats({4, 8})}).pointwise);
  const OperatorTraits sum = traits_of("Add", {floats({4, 8}), floats({8})});
  CHECK(sum.pointwise);
  CHECK(sum.aligned == std::vector<bool>{true, false});
  CHECK_FALSE(sum.free);
  CHECK(traits_of("BatchNormalization", {floats({1, 8, 4, 4}), floats({8}), floats({8}), floats({8}), floats({8})}).aligned[0]);
  CHECK(traits_of("Identity", {floats({4, 8})}).free);
  const Operator& reshape = registry().get("Reshape");
  Attributes shape = reshape.defaults();
  shape[*reshape.field("shape")] = Indices{2, 16};
  CHECK(traits_of("Reshape", {floats({4, 8})}, &shape).free);
  const Operator& transpose = registry().get("Transpose");
  Attributes perm = transpose.defaults();
  perm[*transpose.field("perm")] = Indices{1, 0};
  CHECK_FALSE(traits_of("Transpose", {floats({4, 8})}, &perm).free);
  CHECK(traits_of("Transpose", {floats({4, 8})}, &perm).moves);
  CHECK_FALSE(traits_of("Relu", {floats({4, 8})}).moves);
  CHECK(traits_of("MatMul", {floats({4, 8}), floats({8, 6})}).axes == std::vector<bool>{true, true});
  CHECK(traits_of("Conv", {floats({1, 2, 8, 8}), floats({4, 2, 3, 3})}).axes == std::vector<bool>{false, true});
  CHECK(traits_of("Transpose", {floats({1, 8})}, &perm).free);
}

TEST_CASE("constants cost nothing, fused operators next to nothing, and nothing is measured twice") {
  Graph product;
  const ValueId x = product.add_input("x", floats({64, 64}));
  const ValueId w = product.add_constant(weights({64, 64}));
  const ValueId y = add(product, "MatMul", {x, w})[0];
  Graph with_constants = product, with_relu = product;
  product.add_output("y", y);
  const ValueId w2 = add(with_constants, "Add", {w, with_constants.add_constant(weights({64, 64}, 2))})[0];
  with_constants.add_output("y", add(with_constants, "MatMul", {x, w2})[0]);
  with_constants.tidy();
  with_relu.add_output("y", add(with_relu, "Relu", {y})[0]);

  testing::RooflineDevice device;
  CostModel model(&device, nullptr, {});
  const double plain = cost_of(product, model);
  CHECK(plain > 0);
  CHECK(device.timed == 1);
  CHECK(cost_of(with_constants, model) == Approx(plain));
  CHECK(cost_of(with_relu, model) == Approx(plain).epsilon(0.05));
  CHECK(device.timed == 1);
}

TEST_CASE("a sum costs the same in either order, and is timed once") {
  // Every measurement differs.
  struct NoisyDevice : testing::RooflineDevice {
    std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
      std::vector<std::optional<double>> seconds;
      for (std::size_t i = 0; i < samples.size(); ++i) seconds.emplace_back(1e-6 * static_cast<double>(++timed));
      return seconds;
    }
  } device;
  CostModel model(&device, nullptr, {});
  const auto sum = [](bool swapped, int times) {
    Graph graph;
    ValueId y = graph.add_input("x", floats({64, 64}));
    for (int i = 0; i < times; ++i) {
      const ValueId c = graph.add_constant(weights({64}));
      y = add(graph, "Add", swapped && i == 0 ? std::vector{c, y} : std::vector{y, c})[0];
    }
    graph.add_output("y", y);
    return graph;
  };
  const double both = cost_of(sum(true, 2), model);
  CHECK(device.timed == 1);
  CHECK(cost_of(sum(false, 2), model) == both);
  CHECK(cost_of(sum(false, 1), model) == cost_of(sum(true, 1), model));
  CHECK(device.timed == 1);
  CHECK(model.operators().size() == 1);
}

TEST_CASE("peak memory counts what lives at a time, and moved bytes what is read and written") {
  constexpr double kMatrix = 64 * 64 * 4;
  const auto quantities = [](const Graph& graph) {
    CostModel model(nullptr, nullptr, {});
    return model.quantities(MatchedGraph(graph, false));
  };
  Graph graph;
  const ValueId x = graph.add_input("x", floats({64, 64})), w = graph.add_constant(weights({64, 64}));
  const ValueId y = add(graph, "MatMul", {x, w})[0], z = add(graph, "Relu", {y})[0];
  Graph fused = graph, apart = graph, longer = graph, reshaped = graph;
  fused.add_output("z", z);
  CHECK(quantities(fused).peak_bytes == 3 * kMatrix);  // in the product's memory
  CHECK(quantities(fused).moved_bytes == 3 * kMatrix);
  apart.add_output("z", z);
  apart.add_output("y", y);
  CHECK(quantities(apart).peak_bytes == 4 * kMatrix);
  CHECK(quantities(apart).moved_bytes == 5 * kMatrix);
  // A chain holds two values at a time, however long it is; a weight that is read twice counts once.
  ValueId last = z;
  for (int i = 0; i < 5; ++i) last = add(longer, "MatMul", {last, w})[0];
  longer.add_output("z", last);
  CHECK(quantities(longer).peak_bytes == 4 * kMatrix);
  CHECK(quantities(longer).moved_bytes == 6 * 3 * kMatrix);
  const Operator& reshape = registry().get("Reshape");
  Attributes shape = reshape.defaults();
  shape[*reshape.field("shape")] = Indices{4096};
  reshaped.add_output("z", reshaped.add_node(reshape, shape, {z})[0]);
  CHECK(quantities(reshaped).peak_bytes == 3 * kMatrix);
  // A value computed from constants is a weight, and its operands are not held.
  Graph folded;
  const ValueId a = folded.add_input("x", floats({64, 64}));
  const ValueId sum =
      add(folded, "Add", {folded.add_constant(weights({64, 64})), folded.add_constant(weights({64, 64}, 2))})[0];
  folded.add_output("y", add(folded, "MatMul", {a, sum})[0]);
  CHECK(quantities(folded).peak_bytes == 3 * kMatrix);
}

TEST_CASE("what only moves elements takes no time where all that reads it takes strides") {
  const Operator& split = registry().get("Split");
  const Operator& reshape = registry().get("Reshape");
  Attributes pieces = split.defaults(), shape = reshape.defaults();
  pieces[*split.field("axis")] = Index(1);
  pieces[*split.field("sizes")] = Indices{16, 16};
  shape[*reshape.field("shape")] = Indices{1, 4, 64, 4};
  // The cost of the split of [1, 32, 8, 8] if `read` adds readers of its first piece, and a product reads the second.
  const auto cost_of_split = [&](StridedReads strided, const std::function<void(Graph&, ValueId)>& read) {
    const auto cost = [&](bool with_split) {
      Graph graph;
      const ValueId x = graph.add_input("x", floats({1, 32, 8, 8})), y = graph.add_input("y", floats({1, 16, 8, 8}));
      std::vector<ValueId> parts{y, y};
      if (with_split) parts = graph.add_node(split, pieces, {x});
      graph.add_output("second", add(graph, "MatMul", {parts[1], graph.add_constant(weights({8, 8}))})[0]);
      read(graph, parts[0]);
      testing::RooflineDevice device;
      device.strided = strided;
      CostModel model(&device, nullptr, {});
      return cost_of(graph, model);
    };
    return cost(true) - cost(false);
  };
  const auto product = [](Graph& g, ValueId v) {
    g.add_output("first", add(g, "MatMul", {v, g.add_constant(weights({8, 8}))})[0]);
  };
  const auto convolution = [](Graph& g, ValueId v) {
    g.add_output("first", add(g, "Conv", {v, g.add_constant(weights({4, 16, 3, 3}))})[0]);
  };
  const auto softmax = [](Graph& g, ValueId v) { g.add_output("first", add(g, "Softmax", {v})[0]); };
  const auto relu = [](Graph& g, ValueId v) { g.add_output("first", add(g, "Relu", {v})[0]); };
  const auto relu_twice = [](Graph& g, ValueId v) {
    g.add_output("first", add(g, "Relu", {v})[0]);
    g.add_output("third", add(g, "Neg", {v})[0]);
  };
  const auto output = [](Graph& g, ValueId v) { g.add_output("first", v); };
  const auto reshaped = [&](const auto& then) {
    return [&, then](Graph& g, ValueId v) { then(g, g.add_node(reshape, shape, {v})[0]); };
  };
  const auto wide = [](Graph& g, ValueId v) {
    g.add_output("first", add(g, "MatMul", {v, g.add_constant(weights({4, 4}))})[0]);
  };
  const double full = cost_of_split(StridedReads::kNone, product), free = 0.05 * full;
  CHECK(full > 0);
  CHECK(cost_of_split(StridedReads::kProducts, product) < free);
  CHECK(cost_of_split(StridedReads::kProducts, relu) < free);
  CHECK(cost_of_split(StridedReads::kProducts, reshaped(wide)) < free);
  CHECK(cost_of_split(StridedReads::kProducts, reshaped(output)) == Approx(full).epsilon(0.05));
  CHECK(cost_of_split(StridedReads::kProducts, relu_twice) == Approx(full).epsilon(0.05));
  CHECK(cost_of_split(StridedReads::kProducts, convolution) == Approx(full).epsilon(0.05));
  CHECK(cost_of_split(StridedReads::kProducts, softmax) == Approx(full).epsilon(0.05));
  CHECK(cost_of_split(StridedReads::kProducts, output) == Approx(full).epsilon(0.05));
  CHECK(cost_of_split(StridedReads::kWindows, relu_twice) < free);
  CHECK(cost_of_split(StridedReads::kWindows, convolution) < free);
  CHECK(cost_of_split(StridedReads::kWindows, output) == Approx(full).epsilon(0.05));
}

TEST_CASE("weights that do not fit into the caches are read from beyond them") {
  // If an operator is measured alone, its weights are in the cache.
  struct WarmDevice : testing::RooflineDevice {
    std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
      return std::vector<std::optional<double>>(samples.size(), 1e-9);
    }
  };
  constexpr double kMatrix = 64 * 64 * 4;
  const auto cost = [&](int products, double cache) {
    Graph graph;
    ValueId y = graph.add_input("x", floats({1, 64}));
    for (int i = 0; i < products; ++i) y = add(graph, "MatMul", {y, graph.add_constant(weights({64, 64}, i))})[0];
    graph.add_output("y", y);
    WarmDevice device;
    device.cache = cache;
    CostModel model(&device, nullptr, {});
    model.learn(MatchedGraph(graph, false));
    return cost_of(graph, model) - products * model.least();
  };
  CHECK(cost(2, 2 * kMatrix) == Approx(2e-9));
  CHECK(cost(3, 2 * kMatrix) == Approx(3 * kMatrix / Roofline{}.bytes_per_second).epsilon(1e-3));
}

TEST_CASE("costs are kept in the database under the device's identity") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "costs.sqlite";
  Graph graph;
  graph.add_output("y", add(graph, "MatMul", {graph.add_input("x", floats({8, 8})), graph.add_constant(weights({8, 8}))})[0]);
  double first = 0;
  for (int run = 0; run < 2; ++run) {
    testing::RooflineDevice device;
    CostDatabase database(file);
    CostModel model(&device, &database, {});
    const double cost = cost_of(graph, model);
    if (run == 0) first = cost;
    CHECK(cost == first);
    CHECK(device.timed == (run == 0 ? 1 : 0));
  }
  testing::RooflineDevice other;
  other.identity_ = "another";
  CostDatabase database(file);
  CostModel model(&other, &database, {});
  cost_of(graph, model);
  CHECK(other.timed == 1);
}

TEST_CASE("a damaged database is set aside") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "costs.sqlite";
  std::ofstream(file) << std::string(5000, 'x');
  CostDatabase database(file);
  const CostDatabase::Entry entries[] = {{"a", 2.5}, {"b", std::nullopt}};
  database.store("d", entries);
  CHECK(database.find("d", "a") == std::optional(std::optional(2.5)));
  CHECK(database.find("d", "b") == std::optional<std::optional<double>>(std::in_place));
  CHECK_FALSE(database.find("d", "c"));
  CHECK_FALSE(database.find("e", "a"));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.path().filename().string().rfind("costs.sqlite", 0) == 0;
  CHECK(files == 2);
}

TEST_CASE("where no file can be, costs are kept in memory") {
  CostDatabase database("/proc/no/such/folder/costs.sqlite");
  const CostDatabase::Entry entries[] = {{"a", 1.0}};
  database.store("d", entries);
  CHECK(database.find("d", "a") == std::optional(std::optional(1.0)));
}

TEST_CASE("a cost at several sizes is the weighted mean of the costs at each") {
  Graph graph;
  const Index n = Index::symbol("n");
  ValueId x = graph.add_input("x", {DataType::kFloat, {n, Index(64)}});
  for (int layer = 0; layer < 3; ++layer) {
    const ValueId y = add(graph, "MatMul", {x, graph.add_constant(weights({64, 64}, layer))})[0];
    x = add(graph, layer == 1 ? "Softmax" : "Tanh", {add(graph, "Add", {y, graph.add_constant(weights({64}, layer))})[0]})[0];
    x = add(graph, "Mul", {x, add(graph, "Sigmoid", {x})[0]})[0];
  }
  graph.add_output("y", x);
  const auto at = [](std::int64_t size, double weight) {
    return CostedSizes{[size](const Atom&) -> std::optional<Index> { return Index(size); }, weight};
  };
  testing::RooflineDevice device;
  const MatchedGraph facts(graph, false);
  const MatchedGraph* const one = &facts;
  for (const Objective objective : {Objective::kLatency, Objective::kMemory, Objective::kEnergy}) {
    const auto cost = [&](std::vector<CostedSizes> sizes) {
      CostOptions options;
      options.sizes = std::move(sizes);
      options.objective = objective;
      CostModel model(&device, nullptr, options);
      model.learn(facts);
      model.prepare({&one, 1});
      double of_nodes = 0;
      for (const NodeWork& work : model.work(facts)) of_nodes += work.seconds;
      CHECK(of_nodes == Approx(model.quantities(facts).seconds));
      CostFork fork(model);
      fork.run([&](CostModel& other) { CHECK(other.cost(facts) == model.cost(facts)); });
      return std::pair(model.cost(facts), model.quantities(facts));
    };
    const auto small = cost({at(512, 1)}), large = cost({at(4096, 1)}), both = cost({at(512, 3), at(4096, 1)});
    CHECK(both.first == Approx((3 * small.first + large.first) / 4));
    CHECK(both.second.seconds == Approx((3 * small.second.seconds + large.second.seconds) / 4));
    CHECK(both.second.moved_bytes == Approx((3 * small.second.moved_bytes + large.second.moved_bytes) / 4));
    CHECK(both.second.peak_bytes == Approx((3 * small.second.peak_bytes + large.second.peak_bytes) / 4));
  }
}

}  // namespace rewright::optimizer
