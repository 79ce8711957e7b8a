#include "runtime/training/graphs/row_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "operators/testing/share.h"
#include "runtime/testing.h"

namespace rewright::training {
namespace {

using testing::node, testing::RandomGraph;

struct Joined {
  bool is_gemm = false, is_read_twice = false, is_output = false, splits_others = false, has_row_addend = false;
  bool is_reordered() const { return !is_read_twice && !is_output && !splits_others && !has_row_addend; }
};

// The product of all rows of [length, ..., samples] with a matrix, between two functions.
RandomGraph sequence(unsigned seed, Joined& kind, std::int64_t samples) {
  RandomGraph g(seed);
  kind = {g.pick(0, 1) == 1, g.pick(0, 5) == 0, g.pick(0, 5) == 0, g.pick(0, 5) == 0, g.pick(0, 5) == 0};
  kind.has_row_addend &= kind.is_gemm;
  const std::int64_t length = g.pick(2, 4), width = g.pick(1, 3), features = width + 1;
  Sizes from{length, samples, width};
  if (g.pick(0, 1) == 1) from.insert(from.begin() + g.pick(0, 1), g.pick(2, 3));
  const std::int64_t rows = element_count(from) / width;
  const ValueId x = g.input({samples, element_count(from) / samples});
  ValueId now = node(g.graph, "Reshape", {node(g.graph, "Tanh", {x}).at(0)}, {{"shape", to_indices(from)}}).at(0);
  const ValueId joined = now = node(g.graph, "Reshape", {now}, {{"shape", Indices{rows, width}}}).at(0);
  if (kind.is_gemm) {
    const bool turned = g.pick(0, 1) == 1;
    std::vector<ValueId> operands{now, turned ? g.constant({features, width}) : g.constant({width, features})};
    if (kind.has_row_addend)
      operands.push_back(g.constant({rows, g.pick(0, 1) == 1 ? features : 1}));
    else if (g.pick(0, 2) > 0)
      operands.push_back(g.pick(0, 1) == 1 ? g.constant({features}) : g.constant({1, features}));
    now = node(g.graph, "Gemm", operands, {{"transB", turned}, {"alpha", Real(0.5)}}).at(0);
  } else {
    now = node(g.graph, "MatMul", {now, g.constant({width, features})}).at(0);
  }
  if (kind.is_read_twice) g.graph.add_output("twice", node(g.graph, "Exp", {g.pick(0, 1) == 1 ? joined : now}).at(0));
  if (kind.is_output) g.graph.add_output("rows", now);
  Sizes to = from;
  to.back() = features;
  if (kind.splits_others) to = {element_count(to) / features / length, length, features};
  g.graph.add_output("y", node(g.graph, "Sigmoid", {node(g.graph, "Reshape", {now}, {{"shape", to_indices(to)}}).at(0)}).at(0));
  return g;
}

// The sizes that are joined to the rows of the product.
Indices joined_sizes(const Graph& graph) {
  const auto producers = graph.producers();
  for (const auto& n : graph.nodes())
    if (n->op && (n->op->name() == "Gemm" || n->op->name() == "MatMul"))
      return graph.value(graph.nodes()[static_cast<std::size_t>(producers[n->inputs[0]])]->inputs[0]).type.shape;
  return {};
}

}  // namespace

TEST_CASE("row order: products of sequences have their rows by sample, and the same elements") {
  std::size_t reordered = 0, kept = 0;
  for (unsigned seed = 0; seed < testing::instances(150); ++seed) {
    constexpr std::int64_t kSamples = 7;  // no other size
    Joined kind;
    RandomGraph g = sequence(seed, kind, kSamples);
    INFO("seed " << seed << "\n" << to_string(g.graph));
    const auto expected = interpret(g.graph, g.inputs);
    const Indices before = joined_sizes(g.graph);
    const std::size_t nodes = g.graph.nodes().size();
    put_samples_outermost(g.graph);
    INFO("now\n" << to_string(g.graph));
    const auto actual = interpret(g.graph, g.inputs);
    REQUIRE(actual.size() == expected.size());
    for (std::size_t o = 0; o < actual.size(); ++o) CHECK(actual[o] == expected[o]);
    if (kind.is_reordered()) {
      CHECK(joined_sizes(g.graph)[0] == Index(kSamples));
      ++reordered;
    } else {
      CHECK(joined_sizes(g.graph) == before);
      CHECK(g.graph.nodes().size() == nodes);
      ++kept;
    }
    // Once is enough.
    const std::size_t now = g.graph.nodes().size();
    put_samples_outermost(g.graph);
    CHECK(g.graph.nodes().size() == now);
  }
  CHECK(reordered > testing::instances(150) / 10);
  CHECK(kept > testing::instances(150) / 10);
}

}  // namespace rewright::training
