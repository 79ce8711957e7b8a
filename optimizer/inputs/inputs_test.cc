#include "optimizer/inputs/inputs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>

#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

ValueId integers(Graph& graph, const char* name, Indices shape) {
  return graph.add_input(name, {DataType::kInt64, std::move(shape)});
}

Graph read_text(const std::string& text) { return import_onnx_bytes(text_bytes(text, 17), "test"); }

}  // namespace

TEST_CASE("positions are drawn within what they index") {
  Graph graph;
  const ValueId words = graph.add_constant(weights({50, 8})), kinds = graph.add_constant(weights({1, 8}, 2)),
                places = graph.add_constant(weights({12, 8}, 3));
  const ValueId ids = integers(graph, "ids", {2, 5}), kind = integers(graph, "kind", {2, 5}),
                place = integers(graph, "place", {2, 5});
  const ValueId mask = integers(graph, "mask", {2, 5});
  const ValueId two = graph.add_constant(Tensor::scalar(DataType::kInt64, 2));
  const ValueId sum = add(graph, "Add", {add(graph, "Gather", {words, ids})[0], add(graph, "Gather", {kinds, kind})[0]})[0];
  const ValueId shifted = add(graph, "Gather", {places, add(graph, "Add", {place, two})[0]})[0];
  const ValueId before = integers(graph, "before", {2, 5}), turned = integers(graph, "turned", {2, 5});
  const ValueId less = add(graph, "Gather", {places, add(graph, "Sub", {before, two})[0]})[0];
  const ValueId from_end = add(graph, "Gather", {places, add(graph, "Sub", {two, turned})[0]})[0];
  graph.add_output("y", add(graph, "Add", {sum, shifted})[0]);
  graph.add_output("m", add(graph, "Sub", {two, mask})[0]);
  graph.add_output("l", less);
  graph.add_output("t", from_end);
  // Tables of 50, 1, and 12 rows, of which the first two are left out, or that begin two later, or that are counted backwards.
  CHECK(integer_ranges(graph) == std::vector<IntegerRange>{{0, 49}, {0, 0}, {0, 9}, {0, 1}, {2, 13}, {0, 2}});
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const Draw draw : kDraws) {
      const std::vector<Tensor> inputs = random_inputs(graph, {}, seed, draw);
      CHECK_NOTHROW(interpret(graph, inputs));
      CHECK(inputs == random_inputs(graph, {}, seed, draw));
    }
  const std::vector<std::int64_t> drawn = random_inputs(graph, {}, 1)[0].integers();
  CHECK(*std::max_element(drawn.begin(), drawn.end()) > 1);
}

TEST_CASE("numbers are missing where a model asks whether they are") {
  const Graph graph = read_text(R"(agraph (float[40, 3] x, float[40, 3] y, float[40, 6] z, float[2, 3, 9, 9] w)
    => (float[40, 6] f, float[40, 6] s, float[2, 3, 8, 8] m, int64[2, 3, 8, 8] at)
    <float[6] means = {1, 2, 3, 4, 5, 6}>
    {
      both = Concat <axis = 1> (x, y)
      gone = IsNaN (both)
      f = Where (gone, means, both)
      p = Softmax (z)
      none = IsNaN (p)
      s = Where (none, means, p)
      m, at = MaxPool <kernel_shape = [2, 2]> (w)
    })");
  const auto missing = [&](Draw draw) {
    std::vector<std::ptrdiff_t> result;
    for (const Tensor& input : random_inputs(graph, {}, 5, draw)) {
      const std::vector<double> reals = input.reals();
      result.push_back(std::count_if(reals.begin(), reals.end(), [](double x) { return std::isnan(x); }));
    }
    return result;
  };
  const std::vector<std::ptrdiff_t> some = missing(Draw::kMissing);
  CHECK((some[0] > 0 && some[0] < 60));
  CHECK((some[1] > 0 && some[1] < 60));
  CHECK(some[2] == 0);
  CHECK(some[3] == 0);
  CHECK(missing(Draw::kUsual) == std::vector<std::ptrdiff_t>(4));
  CHECK(attempts(graph)[0].draw == Draw::kMissing);
  CHECK(attempts(read_text("agraph (float[2] x) => (float[2] y) { y = Relu (x) }"))[0].draw == Draw::kUsual);
}

TEST_CASE("positions stay in range through moves, conversions and open sizes") {
  const Graph graph = read_text(R"(agraph (int32[N, 4] ids, float[7, 3] table, float[N, 3] other) => (float[4, N, 3] y)
    {
      t = Transpose <perm = [1, 0]> (ids)
      wide = Cast <to = 7> (t)
      rows = Gather(table, wide)
      y = Add(rows, other)
    })");
  CHECK(integer_ranges(graph)[0] == IntegerRange{0, 6});
  CHECK_NOTHROW(interpret(graph, random_inputs(graph, {{"N", 5}}, 3)));
}

TEST_CASE("sizes of axes that inputs are positions in are told") {
  // Edges between nodes, and a table of open length behind a sum; the batch is none.
  const Graph graph = read_text(
      R"(agraph (int64[2, E] edges, float[N, 4] nodes, int64[B, 3] ids, float[W, 4] words) => (float[E, 4] y, float[B, 3, 4] z)
    {
      two = Constant <value_int = 2> ()
      first = Constant <value_int = 0> ()
      from = Gather(edges, first)
      y = Gather(nodes, from)
      less = Sub(ids, two)
      z = Gather(words, less)
    })");
  CHECK(indexed_sizes(graph) == std::set<std::string>{"N", "W"});
}

TEST_CASE("each of several parts is drawn as what they become is indexed") {
  // Edges with loops behind them, and positions of which a mask leaves out some; negative ones are counted from the end.
  const Graph graph = read_text(
      R"(agraph (int64[3] edges, int64[2] loops, bool[3] mask, float[7, 4] table) => (float[5, 4] y, float[3, 4] z)
    {
      all = Concat <axis = 0> (edges, loops)
      y = Gather(table, all)
      none = Constant <value_int = 0> ()
      rows = Constant <value_int = 7> ()
      below = Less(edges, none)
      above = Add(edges, rows)
      counted = Where(below, above, edges)
      kept = Where(mask, counted, none)
      z = Gather(table, kept)
    })");
  CHECK(integer_ranges(graph)[0] == IntegerRange{0, 6});
  CHECK(integer_ranges(graph)[1] == IntegerRange{0, 6});
}

TEST_CASE("what is a size is drawn small") {
  // A shape read by an operator without a denotation: large numbers would mean large tensors.
  const Graph graph = read_text(R"(agraph (int64[2] shape, float[1, 1] x) => (float[n, m] y)
    { y = Expand(x, shape) })");
  CHECK(integer_ranges(graph)[0] == IntegerRange{0, 1});
  CHECK(random_inputs(graph, {}, 1, Draw::kOnes)[0].integers() == std::vector<std::int64_t>{1, 1});
  CHECK(random_inputs(graph, {}, 1, Draw::kOpen)[0].integers() == std::vector<std::int64_t>{-1, 1});
}

TEST_CASE("inputs of integers of which the model says nothing are named") {
  const Graph graph =
      read_text(R"(agraph (int64[2] ids, int64[2] shape, int64[2] count, float[8, 4] table) => (float[n, m] y, int64[2] z)
    {
      rows = Gather(table, ids)
      y = Expand(rows, shape)
      z = Neg(count)
    })");
  CHECK(inputs_without_range(graph) == std::vector<std::string>{"shape", "count"});
}

}  // namespace rewright::optimizer
