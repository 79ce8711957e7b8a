#include "graph/onnx/written_graphs.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>

#include "graph/execute.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

// Products with some of the weights, in a random order.
Graph products(std::span<const Tensor> weights, std::mt19937& random, std::vector<const Tensor*>& used) {
  Graph graph;
  const Operator& op = registry().get("MatMul");
  ValueId x = graph.add_input("x", {DataType::kFloat, Indices{2, 32}});
  const std::size_t count = 1 + random() % 4;
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& weight = weights[random() % weights.size()];
    used.push_back(&weight);
    x = graph.add_node(op, op.defaults(), {x, graph.add_constant(weight, "w" + std::to_string(i))})[0];
  }
  graph.add_output("y", x);
  return graph;
}

}  // namespace

TEST_CASE("graphs that are written for other processes have their weights in common") {
  std::mt19937 random(1);
  std::vector<Tensor> weights;
  for (int i = 0; i < 5; ++i) weights.push_back(testing::random_tensor({DataType::kFloat, Indices{32, 32}}, random));
  for (const bool shared : {true, false}) {
    WrittenGraphs files(shared ? 0 : WrittenGraphs::kLeastShared);
    std::set<const Tensor*> used;
    for (int round = 0; round < 20; ++round) {
      std::vector<const Tensor*> here;
      const Graph graph = products(weights, random, here);
      used.insert(here.begin(), here.end());
      const std::filesystem::path file = files.write(graph);
      CHECK(files.write(Graph(graph)) == file);
      const std::vector<Tensor> inputs{testing::random_tensor({DataType::kFloat, Indices{2, 32}}, random)};
      CHECK(interpret(import_onnx(file), inputs) == interpret(graph, inputs));
      if (shared) CHECK(std::filesystem::file_size(files.folder() / "weights") == used.size() * 4096);
      CHECK((std::filesystem::file_size(file) < 4096) == shared);
    }
  }
}

}  // namespace rewright::graph
