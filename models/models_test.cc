#include "models/models.h"

#include <catch2/catch.hpp>

namespace rewright::models {
namespace {

TEST_CASE("every network can be built, again and equally") {
  for (const Model& m : models()) {
    INFO(m.name);
    const Graph g = m.build(1);
    REQUIRE(g.outputs().size() == 1);
    CHECK(all_constant(g.outputs()[0].type.shape));
    if (m.name == "squeezenet") {
      CHECK(g.hash() == m.build(1).hash());
      CHECK(g.hash() != m.build(2).hash());
    }
  }
}

TEST_CASE("networks have the published numbers of operations") {
  // Multiply-adds in units of 10^9, as in torchvision's tables and the papers, which do not count batch norms and activations.
  const auto giga = [](const char* name) {
    const Graph g = build_model(name);
    double total = 0;
    for (const auto& node : g.nodes()) {
      const Definition d = node->op->define(node->attributes, Inputs::of(g.operand_types(*node)));
      for (const Output& o : d.outputs())
        total += static_cast<double>((operation_count(o.element) * product(o.type.shape)).value()) * 1e-9;
    }
    return total / 2;
  };
  CHECK(giga("resnet50") == Approx(4.1).epsilon(0.03));
  CHECK(giga("mobilenet_v2") == Approx(0.30).epsilon(0.15));
  CHECK(giga("inception_v3") == Approx(5.7).epsilon(0.03));
  CHECK(giga("nasnet_a") == Approx(0.56).epsilon(0.10));
}

TEST_CASE("an unknown network is an error that lists the known ones") {
  CHECK_THROWS_WITH(build_model("resnet51"), Catch::Contains("resnet51") && Catch::Contains("resnet50"));
}

}  // namespace
}  // namespace rewright::models
