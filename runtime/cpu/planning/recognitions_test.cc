#include "runtime/cpu/planning/recognitions.h"

#include <catch2/catch.hpp>

#include "runtime/cpu/testing/graphs.h"

namespace rewright::cpu {

namespace {

using testing::node;

// A node that moves or resizes a tensor, whose attributes may be the sizes of its result.
std::shared_ptr<const Node> random_node(testing::RandomGraph& g) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 6, 12};
  Indices shape, other;
  std::int64_t count = 1;
  for (std::int64_t rank = g.pick(1, 4); rank > 0; --rank) shape.emplace_back(kSizes[g.pick(0, 5)]);
  for (const Index& size : shape) count *= size.value();
  const ValueId x = g.graph.add_input("x", {DataType::kFloat, shape});
  switch (g.pick(0, 5)) {
    case 0:  // any factors
      while (count > 1 && other.size() < 3) {
        std::int64_t factor = g.pick(1, count);
        while (count % factor != 0) ++factor;
        other.emplace_back(factor);
        count /= factor;
      }
      other.emplace_back(count);
      node(g.graph, "Reshape", {x}, {{"shape", other}});
      break;
    case 1:
      for (const Index& size : shape) other.emplace_back(g.pick(1, size.value()));
      node(g.graph, "Slice", {x}, {{"length", other}});
      break;
    case 2:
      for (const Index& size : shape) other.push_back(size == Index(1) ? Index(g.pick(1, 4)) : size);
      node(g.graph, "Expand", {x}, {{"shape", other}});
      break;
    case 3:
      for (std::size_t a = shape.size(); a-- > 0;) other.emplace_back(a);
      node(g.graph, "Transpose", {x}, {{"perm", other}});
      break;
    case 4:
      node(g.graph, "Relu", {x});
      break;
    default: {
      for (std::size_t a = 0; a < shape.size(); ++a) other.emplace_back(g.pick(1, 9));
      const char* const modes[] = {"nearest", "linear"};
      node(g.graph, "Resize", {x}, {{"sizes", other}, {"mode", std::string(modes[g.pick(0, 1)])}});
    }
  }
  return g.graph.nodes().back();
}

}  // namespace

TEST_CASE("traits that nodes of other sizes have left are those of the node") {
  Recognitions recognitions;
  unsigned recalled = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    testing::RandomGraph g(seed);
    const std::shared_ptr<const Node> one = random_node(g);
    const planning::Traits expected = planning::traits_of(planning::define(g.graph, *one));
    bool is_new = false;
    const planning::Traits known = recalled_traits(recognitions, g.graph, one, [&] {
      is_new = true;
      return expected;
    });
    recalled += is_new ? 0 : 1;
    INFO(to_string(g.graph));
    CHECK(known.has_denotation == expected.has_denotation);
    CHECK(known.reduces == expected.reduces);
    CHECK(known.sums_products == expected.sums_products);
    CHECK(known.has_position == expected.has_position);
    CHECK(known.has_guard == expected.has_guard);
    CHECK(known.is_limited == expected.is_limited);
    CHECK(known.only_reads == expected.only_reads);
    CHECK(known.moved == expected.moved);
    CHECK(known.operations == expected.operations);
  }
  CHECK(recalled > 1500);
}

}  // namespace rewright::cpu
