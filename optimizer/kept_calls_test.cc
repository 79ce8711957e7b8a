// A language model's calls of operators that one kernel computes stay whole while the graph around them is rewritten.
#include "graph/onnx/kept_calls.h"

#include <catch2/catch.hpp>
#include <random>

#include "graph/testing.h"
#include "optimizer/certificates/replay.h"
#include "optimizer/optimize.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

namespace {

struct Layers {
  int count = 1;
  std::int64_t length = 1, past = 4, heads = 1, shared = 1;
  bool with_blocks = false;

  explicit Layers(std::mt19937& random) {
    count = 2 + static_cast<int>(random() % 2), length = 1 + static_cast<std::int64_t>(random() % 3);
    past = length + static_cast<std::int64_t>(random() % 4), shared = 1 + static_cast<std::int64_t>(random() % 2);
    heads = shared * (1 + static_cast<std::int64_t>(random() % 2)), with_blocks = random() % 2 == 0;
  }
  std::int64_t width() const { return 8 * (heads + 2 * shared); }
  std::size_t calls() const { return static_cast<std::size_t>(with_blocks ? 2 * count : count); }

  // Layers of attention that have the lengths in common, with a Relu too much before each.
  Graph graph() const {
    const auto shape = [](Sizes sizes) {
      std::string text = "float[";
      for (std::size_t a = 0; a < sizes.size(); ++a) text += (a > 0 ? ", " : "") + std::to_string(sizes[a]);
      return text + "]";
    };
    std::string inputs = shape({1, length, width()}) + " x0, int32[1] last, int64[1, T] mask", outputs,
                body = "sizes = Shape (mask)\ncolumns = Gather <axis = 0> (sizes, one)\ntotal = Cast <to = 6> (columns)\n",
                weights = "<int64[1] one = {1}";
    for (int layer = 0; layer < count; ++layer) {
      const std::string n = std::to_string(layer), next = std::to_string(layer + 1);
      for (const std::string kind : {"k", "v"}) {
        inputs += ", " + shape({1, shared, past, 8}) + " p" + kind + n;
        outputs += ", float[A" + kind + n + ", B" + kind + n + ", C" + kind + n + ", D" + kind + n + "] n" + kind + n;
      }
      inputs += ", " + shape({8 * heads, width()}) + " w" + n;
      body += "a" + n + " = Relu (x" + n + ")\nb" + n + " = Relu (a" + n + ")\n";
      std::string attended = "b" + n;
      if (with_blocks) {
        attended = "d" + n;
        body += "d" + n + " = com.microsoft.MatMulNBits <K = " + std::to_string(width()) + ", N = " + std::to_string(width()) +
                ", bits = 8, block_size = 16> (b" + n + ", q, scales)\n";
      }
      body += "y" + n + ", nk" + n + ", nv" + n + " = com.microsoft.GroupQueryAttention <num_heads = " + std::to_string(heads) +
              ", kv_num_heads = " + std::to_string(shared) + "> (" + attended + ", , , pk" + n + ", pv" + n +
              ", last, total)\nx" + next + " = MatMul (y" + n + ", w" + n + ")\n";
    }
    const std::int64_t blocks = (width() + 15) / 16;
    const auto numbers = [](std::int64_t count, const char* one) {
      std::string text;
      for (std::int64_t i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + std::string(one);
      return " = {" + text + "}";
    };
    if (with_blocks)
      weights += ", uint8[" + std::to_string(width()) + ", " + std::to_string(blocks) + ", 16] q" +
                 numbers(width() * blocks * 16, "129") + ", float[" + std::to_string(width()) + ", " + std::to_string(blocks) +
                 "] scales" + numbers(width() * blocks, "0.125");
    return testing::import_text("agraph (" + inputs + ") => (" + shape({1, length, width()}) + " x" + std::to_string(count) +
                                    outputs + ")" + weights + "> {\n" + body + "}",
                                21, {}, ", \"com.microsoft\" : 1");
  }

  std::vector<Tensor> inputs(const Graph& graph, std::mt19937& random) const {
    std::vector<Tensor> result;
    for (const ValueId id : graph.inputs()) {
      const Value& value = graph.value(id);
      if (value.type.type == DataType::kFloat)
        result.push_back(testing::random_tensor(value.type, random));
      else if (value.name == "last")
        result.push_back(Tensor::from_integers(DataType::kInt32, {1}, std::vector{past - 1}));
      else
        result.push_back(
            Tensor::from_integers(DataType::kInt64, {1, past}, std::vector(static_cast<std::size_t>(past), std::int64_t{1})));
    }
    return result;
  }
};

void check_same(const Graph& given, const Graph& found, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> expected = interpret(given, inputs), results = interpret(found, inputs);
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::vector<double> x = expected[i].reals(), y = results[i].reals();
    REQUIRE(x.size() == y.size());
    for (std::size_t k = 0; k < x.size(); ++k) CHECK(y[k] == Approx(x[k]).margin(1e-5));
  }
}

}  // namespace

TEST_CASE("tidying merges nothing of one call with what is in another") {
  std::mt19937 random(1);
  for (int round = 0; round < 12; ++round) {
    const Layers layers(random);
    const Graph given = layers.graph();
    REQUIRE(kept_calls(given).size() == layers.calls());
    Graph merged = given, kept = given;
    merged.tidy();
    tidy_around_calls(kept);
    CHECK(kept_calls(merged).size() < layers.calls());  // masks of all layers are one
    CHECK(kept_calls(kept) == kept_calls(given));
    Graph again = kept;
    tidy_around_calls(again);
    CHECK(again.hash() == kept.hash());
    check_same(given, kept, layers.inputs(given, random));
  }
}

TEST_CASE("what is around calls is rewritten, and they stay whole") {
  std::mt19937 random(2);
  for (int round = 0; round < 8; ++round) {
    const Layers layers(random);
    const Graph given = layers.graph();
    testing::RooflineDevice device;
    const std::unique_ptr<Evaluator> evaluator = make_reference_evaluator();
    OptimizeOptions options;
    options.time_graphs = false;
    options.check_runs = 0;
    options.sizes = {{{{"T", layers.past}}, 1}};
    options.budget_seconds = 60;
    const std::vector<Rule> rules = testing::rules();
    const OptimizeResult found = optimize(given, rules, device, *evaluator, nullptr, options);
    CHECK(found.report.changed);
    CHECK(kept_calls(found.graph).size() == layers.calls());
    CHECK(found.graph.nodes().size() == given.nodes().size() - static_cast<std::size_t>(layers.count));
    check_same(given, found.graph, layers.inputs(given, random));
    CHECK(replay(given, found.certificate, rules, *evaluator).hash() == found.graph.hash());
  }
}

}  // namespace rewright::optimizer
