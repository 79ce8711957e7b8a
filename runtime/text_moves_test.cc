// Texts that are moved by compiled moves of numbers are those that the interpreter moves.
#include "runtime/text_moves.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/execute.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "operators/texts.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/mixed.h"

namespace rewright::runtime {

namespace {

Graph model_with(const std::string& graph) { return import_onnx_bytes(text_bytes(graph), "test"); }

std::vector<Tensor> run_compiled(const Graph& graph, const std::vector<Tensor>& inputs) {
  return prepare_session(cpu::cpu_backend(), graph, {})->run(inputs);
}

}  // namespace

TEST_CASE("random moves of texts are those of the interpreter") {
  std::mt19937 random(11);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 40; ++round) {
    const std::int64_t rows = draw(1, 700), columns = draw(1, 5);
    const std::string type = "string[" + std::to_string(rows) + "," + std::to_string(columns) + "]";
    std::vector<std::int64_t> indices(static_cast<std::size_t>(draw(1, 4)));
    for (std::int64_t& index : indices) index = draw(-columns, columns - 1);
    const std::string graph = "test (" + type + " x, " + type + " y, bool[" + std::to_string(rows) +
                              ",1] mask, int64[K] places) => (string gathered, string joined, string turned, string chosen, "
                              "string part, string stretched) {\n"
                              "gathered = Gather <axis = 1> (x, places)\n"
                              "joined = Concat <axis = 0> (x, y, x)\n"
                              "turned = Transpose <perm = [1, 0]> (joined)\n"
                              "chosen = Where (mask, y, x)\n"
                              "start = Constant <value = int64[1] {1}> ()\n"
                              "end = Constant <value = int64[1] {1000}> ()\n"
                              "part = Slice (joined, start, end)\n"
                              "sizes = Constant <value = int64[3] {2, 1, 1}> ()\n"
                              "stretched = Expand (chosen, sizes)\n}";
    INFO(graph);
    const Sizes sizes{rows, columns};
    std::vector<std::int64_t> mask(static_cast<std::size_t>(rows));
    for (std::int64_t& element : mask) element = draw(0, 1);
    const std::vector<Tensor> inputs{
        operators::random_texts(sizes, random()), operators::random_texts(sizes, random()),
        Tensor::from_integers(DataType::kBool, {rows, 1}, mask),
        Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(indices.size())}, indices)};
    const Graph imported = model_with(graph);
    const std::vector<Tensor> actual = run_compiled(imported, inputs), expected = interpret(imported, inputs);
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) CHECK(actual[i] == expected[i]);
  }
}

TEST_CASE("all texts in their order share the operand's memory, however many they are") {
  for (const std::int64_t rows : {3, 2000}) {
    const Graph graph = model_with(
        "test (string[N, 1] x) => (string y) {\n"
        "first = Constant <value = int64[1] {0}> ()\n"
        "y = Gather <axis = 1> (x, first)\n}");
    const Tensor x = operators::random_texts({rows, 1}, 3);
    CHECK(run_compiled(graph, {x}).at(0).strings().data() == x.strings().data());
  }
}

TEST_CASE("many texts are moved by a session, few by the interpreter") {
  const Graph graph = model_with("test (string[N] x, string[M] y) => (string z) { z = Concat <axis = 0> (x, y, x) }");
  const auto moves = TextMoves::of(graph, *graph.nodes()[0], cpu::cpu_backend(), {});
  REQUIRE(moves);
  for (const std::int64_t count : {10, 3000}) {
    const Tensor x = operators::random_texts({count}, 3), y = operators::random_texts({7}, 4);
    const auto results = moves->run(std::vector<Datum>{x, y, x});
    REQUIRE(results.has_value() == (count > 1000));
    if (results) CHECK(results->at(0).tensor() == interpret(graph, std::vector<Tensor>{x, y}).at(0));
  }
  const Graph compared = model_with("test (string[N] x, string[N] y) => (bool z) { z = Equal (x, y) }");
  const auto looks = TextMoves::of(compared, *compared.nodes()[0], cpu::cpu_backend(), {});
  const Tensor x = operators::random_texts({3000}, 3);
  CHECK((!looks || !looks->run(std::vector<Datum>{x, x})));
}

TEST_CASE("a position outside of the texts is refused") {
  const Graph graph = model_with("test (string[N] x, int64[K] places) => (string y) { y = Gather (x, places) }");
  const Tensor x = operators::random_texts({2000}, 5);
  for (const std::int64_t place : {2000, -2001})
    CHECK_THROWS_AS(run_compiled(graph, {x, Tensor::from_integers(DataType::kInt64, {1}, std::vector{place})}), Error);
}

}  // namespace rewright::runtime
