// RNN, GRU and LSTM by packed products, beside the interpreter.
#include <array>
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "graph/testing.h"
#include "runtime/cpu/testing/graphs.h"
#include "runtime/cpu/testing/whole_calls.h"
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
  bool has_bias = true, has_states = false, sizes_known = true;
  std::vector<std::int64_t> lengths = {};  // none: all are whole

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
    if (!lengths.empty()) {
      text << ", int32[" << lengths.size() << "] l = {";
      for (std::size_t b = 0; b < lengths.size(); ++b) text << (b > 0 ? ", " : "") << lengths[b];
      text << "}";
    }
    text << "> { y, yh" << (has_cell() ? ", yc" : "") << " = " << type << " <hidden_size = " << hidden << attributes
         << "> (x, w, r, " << (has_bias ? "b" : "\"\"") << ", " << (lengths.empty() ? "\"\"" : "l");
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
  for (int trial = 0; trial < 60; ++trial) {
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
    if (pick(0, 1) == 1)
      for (std::int64_t b = 0; b < model.batch; ++b) model.lengths.push_back(pick(0, 4) == 0 ? 0 : pick(1, model.length));
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
  const auto taken = [&](const std::string& attributes) {
    RecurrentModel model;
    model.attributes = attributes;
    return has_kernel(model.graph(random));
  };
  CHECK(taken(""));
  CHECK(taken(", activations = [\"Sigmoid\", \"Tanh\", \"Tanh\"]"));
  CHECK(!taken(", activations = [\"Sigmoid\", \"Tanh\", \"Relu\"]"));
  CHECK(!taken(", activations = [\"Sigmoid\"]"));
  CHECK(!taken(", activations = [\"Sigmoid\", \"Tanh\", \"Tanh\", \"Tanh\"]"));
  CHECK(!taken(", activation_alpha = [0.5]"));
  CHECK(!taken(", clip = 1.0"));
  CHECK(!taken(", input_forget = 1"));
  CHECK(!taken(", layout = 1"));
}

TEST_CASE("a sequence's length that is none is refused") {
  std::mt19937 random(34);
  for (const std::int64_t wrong : {-1, 4}) {
    RecurrentModel model;
    model.lengths = {2, wrong};
    const auto session = prepare_session(rewright::testing::cpu_backend(), model.graph(random), {});
    CHECK_THROWS_AS(session->run(std::vector<Tensor>{random_tensor(random, DataType::kFloat, model.x())}), Error);
  }
}

TEST_CASE("recurrent networks without rows or steps, and those of one unit, on several threads") {
  std::mt19937 random(33);
  for (const std::string type : {"RNN", "GRU", "LSTM"})
    for (const auto& [length, batch, hidden] : {std::array{0, 2, 5}, {3, 0, 5}, {0, 0, 1}, {4, 3, 1}, {1, 1, 1}})
      for (const std::int64_t directions : {1, 2}) {
        RecurrentModel model;
        model.type = type, model.gates = type == "RNN" ? 1 : type == "GRU" ? 3 : 4;
        model.length = length, model.batch = batch, model.hidden = hidden, model.directions = directions;
        model.inputs = hidden, model.has_states = true, model.sizes_known = false;
        if (directions > 1) model.attributes = ", direction = \"bidirectional\"";
        const Graph graph = model.graph(random);
        REQUIRE(has_kernel(graph));
        std::vector<Tensor> inputs{random_tensor(random, DataType::kFloat, model.x())};
        for (int state = 0; state < (model.has_cell() ? 2 : 1); ++state)
          inputs.push_back(random_tensor(random, DataType::kFloat, model.state()));
        SessionOptions options;
        options.threads = 3;
        INFO(type << ", " << length << " steps, " << batch << " rows, " << hidden << " units, " << directions << " directions");
        const auto session = prepare_session(rewright::testing::cpu_backend(), graph, options);
        require_close(graph, session->run(inputs), interpret(graph, inputs), {2e-5});
      }
}

TEST_CASE("inputs of long sequences are multiplied in blocks of steps") {
  std::mt19937 random(34);
  for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
    RecurrentModel model;
    model.type = "GRU", model.gates = 3, model.batch = 2048, model.inputs = 1, model.hidden = 8;
    // The last block of about 21 steps is short.
    model.length = 46, model.directions = direction == "bidirectional" ? 2 : 1, model.sizes_known = false;
    model.attributes = ", direction = \"" + direction + "\"";
    const Graph graph = model.graph(random);
    REQUIRE(has_kernel(graph));
    // Rows repeat some few, of which the interpreter computes one each.
    constexpr std::int64_t kFew = 16;
    const Tensor few = random_tensor(random, DataType::kFloat, {model.length, kFew, 1});
    const auto repeated = [&](const Tensor& t, std::int64_t width) {  // [outer, rows, width]
      const std::vector<double> from = t.reals();
      std::vector<double> to;
      for (std::size_t outer = 0; outer < from.size(); outer += static_cast<std::size_t>(kFew * width))
        for (std::int64_t n = 0; n < model.batch * width; ++n)
          to.push_back(from[outer + static_cast<std::size_t>(n % (kFew * width))]);
      Sizes sizes = t.sizes();
      sizes[sizes.size() - 2] = model.batch;
      return Tensor::from_reals(DataType::kFloat, sizes, to);
    };
    std::vector<Tensor> expected;
    for (const Tensor& t : interpret(graph, std::vector{few})) expected.push_back(repeated(t, model.hidden));
    const auto session = prepare_session(rewright::testing::cpu_backend(), graph, {.threads = 2});
    require_close(graph, session->run(std::vector{repeated(few, 1)}), expected, {2e-5});
  }
}

TEST_CASE("sequences that no memory can hold are refused") {
  std::mt19937 random(35);
  RecurrentModel model;
  model.inputs = model.hidden = 1, model.batch = 1, model.sizes_known = false;
  const Graph graph = model.graph(random);
  REQUIRE(has_kernel(graph));
  const float x = 0;
  // Only the sizes are looked at.
  const Tensor input(DataType::kFloat, {std::int64_t{1} << 31, 1, 1}, nullptr, reinterpret_cast<const std::byte*>(&x));
  const auto kernel = prepare_node(rewright::testing::cpu_backend(), graph, *graph.nodes()[0], {});
  const std::vector<Datum> given{input};
  CHECK_THROWS_WITH(kernel->run(given), Catch::Contains("10737418240 elements"));
}

TEST_CASE("a checkpoint ends a bidirectional network on several threads") {
  std::mt19937 random(36);
  RecurrentModel model;
  model.length = 400, model.hidden = 16, model.directions = 2, model.attributes = ", direction = \"bidirectional\"";
  const Graph graph = model.graph(random);
  const std::vector<Tensor> inputs{random_tensor(random, DataType::kFloat, model.x())};
  int calls = 0;
  bool ends = true, on_callers_thread = true;
  SessionOptions options;
  options.threads = 2;
  options.checkpoint = [&, caller = std::this_thread::get_id()] {
    on_callers_thread = on_callers_thread && std::this_thread::get_id() == caller;
    if (ends && ++calls == 20) throw Error(ErrorCode::kCancelled, "enough");
  };
  const auto kernel = prepare_node(rewright::testing::cpu_backend(), graph, *graph.nodes()[0], options);
  REQUIRE(kernel != nullptr);
  const std::vector<Datum> given{inputs[0]};
  // A helper may have computed both directions before the caller's turn came.
  std::string why;
  for (int round = 0; round < 100 && why.empty(); ++round) {
    calls = 0;
    try {
      kernel->run(given);
    } catch (const Error& e) {
      why = e.what();
    }
  }
  CHECK(why == "enough");
  CHECK(on_callers_thread);
  ends = false;
  const std::vector<Datum> found = kernel->run(given);
  const std::vector<Tensor> expected = interpret(graph, inputs);
  REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k)
    for (std::size_t n = 0; n < expected[k].reals().size(); n += 97)
      CHECK(found[k].tensor().reals()[n] == Approx(expected[k].reals()[n]).margin(2e-5));
}
