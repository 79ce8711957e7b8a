#include "runtime/cpu/planning/known_numbers.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "graph/testing.h"
#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;

TEST_CASE("choices by known conditions, sums with zeros and factors of products are what the definitions say") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    rewright::testing::GraphBuilder b(seed);
    const std::int64_t rows = b.pick(1, 9), columns = b.pick(1, 9), depth = b.pick(1, 9);
    const auto number = [&](DataType type, const Sizes& sizes, double value) {
      const std::vector<double> all(static_cast<std::size_t>(element_count(sizes)), value);
      return b.graph.add_constant(Tensor::from_reals(type, sizes, all));
    };
    const auto scaled = [&](ValueId x) {
      const double factor = static_cast<double>(b.pick(-3, 3)) / 4;
      return b.pick(0, 3) == 0 ? x : node(b.graph, "Mul", {x, number(DataType::kFloat, {}, factor)})[0];
    };
    const ValueId a = b.input({rows, depth}), w = b.input({depth, columns});
    ValueId y = node(b.graph, "MatMul", {scaled(a), scaled(w)})[0];
    if (b.pick(0, 1) == 0)
      y = node(b.graph, "Add", {y, number(DataType::kFloat, {rows, columns}, static_cast<double>(b.pick(-1, 1)))})[0];
    if (b.pick(0, 2) == 0) y = node(b.graph, "Cast", {y}, {{"to", DataType::kFloat}})[0];
    // A condition that is computed: the same everywhere, or not known.
    const ValueId largest =
        node(b.graph, "ReduceMax", {number(DataType::kFloat, {rows, columns}, static_cast<double>(b.pick(0, 1)))},
             {{"axes", Indices{1}}, {"keepdims", true}})[0];
    const ValueId one = number(DataType::kFloat, {}, 1);
    ValueId condition = node(b.graph, "Equal", {largest, one})[0];
    if (b.pick(0, 2) == 0) condition = b.input(DataType::kBool, {rows, 1});
    const bool broadcasts = b.pick(0, 1) == 0;  // then the result has another shape than what is chosen
    y = node(b.graph, "Where", {condition, broadcasts ? number(DataType::kFloat, {}, 0) : b.input({rows, columns}), y})[0];
    if (b.pick(0, 1) == 0) y = node(b.graph, "Relu", {y})[0];
    b.check(y, 1e-5);
  }
}

TEST_CASE("Attention of ONNX, of all kinds") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const std::int64_t shared = pick(1, 3), heads = shared * pick(1, 2), queries = pick(1, 40), keys = pick(1, 40);
    const auto list = [](std::int64_t h, std::int64_t n) {
      return "[2, " + std::to_string(h) + ", " + std::to_string(n) + ", 8]";
    };
    std::string attributes = pick(0, 1) == 0 ? "is_causal = " + std::to_string(pick(0, 1)) : "scale = 0.3";
    if (pick(0, 2) == 0) attributes += ", softcap = 2.0";
    const bool masked = pick(0, 2) == 0;
    const std::string mask = "float[" + std::to_string(queries) + ", " + std::to_string(keys) + "] m";
    const Graph graph = rewright::testing::import_text(
        "agraph (float" + list(heads, queries) + " q, float" + list(shared, keys) + " k, float" + list(shared, keys) + " v" +
            (masked ? ", " + mask : "") + ") => (float" + list(heads, queries) + " y) { y = Attention <" + attributes +
            "> (q, k, v" + (masked ? ", m" : "") + ") }",
        23);
    std::vector<Tensor> inputs;
    for (const ValueId v : graph.inputs())
      inputs.push_back(random_tensor(random, DataType::kFloat, values(graph.value(v).type.shape)));
    rewright::testing::check_graph(graph, inputs, 5e-5);
  }
}

TEST_CASE("Attention of ONNX without masks, or with the causal one, is one step") {
  for (const std::string attributes : {"", "<is_causal = 1> "}) {
    CAPTURE(attributes);
    const Graph graph = rewright::testing::import_text(
        "agraph (float[1, 4, 64, 32] q, float[1, 4, 64, 32] k, float[1, 4, 64, 32] v) => (float[1, 4, 64, 32] y) "
        "{ y = Attention " +
            attributes + "(q, k, v) }",
        23);
    SessionOptions options;
    options.profile = true;
    const auto session = cpu_backend().prepare(graph, options);
    std::mt19937 random(1);
    std::vector<Tensor> inputs;
    for (int n = 0; n < 3; ++n) inputs.push_back(random_tensor(random, DataType::kFloat, {1, 4, 64, 32}));
    session->run(inputs);
    // Neither are keys scaled by themselves, nor rows without any key looked for.
    const auto of_heads = [](const StepProfile& step) { return step.flops > 1e3; };
    const auto& steps = session->profile();
    CHECK(std::count_if(steps.begin(), steps.end(), of_heads) == 1);
  }
}

namespace {

ValueId number(Graph& graph, DataType type, double value) {
  return graph.add_constant(Tensor::from_reals(type, {}, std::vector<double>{value}));
}
ValueId whole(Graph& graph, DataType type, std::int64_t value) {
  return graph.add_constant(Tensor::from_integers(type, {}, std::vector<std::int64_t>{value}));
}

std::size_t count(const Graph& graph, std::string_view name) {
  std::size_t result = 0;
  for (const auto& n : graph.nodes()) result += n->op->name() == name ? 1 : 0;
  return result;
}

// Bit for bit what the definitions say, with the numbers known and without.
void check_same(const Graph& graph, const std::vector<Tensor>& inputs) {
  CHECK(interpret(with_known_numbers(graph), inputs)[0] == interpret(graph, inputs)[0]);
}

}  // namespace

TEST_CASE("known integers are those of the tensors: beyond 2^53, and where their type wraps them") {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  using Limits = std::numeric_limits<std::int64_t>;
  const auto check = [](auto condition) {
    Graph graph;
    const ValueId c = condition(graph);
    const ValueId a = graph.add_input("a", {DataType::kFloat, {}}), b = graph.add_input("b", {DataType::kFloat, {}});
    graph.add_output("y", node(graph, "Neg", {node(graph, "Where", {c, a, b})[0]})[0]);  // outputs stay
    check_same(graph, {testing::floats({}, {1}), testing::floats({}, {2})});
  };
  for (const std::int64_t x : {Limits::max(), Limits::min(), kExact + 1, -kExact - 1, kExact, std::int64_t{3}})
    for (const std::int64_t y : {kExact, -kExact, std::int64_t{5}})
      for (const char* const name : {"Less", "Equal"}) {
        CAPTURE(x, y, name);
        check([&](Graph& g) { return node(g, name, {whole(g, DataType::kInt64, x), whole(g, DataType::kInt64, y)})[0]; });
      }
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t x : {kLargest, kLargest - 1, -kLargest - 1})
    for (const std::int64_t y : {-1, 1})
      check([&](Graph& g) {
        const ValueId sum = node(g, "Add", {whole(g, DataType::kInt32, x), whole(g, DataType::kInt32, y)})[0];
        return node(g, "Less", {sum, whole(g, DataType::kInt32, 0)})[0];
      });
  for (const double x : {3e9, -3e9, 2.0})
    check([&](Graph& g) {
      const ValueId cast = node(g, "Cast", {number(g, DataType::kFloat, x)}, {{"to", DataType::kInt32}})[0];
      return node(g, "Less", {cast, whole(g, DataType::kInt32, 0)})[0];
    });
}

TEST_CASE("factors of both operands of a product stay where the product or they would leave the range of floats") {
  for (const double factor : {0.25, 1e-15, 1e15, 1e-30}) {
    CAPTURE(factor);
    Graph graph;
    const ValueId a = graph.add_input("a", {DataType::kFloat, {2, 2}}), b = graph.add_input("b", {DataType::kFloat, {2, 2}});
    const auto scaled = [&](ValueId x) { return node(graph, "Mul", {x, number(graph, DataType::kFloat, factor)})[0]; };
    const ValueId product = node(graph, "MatMul", {scaled(a), scaled(b)})[0];
    const ValueId never = graph.add_constant(Tensor::from_integers(DataType::kBool, {2, 2}, std::vector<std::int64_t>(4)));
    graph.add_output("y", node(graph, "Where", {never, a, product})[0]);
    const double size = factor == 0.25 ? 1 : 1 / factor;  // so that the scaled elements are common numbers
    const Tensor elements = testing::floats({2, 2}, {size, 2 * size, -size, 4 * size});
    check_same(graph, {elements, elements});
    CHECK(count(with_known_numbers(graph), "Mul") == (factor == 0.25 ? 3 : 2));  // the given ones are still there
  }
}

TEST_CASE("a sum with 0.0 stays where the sign of a zero is seen, one with -0.0 or an integer 0 does not") {
  const auto sums_left = [](DataType type, double zero, const char* reader) {
    Graph graph;
    const TensorType t{type, {3}};
    const ValueId x = graph.add_input("x", t);
    const std::vector<double> zeros(3, zero);
    ValueId y = node(graph, "Add", {x, graph.add_constant(Tensor::from_reals(type, {3}, zeros))})[0];
    const bool softmax = std::string(reader) == "Softmax";
    if (softmax) y = node(graph, "Mul", {y, number(graph, type, 2)})[0];  // so that it is seen through the multiplication
    y = softmax ? node(graph, reader, {y}, {{"axis", Index(0)}})[0] : node(graph, reader, {number(graph, type, 1), y})[0];
    const ValueId never = graph.add_constant(Tensor::from_integers(DataType::kBool, {3}, std::vector<std::int64_t>(3)));
    graph.add_output("y", node(graph, "Where", {never, x, y})[0]);
    const bool integers = type == DataType::kInt64;
    check_same(graph, {Tensor::from_reals(type, {3}, std::vector<double>{integers ? 3 : -0.0, 1, 2})});
    Graph known = with_known_numbers(graph);
    known.tidy();
    return count(known, "Add");
  };
  CHECK(sums_left(DataType::kFloat, 0.0, "Div") == 1);
  CHECK(sums_left(DataType::kFloat, -0.0, "Div") == 0);
  CHECK(sums_left(DataType::kFloat, 0.0, "Softmax") == 0);
  CHECK(sums_left(DataType::kInt64, 0, "Mul") == 0);
}

TEST_CASE("numbers are known within limits: of chains of nodes as long as they like, of long reductions not") {
  Graph graph;
  const ValueId a = graph.add_input("a", {DataType::kFloat, {}}), b = graph.add_input("b", {DataType::kFloat, {}});
  ValueId c = graph.add_input("c", {DataType::kBool, {}});
  const Operator& negation = registry().get("Not");
  for (int n = 0; n < 50000; ++n) c = graph.add_node(negation, negation.defaults(), {c})[0];
  const Index many(std::int64_t{1} << 40);
  const ValueId ones = node(graph, "Expand", {number(graph, DataType::kFloat, 1)}, {{"shape", Indices{many}}})[0];
  const ValueId largest = node(graph, "ReduceMax", {ones}, {{"axes", Indices{0}}, {"keepdims", false}})[0];
  const ValueId is_one = node(graph, "Equal", {largest, number(graph, DataType::kFloat, 1)})[0];
  const ValueId y = node(graph, "Where", {c, a, node(graph, "Where", {is_one, a, b})[0]})[0];
  graph.add_output("y", node(graph, "Neg", {y})[0]);
  Graph known = with_known_numbers(graph);
  known.tidy();
  CHECK(count(known, "Where") == 2);
}
