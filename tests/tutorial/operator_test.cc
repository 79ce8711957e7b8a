// The operator of docs/tutorial.md; tests/doc_samples.py checks that both are the same.
#include <catch2/catch.hpp>

#include "expressions/function.h"
#include "graph/graph.h"
#include "operators/operator.h"
#include "runtime/cpu/backend/backend.h"

namespace rewright::testing {

namespace {

// y = (x + sqrt(x^2 + b)) / 2, a smooth ReLU
struct Squareplus {
  static constexpr std::string_view kName = "Squareplus";
  Real b = 4;
  template <class V>
  void fields(V&& v) {
    v("b", b);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    d.require(x.type() == DataType::kFloat, [] { return "Squareplus is for floats"; });
    d.output(x.type(), x.shape(), [&](const Indices& position) {
      const Element e = x(position);
      return (e + apply(functions::sqrt, e * e + real(b))) / real(2);
    });
    return d;
  }
};

}  // namespace

TEST_CASE("an operator of one's own, from its definition alone") {
  Registry registry;
  registry.add<Squareplus>();
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N")}});
  const Operator& squareplus = registry.get("Squareplus");
  graph.add_output("y", graph.add_node(squareplus, to_attributes(Squareplus{}), {x})[0]);

  const std::vector<Tensor> given = {Tensor::from_reals(DataType::kFloat, {3}, std::vector<double>{-1.5, 0, 1.5})};
  const std::vector<double> expected = {0.5, 1, 2};
  CHECK(interpret(graph, given)[0].reals() == expected);
  CHECK(cpu::cpu_backend().prepare(graph)->run(given)[0].reals() == expected);
}

}  // namespace rewright::testing
