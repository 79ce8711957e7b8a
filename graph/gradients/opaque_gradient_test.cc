#include "graph/gradients/opaque_gradient.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "graph/builder.h"
#include "graph/gradients/differentiate.h"
#include "graph/onnx/onnx.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::random_tensor;

using Values = std::vector<Tensor>;

// The graph with the gradients of its first output (one number) in all of its inputs; zeros where there is none.
Graph with_gradients(Graph graph) {
  const std::vector<ValueId> wanted(graph.inputs().begin(), graph.inputs().end());
  const Seed seed{graph.outputs()[0].value, graph.add_constant(Tensor::scalar(DataType::kDouble, 1))};
  NodeBuilder b(graph);
  std::vector<ValueId> gradients = differentiate(graph, {&seed, 1}, wanted);
  graph.set_outputs({});
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (gradients[k] == kNoValue) gradients[k] = b.filled(graph.value(wanted[k]).type, 0);
    graph.add_output("slope " + std::to_string(k), gradients[k]);
  }
  graph.tidy();
  return graph;
}

// Compares the gradients with finite differences of the graph's first output.
void compare(const Graph& graph, const Graph& gradients, const Values& inputs) {
  const Values slopes = interpret(gradients, inputs);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    REQUIRE(slopes[k].sizes() == inputs[k].sizes());
    const std::vector<double> at = inputs[k].reals(), found = slopes[k].reals();
    for (std::size_t n = 0; n < at.size(); ++n) {
      constexpr double kStep = 1e-6;
      const auto moved = [&](double by) {
        std::vector<double> values = at;
        values[n] += by;
        Values other = inputs;
        other[k] = Tensor::from_reals(DataType::kDouble, inputs[k].sizes(), values);
        return interpret(graph, other)[0].reals()[0];
      };
      INFO("input " << k << ", element " << n);
      CHECK(found[n] == Approx((moved(kStep) - moved(-kStep)) / (2 * kStep)).margin(1e-6));
    }
  }
}

// A scalar graph: the sum of the given gradients, each element weighted by a random number.
Graph sum_of(const Graph& gradients, std::mt19937& random) {
  Graph graph = gradients;
  NodeBuilder b(graph);
  ValueId sum = kNoValue;
  for (const GraphOutput& output : gradients.outputs()) {
    const ValueId by = graph.add_constant(random_tensor(graph.value(output.value).type, random));
    const ValueId term = b.add("ReduceSum", {b.add("Mul", {output.value, by})}, {{"keepdims", false}});
    sum = sum == kNoValue ? term : b.add("Add", {sum, term});
  }
  graph.set_outputs({});
  graph.add_output("sum", sum);
  graph.tidy();
  return graph;
}

// All inputs of the model and its output, one number, are of type double. Checks gradients (and with `twice` second ones) for
// each of these numbers as the last input, before and after export and import.
void check_gradients(const std::string& text, const std::vector<double>& last, bool twice = true) {
  INFO(text);
  std::mt19937 random(5);
  ImportOptions options;
  options.procedures_as_graphs = true;
  const Graph graph = import_onnx_bytes(text_bytes(text, 22), "test", options);
  const Graph gradients = with_gradients(graph);
  const Graph sum = sum_of(gradients, random);
  Values inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.value(id).type, random));
  const Graph again = import_onnx_bytes(export_onnx_bytes(gradients), "again");
  for (const double number : last) {
    INFO("the last input is " << number);
    inputs.back() = Tensor::scalar(DataType::kDouble, number);
    compare(graph, gradients, inputs);
    compare(graph, again, inputs);
    if (twice) compare(sum, with_gradients(sum), inputs);
  }
}

}  // namespace

TEST_CASE("gradients of what a condition picks") {
  check_gradients(R"(agraph (double[4, 3] x, double[4] c, double a) => (double s) <double zero = {0}> {
    keep = Greater (c, zero)
    rows = Compress <axis = 0> (x, keep)
    e = Exp (rows)
    p = Mul (e, a)
    m = ReduceMean <keepdims = 0> (p)
    s = Mul (m, m)
  })",
                  {0.7});
  check_gradients(R"(agraph (double[2, 3] x, double[5] c, double a) => (double s) <double zero = {0}> {
    keep = Greater (c, zero)
    elements = Compress (x, keep)
    p = Mul (elements, elements)
    q = Mul (p, a)
    s = ReduceSum <keepdims = 0> (q)
  })",
                  {0.7});
  check_gradients(R"(agraph (double[2, 4] x, double[4] c, double a) => (double s) <double zero = {0}> {
    keep = Less (c, zero)
    columns = Compress <axis = -1> (x, keep)
    p = Softmax (columns)
    q = Mul (p, columns)
    r = Mul (q, a)
    s = ReduceSum <keepdims = 0> (r)
  })",
                  {0.7});
}

TEST_CASE("gradients of entries that differ") {
  check_gradients(R"(agraph (double[5] x, double a) => (double s) <int64[2] some = {3, 0}> {
    y, first, inverse = Unique (x)
    b = Gather (y, some)
    p = Mul (b, b)
    z = Gather (y, inverse)
    q = Mul (z, x)
    r = ReduceSum <keepdims = 0> (q)
    t = ReduceProd <keepdims = 0> (p)
    u = Mul (t, a)
    s = Add (r, u)
  })",
                  {0.7});
  // One operand twice: both elements move together. Without the output that gives the positions.
  check_gradients(R"(agraph (double[2, 3] x, double a) => (double s) {
    double = Concat <axis = 1> (x, x)
    y = Unique <axis = 1, sorted = 0> (double)
    e = Exp (y)
    t = Mul (e, a)
    s = ReduceSum <keepdims = 0> (t)
  })",
                  {0.7});
}

TEST_CASE("gradients of a branch that is chosen while the graph is executed") {
  check_gradients(R"(agraph (double[3] x, double[3] w, double c) => (double s) <double zero = {0}> {
    go = Greater (c, zero)
    y = If (go) <
      then_branch = a () => (double[3] t) { p = Mul (x, w) t = Tanh (p) },
      else_branch = b () => (double[3] e) { q = Exp (x) e = Mul (q, c) }>
    z = Mul (y, w)
    s = ReduceSum <keepdims = 0> (z)
  })",
                  {0.7, -0.7});
}

TEST_CASE("gradients of branches inside of branches, of several outputs, one of them not used") {
  check_gradients(R"(agraph (double[2, 2] x, double[2] w, double c) => (double s) <double zero = {0}, double one = {1}> {
    go = Greater (c, zero)
    y, unused, n = If (go) <
      then_branch = a () => (double[2, 2] t, double[2] k, double[2, 2] v) {
        far = Greater (c, one)
        t = If (far) <
          then_branch = aa () => (double[2, 2] ta) { d = Det (x) m = Mul (x, w) ta = Mul (m, d) },
          else_branch = ab () => (double[2, 2] tb) { tb = Sin (x) }>
        k = Identity (w)
        v = Identity (x)
      },
      else_branch = b () => (double[2, 2] e, double[2] l, double[2, 2] u) {
        e = Mul (x, c)
        l = Exp (w)
        u = Exp (x)
      }>
    p = Mul (y, n)
    z = Mul (p, w)
    s = ReduceSum <keepdims = 0> (z)
  })",
                  {1.5, 0.7, -0.7});
}

TEST_CASE("gradients of branches whose results have other sizes") {
  check_gradients(R"(agraph (double[2, 3] x, double c) => (double s) <double zero = {0}, int64[1] rows = {0}> {
    go = Greater (c, zero)
    y = If (go) <
      then_branch = a () => (double[1, 3] t) { r = Gather (x, rows) t = Mul (r, c) },
      else_branch = b () => (double[2, 3] e) { e = Exp (x) }>
    m = Mul (y, y)
    s = ReduceMean <keepdims = 0> (m)
  })",
                  {0.7, -0.7});
}

TEST_CASE("ONNX's Gradient through a branch") {
  const Graph graph = import_onnx_bytes(text_bytes(R"(agraph (float[2] x, float[2] w, bool go) => (float[2] dx, float[2] dw) {
    y = If (go) <then_branch = a () => (float[2] t) { t = Mul (x, w) }, else_branch = b () => (float[2] e) { e = Mul (x, x) }>
    dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], y = "y"> (x, w)
  })",
                                                   17, ", \"ai.onnx.preview.training\" : 1"),
                                        "test");
  const auto row = [](double a, double b) { return Tensor::from_reals(DataType::kFloat, {2}, std::vector{a, b}); };
  const auto truth = [](std::int64_t t) { return Tensor::from_integers(DataType::kBool, {}, std::vector{t}); };
  const Values yes = interpret(graph, Values{row(1, 2), row(3, 4), truth(1)});
  CHECK(yes[0].reals() == std::vector<double>{3, 4});
  CHECK(yes[1].reals() == std::vector<double>{1, 2});
  const Values no = interpret(graph, Values{row(1, 2), row(3, 4), truth(0)});
  CHECK(no[0].reals() == std::vector<double>{2, 4});
  CHECK(no[1].reals() == std::vector<double>{0, 0});
}

TEST_CASE("ONNX's Gradient through a branch, at other values") {
  const Graph graph = import_onnx_bytes(text_bytes(R"(agraph (float[2] x, float[2] z, bool go) => (float[2] y, float[2] dx) {
    y = If (go) <then_branch = a () => (float[2] t) { t = Mul (x, x) }, else_branch = b () => (float[2] e) { e = Neg (x) }>
    dx = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (z)
  })",
                                                   17, ", \"ai.onnx.preview.training\" : 1"),
                                        "test");
  const auto row = [](double a, double b) { return Tensor::from_reals(DataType::kFloat, {2}, std::vector{a, b}); };
  const Graph again = import_onnx_bytes(export_onnx_bytes(graph), "again");
  for (const Graph* g : {&graph, &again}) {
    const Values yes =
        interpret(*g, Values{row(1, 2), row(3, 4), Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{1})});
    CHECK(yes[0].reals() == std::vector<double>{1, 4});
    CHECK(yes[1].reals() == std::vector<double>{6, 8});
  }
}

TEST_CASE("an opaque node without a gradient says why") {
  ImportOptions options;
  options.procedures_as_graphs = true;
  const Graph graph =
      import_onnx_bytes(text_bytes(R"(agraph (double[3] x, int64 n) => (double s) <bool yes = {1}, double[3] last> {
    last = Loop <body = b (int64 i, bool go, double[3] s) => (bool on, double[3] t) {
      on = Identity (go)
      t = Add (s, s)
    }> (n, yes, x)
    s = ReduceSum <keepdims = 0> (last)
  })",
                                   22),
                        "test", options);
  CHECK_THROWS_WITH(with_gradients(graph), Catch::Contains("how often it goes round is not known"));

  // Opset 9 introduced Compress. In this model it may have any inputs.
  const Graph early = import_onnx_bytes(
      text_bytes("agraph (double[3] x) => (double s, double[2] y) { y = Compress (x) s = ReduceSum <keepdims = 0> (y) }", 8),
      "test", options);
  CHECK_THROWS_WITH(with_gradients(early), Catch::Contains("opset 8 has no operator Compress"));
}

}  // namespace rewright::graph
