// RNN, GRU and LSTM by packed products, beside the interpreter.
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "graph/testing.h"
#include "runtime/cpu/testing/graphs.h"
#include "runtime/mixed.h"
#include "runtime/opaque_kernels.h"

using namespace rewright;
using namespace rewright::runtime;
using rewright::testing::in_brackets;
using rewright::testing::random_tensor;
using rewright::testing::require_close;
using rewright::testing::tested_isas;

namespace {

struct RecurrentModel {
  std::string type = "LSTM", attributes;
  std::int64_t gates = 4, length = 3, batch = 2, inputs = 4, hidden = 5, directions = 1;
  bool has_bias = true, has_states = false, has_lengths = false, sizes_known = true;

  bool has_cell() const { return type == "LSTM"; }
  Sizes x() const { return {length, batch, inputs}; }
  Sizes state() const { return {directions, batch, hidden}; }

  Graph graph(std::mt19937& random) const {
    std::ostringstream text;
    const auto shape = [&](const Sizes& sizes, const char* open) {
      return sizes_known ? in_brackets(sizes) : std::string(open);
    };
    text << "agraph (float" << shape(x(), "[T, B, I]") << " x";
    if (has_states) text << ", float" << shape(state(), "[D, B, H]") << " h";
    if (has_states && has_cell()) text << ", float" << shape(state(), "[D, B, H]") << " c";
    text << ") => (float[P, Q, R, S] y, float[U, V, W] yh" << (has_cell() ? ", float[U, V, W] yc" : "") << ") <";
    const auto weights = [&](const char* name, const Sizes& sizes) {
      text << "float" << in_brackets(sizes) << " " << name << " = {";
      // Small enough for steps not to enlarge what rounding changes.
      const float most = 1 / std::sqrt(static_cast<float>(hidden));
      std::uniform_real_distribution<float> numbers(-most, most);
      for (std::int64_t i = 0; i < element_count(sizes); ++i) text << (i > 0 ? ", " : "") << std::fixed << numbers(random);
      text << "}";
    };
    weights("w", {directions, gates * hidden, inputs});
    text << ", ";
    weights("r", {directions, gates * hidden, hidden});
    if (has_bias) {
      text << ", ";
      weights("b", {directions, 2 * gates * hidden});
    }
    if (has_lengths) text << ", int32[2] l = {1, 2}";
    text << "> { y, yh" << (has_cell() ? ", yc" : "") << " = " << type << " <hidden_size = " << hidden << attributes
         << "> (x, w, r, " << (has_bias ? "b" : "\"\"") << ", " << (has_lengths ? "l" : "\"\"");
    if (has_states) text << ", h" << (has_cell() ? ", c" : "");
    text << ") }";
    return rewright::testing::import_text(text.str());
  }
};

bool has_kernel(const Graph& graph) {
  const auto node = graph.nodes()[0];
  return prepare_node(rewright::testing::cpu_backend(), graph, *node, {}) != nullptr;
}

}  // namespace

TEST_CASE("recurrent networks with constant weights are steps of packed products") {
  std::mt19937 random(31);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 40; ++trial) {
    RecurrentModel model;
    const std::int64_t kind = pick(0, 3);  // 3: a GRU whose reset gate comes after the product
    model.type = kind == 0 ? "RNN" : kind == 1 ? "LSTM" : "GRU";
    model.gates = kind == 0 ? 1 : kind == 1 ? 4 : 3;
    model.length = pick(0, 3) == 0 ? 1 : pick(1, 12), model.batch = pick(0, 1) == 0 ? 1 : pick(2, 20);
    model.inputs = pick(1, 20), model.hidden = pick(0, 2) == 0 ? pick(1, 70) : pick(1, 20), model.directions = pick(1, 2);
    model.has_bias = pick(0, 3) > 0, model.has_states = pick(0, 1) == 1, model.sizes_known = pick(0, 1) == 1;
    model.attributes = std::string(", direction = \"") +
                       (model.directions == 2 ? "bidirectional"
                        : pick(0, 1) == 1     ? "reverse"
                                              : "forward") +
                       "\"" + (kind == 3 ? ", linear_before_reset = 1" : "");
    const Graph graph = model.graph(random);
    REQUIRE(has_kernel(graph));
    std::vector<Tensor> inputs{random_tensor(random, DataType::kFloat, model.x())};
    for (int state = 0; model.has_states && state < (model.has_cell() ? 2 : 1); ++state)
      inputs.push_back(random_tensor(random, DataType::kFloat, model.state()));
    const std::vector<Tensor> expected = interpret(graph, inputs);
    for (const Isa isa : tested_isas())
      for (const int threads : {1, 3}) {
        SessionOptions options;
        options.max_isa = isa;
        options.threads = threads;
        INFO(model.type << model.attributes << ", " << model.length << " steps, " << model.batch << " rows, " << model.inputs
                        << " to " << model.hidden << ", " << threads << " threads");
        const auto session = prepare_session(rewright::testing::cpu_backend(), graph, options);
        for (int round = 0; round < 2; ++round) require_close(graph, session->run(inputs), expected, {2e-5});
      }
  }
}

TEST_CASE("other recurrent networks are left to the session of a step") {
  std::mt19937 random(32);
  const auto taken = [&](const std::string& attributes, bool has_lengths = false) {
    RecurrentModel model;
    model.attributes = attributes, model.has_lengths = has_lengths;
    return has_kernel(model.graph(random));
  };
  CHECK(taken(""));
  CHECK(taken(", activations = [\"Sigmoid\", \"Tanh\", \"Tanh\"]"));
  CHECK(!taken(", activations = [\"Sigmoid\", \"Tanh\", \"Relu\"]"));
  CHECK(!taken(", activations = [\"Sigmoid\"]"));
  CHECK(!taken(", clip = 1.0"));
  CHECK(!taken(", input_forget = 1"));
  CHECK(!taken(", layout = 1"));
  CHECK(!taken("", true));
}
