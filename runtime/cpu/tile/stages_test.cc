// Work that many elements share is computed once.
#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using rewright::testing::node;
using StagesBuilder = rewright::testing::GraphBuilder;

namespace {

// Integers from 0 to `size` - 1, computed from a tensor of these sizes.
ValueId computed_positions(StagesBuilder& b, const Sizes& sizes, std::int64_t size) {
  const ValueId x = b.input(DataType::kFloat, sizes);
  ValueId y = node(b.graph, "Floor", {node(b.graph, "Mul", {x, b.constant({}, 1, 9)})[0]})[0];
  y = node(b.graph, "Clip",
           {y, b.graph.add_constant(Tensor::scalar(DataType::kFloat, 0)),
            b.graph.add_constant(Tensor::scalar(DataType::kFloat, static_cast<double>(size - 1)))})[0];
  return node(b.graph, "Cast", {y}, {{"to", DataType::kInt64}})[0];
}

}  // namespace

// The sizes reach from where that is not worth it to several tiles.
TEST_CASE("samples at places that all channels share") {
  for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
    CAPTURE(seed);
    StagesBuilder b(seed);
    const std::int64_t n = b.pick(1, 3), c = b.pick(1, 24), area = b.pick(1, 50),
                       points = b.pick(1, seed % 4 == 0 ? 1500 : 200);
    const ValueId images = b.input(DataType::kFloat, {n, c, area});
    ValueId total = kNoValue;
    for (std::int64_t tap = b.pick(1, 3); tap > 0; --tap) {
      const ValueId places = node(b.graph, "Expand", {computed_positions(b, {n, 1, points}, area)},
                                  {{"shape", to_indices(Sizes{n, c, points})}})[0];
      const ValueId found = node(b.graph, "GatherElements", {images, places}, {{"axis", Index(2)}})[0];
      ValueId weight = node(b.graph, "Sigmoid", {b.input(DataType::kFloat, {n, 1, points})})[0];
      if (b.pick(0, 1)) weight = node(b.graph, "Div", {weight, b.input(DataType::kFloat, {1, c, 1}, 1, 2)})[0];
      const ValueId term = node(b.graph, "Mul", {found, weight})[0];
      total = total == kNoValue ? term : node(b.graph, "Add", {total, term})[0];
    }
    b.check(total);
  }
}

TEST_CASE("tables that all heads look up, and statistics behind shared work") {
  for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
    CAPTURE(seed);
    StagesBuilder b(seed);
    const std::int64_t batch = b.pick(1, 2), heads = b.pick(1, 20), length = b.pick(1, 24), width = b.pick(1, 16);
    const ValueId table = b.input(DataType::kFloat, {b.pick(1, 30), width}),
                  x = b.input(DataType::kFloat, {batch, heads, length, width});
    const std::int64_t rows = values(b.graph.value(table).type.shape)[0];
    ValueId found = node(b.graph, "Gather", {table, computed_positions(b, {batch, length}, rows)}, {{"axis", Index(0)}})[0];
    found = node(b.graph, "Reshape", {found}, {{"shape", to_indices(Sizes{batch, 1, length, width})}})[0];
    ValueId y = node(b.graph, "Mul", {x, found})[0];
    if (b.pick(0, 1)) {
      const ValueId mean = node(b.graph, "ReduceMean", {y}, {{"axes", Indices{Index(b.pick(0, 3))}}})[0];
      y = node(b.graph, "Div", {y, node(b.graph, "Exp", {mean})[0]})[0];
    }
    b.check(y);
  }
}
