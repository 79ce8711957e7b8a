// Procedures as graphs of operators: equal results, correct gradients, and written back as the original node.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "graph/gradients/differentiate.h"
#include "graph/onnx/onnx.h"
#include "graph/testing.h"
#include "operators/testing/share.h"

namespace rewright::graph {

namespace {

using testing::random_tensor;

double weighted(const Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& weights) {
  double sum = 0;
  const std::vector<Tensor> outputs = interpret(graph, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const std::vector<double> y = outputs[k].reals(), w = weights[k].reals();
    for (std::size_t n = 0; n < y.size(); ++n) sum += y[n] * w[n];
  }
  return sum;
}

// All inputs and outputs of the model are of type double.
void check(const std::string& text, const std::string& type, int opset = 22) {
  INFO(text);
  std::mt19937 random(3);
  const std::string bytes = text_bytes(text, opset);
  const Graph plain = import_onnx_bytes(bytes, "plain");
  ImportOptions options;
  options.procedures_as_graphs = true;
  Graph graph = import_onnx_bytes(bytes, "graph", options);
  for (const auto& node : graph.nodes()) {
    INFO(node->opaque_reason);
    REQUIRE(node->op != nullptr);
  }
  std::vector<Tensor> inputs, weights;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.value(id).type, random));
  std::vector<Seed> seeds;
  for (const GraphOutput& output : graph.outputs()) {
    weights.push_back(random_tensor(graph.value(output.value).type, random));
    seeds.push_back({output.value, graph.add_constant(weights.back())});
  }
  // It is written as the original node, and computes the same.
  const std::string written = export_onnx_bytes(graph);
  CHECK(written.find(type) != std::string::npos);
  CHECK(import_onnx_bytes(written, "again").nodes().size() == plain.nodes().size());
  const std::vector<Tensor> expected = interpret(plain, inputs), found = interpret(graph, inputs);
  REQUIRE(expected.size() == found.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    REQUIRE(expected[k].sizes() == found[k].sizes());
    for (std::size_t n = 0; n < expected[k].reals().size(); ++n)
      CHECK(found[k].reals()[n] == Approx(expected[k].reals()[n]).margin(1e-9));
  }

  const std::vector<ValueId> wanted(graph.inputs().begin(), graph.inputs().end());
  const std::vector<ValueId> gradients = differentiate(graph, seeds, wanted);
  graph.set_outputs({});
  for (const ValueId g : gradients) {
    REQUIRE(g != kNoValue);
    graph.add_output(std::to_string(g), g);
  }
  graph.tidy();
  const std::vector<Tensor> slopes = interpret(graph, inputs);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const std::vector<double> at = inputs[k].reals();
    REQUIRE(slopes[k].sizes() == inputs[k].sizes());
    for (std::size_t n = 0; n < at.size(); n += testing::kStride) {
      constexpr double kStep = 1e-6;
      const auto moved = [&](double by) {
        std::vector<double> values = at;
        values[n] += by;
        std::vector<Tensor> other = inputs;
        other[k] = Tensor::from_reals(inputs[k].type(), inputs[k].sizes(), values);
        return weighted(plain, other, weights);
      };
      INFO("input " << k << ", element " << n);
      CHECK(slopes[k].reals()[n] == Approx((moved(kStep) - moved(-kStep)) / (2 * kStep)).margin(1e-6));
    }
  }
}

std::string recurrent(const std::string& type, int gates, const std::string& attributes, const std::string& more = "",
                      const std::string& more_inputs = "", int directions = 1) {
  const std::string d = std::to_string(directions), rows = std::to_string(3 * gates);
  const bool cells = type == "LSTM";
  const std::string states = "double[" + d + ", 2, 3] yh" + (cells ? ", double[" + d + ", 2, 3] yc" : "");
  return "agraph (double[4, 2, 2] x, double[" + d + ", " + rows + ", 2] w, double[" + d + ", " + rows + ", 3] r, double[" + d +
         ", " + std::to_string(6 * gates) + "] b" + more_inputs + ") => (double[4, " + d + ", 2, 3] y, " + states +
         ") <int64[2] z = {4, 2}> { lengths = Cast <to = 6> (z) y, yh" + (cells ? ", yc" : "") + " = " + type +
         " <hidden_size = 3" + attributes + "> (x, w, r, b" + more + ") }";
}

}  // namespace

TEST_CASE("recurrent networks as graphs") {
  check(recurrent("RNN", 1, "", ", lengths"), "RNN");
  check(recurrent("RNN", 1, ", direction = \"reverse\", activations = [\"Affine\"], activation_alpha = [0.7]"), "RNN");
  check(recurrent("GRU", 3, ""), "GRU");
  check(
      recurrent("GRU", 3, ", linear_before_reset = 1, direction = \"bidirectional\"", ", lengths, h", ", double[2, 2, 3] h", 2),
      "GRU");
  check(recurrent("LSTM", 4, "", ", lengths, h, c, p", ", double[1, 2, 3] h, double[1, 2, 3] c, double[1, 9] p"), "LSTM");
  check(recurrent("LSTM", 4, ", input_forget = 1, clip = 5.0, direction = \"bidirectional\"", "", "", 2), "LSTM");
}

TEST_CASE("sampling in every mode as graphs", "[long]") {
  for (const std::string mode : {"linear", "cubic"})
    for (const std::string padding : {"zeros", "border", "reflection"})
      for (const std::string aligned : {"0", "1"})
        check(
            "agraph (double[2, 2, 4, 3] x, double[2, 2, 3, 2] grid) => (double[2, 2, 2, 3] y) { wide = Constant <value = "
            "double {1.4}> "
            "() far = Mul(grid, wide) y = GridSample <mode = \"" +
                mode + "\", padding_mode = \"" + padding + "\", align_corners = " + aligned + "> (x, far) }",
            "GridSample");
}

TEST_CASE("sampling at computed positions as graphs") {
  check(
      "agraph (double[1, 2, 3, 2, 3] x, double[1, 2, 1, 2, 3] grid) => (double[1, 2, 2, 1, 2] y) { y = GridSample (x, grid) }",
      "GridSample");
  check(
      "agraph (double[1, 4, 4, 5] x, double[4, 2, 2, 3] w, double[1, 24, 4, 2] o, double[4] b, double[1, 12, 4, 2] m) => "
      "(double[1, 4, 4, 2] y) { y = DeformConv <group = 2, offset_group = 2, pads = [1, 0, 1, 1], strides = [1, 2], dilations "
      "= [2, 1]> (x, w, o, b, m) }",
      "DeformConv");
}

TEST_CASE("positions in images of 16 bits are computed in float") {
  struct Case {
    std::string inputs, type, call;
    std::vector<Sizes> sizes;
  };
  const std::vector<Case> cases{
      {"T[1, 2, 9, 60] x, float[1, 5, 5, 2] grid", "T[1, 2, 5, 5]", "GridSample (x, grid)", {{1, 2, 9, 60}, {1, 5, 5, 2}}},
      {"T[1, 2, 9, 60] x, T[3, 2, 2, 2] w, T[1, 8, 8, 59] o",
       "T[1, 3, 8, 59]",
       "DeformConv (x, w, o)",
       {{1, 2, 9, 60}, {3, 2, 2, 2}, {1, 8, 8, 59}}}};
  for (const Case& c : cases) {
    CAPTURE(c.call);
    std::mt19937 random(1);
    std::vector<std::vector<double>> numbers;
    for (const Sizes& sizes : c.sizes) {
      auto& list = numbers.emplace_back(static_cast<std::size_t>(element_count(sizes)));
      for (double& number : list) number = static_cast<double>(random() % 257) / 128 - 1;  // exact in 16 bits
    }
    const auto result = [&](const std::string& type) {
      std::string text = "agraph (" + c.inputs + ") => (" + c.type + " y) { y = " + c.call + " }";
      for (std::size_t at = 0; (at = text.find("T[", at)) != std::string::npos;) text.replace(at, 1, type);
      const Graph graph = import_onnx_bytes(text_bytes(text, 22), "test");
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        inputs.push_back(Tensor::from_reals(graph.value(graph.inputs()[i]).type.type, c.sizes[i], numbers[i]));
      return interpret(graph, inputs).at(0).reals();
    };
    const std::vector<double> exact = result("float"), half = result("float16");
    REQUIRE(exact.size() == half.size());
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(half[i] == Approx(exact[i]).margin(4e-3));
  }
}

TEST_CASE("elements at other places as graphs") {
  check(
      "agraph (double[2, 12, 9] x) => (double[2, 2, 6, 4] y) <int64[2] image = {6, 4}, int64[2] block = {2, 3}> "
      "{ y = Col2Im <strides = [2, 1], pads = [0, 1, 1, 0]> (x, image, block) }",
      "Col2Im");
  check(
      "agraph (double[1, 1, 2, 2] x) => (double[1, 1, 5, 4] y) <int64[1, 1, 2, 2] i = {5, 7, 8, 15}, int64[4] s = {1, 1, 5, "
      "4}> "
      "{ y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i, s) }",
      "MaxUnpool");
  check("agraph (double[3, 4, 2] x) => (double[3, 4, 2] y) <int64[4] n = {1, 3, 2, 3}> { y = ReverseSequence (x, n) }",
        "ReverseSequence");
}

TEST_CASE("means and maxima of regions as graphs") {
  const auto roi = [](const std::string& attributes, const std::string& images = "2, 3, 6, 5") {
    // Regions in both orientations, small and large, inside and across the border.
    return "agraph (double[" + images +
           "] x, double[5, 4] moved) => (double[5, 3, 2, 3] y) <double[5, 4] places = "
           "{0.3, 0.6, 4.1, 5.2, 1.2, 2.1, 2.3, 2.9, -3.4, -2.2, 9.7, 8.3, 2.2, 1.4, 1.5, 0.9, -30.2, 3.3, 41.7, 24.9}, "
           "int64[5] which = {0, 1, 1, 0, 1}> { rois = Add (places, moved) y = RoiAlign <output_height = 2, output_width = 3, "
           "spatial_scale = 0.7, " +
           attributes + "> (x, rois, which) }";
  };
  for (const std::string mode : {"half_pixel", "output_half_pixel"}) {
    const std::string coordinates = ", coordinate_transformation_mode = \"" + mode + "\"";
    check(roi("sampling_ratio = 2" + coordinates), "RoiAlign");
    check(roi("sampling_ratio = 0" + coordinates), "RoiAlign");
    check(roi("sampling_ratio = 2, mode = \"max\"" + coordinates), "RoiAlign");
  }
  check(roi("sampling_ratio = 0", "2, 3, 1, 1"), "RoiAlign");
}

TEST_CASE("the largest elements of regions as graphs") {
  check(
      "agraph (double[2, 1, 6, 5] x) => (double[4, 1, 2, 3] y) <double[4, 5] rois = {0, 0, 1, 4, 5, 1, 2, 2, 2, 2, 1, -9, -8, "
      "30, "
      "20, 0, 8, 9, 10, 11}> { y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = 0.7> (x, rois) }",
      "MaxRoiPool");
}

namespace {

Graph import_pooling(const std::string& type, const std::string& bins, const std::string& scale, bool as_graph) {
  ImportOptions options;
  options.procedures_as_graphs = as_graph;
  const std::string text = "agraph (" + type + "[2, 1, 3, 40] x, " + type + "[R, 5] rois) => (" + type +
                           "[R, C, H, W] y) { y = MaxRoiPool <pooled_shape = " + bins + ", spatial_scale = " + scale +
                           "> (x, rois) }";
  return import_onnx_bytes(text_bytes(text, 22), "regions", options);
}

// Each element is its column's number.
Tensor columns_of(DataType type) {
  std::vector<double> x;
  for (int n = 0; n < 2 * 3 * 40; ++n) x.push_back(n % 40);
  return Tensor::from_reals(type, {2, 1, 3, 40}, x);
}

}  // namespace

TEST_CASE("bins of regions begin and end at the same elements, as a graph or not, in all types") {
  std::mt19937 random(8);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::uniform_real_distribution<double> place(-5, 45);
  const std::pair<std::string, DataType> types[]{
      {"float", DataType::kFloat}, {"double", DataType::kDouble}, {"float16", DataType::kHalf}};
  for (int round = 0; round < 60; ++round) {
    const auto& [name, type] = types[round % 3];
    const std::int64_t bins = pick(1, 9);
    std::vector<double> rois;
    for (int region = 0; region < 20; ++region) {
      const double left = pick(0, 1) == 1 ? pick(-3, 20) : place(random);
      // Bins of whole sizes mostly: a bin's rounded size times its number may lie at either side of a whole number.
      const double right = pick(0, 3) > 0 ? left + static_cast<double>(bins * pick(1, 5)) - 1 : place(random);
      rois.insert(rois.end(), {static_cast<double>(pick(0, 1)), left, 0.0, right, 1.0});
    }
    const std::string across = "[1, " + std::to_string(bins) + "]", scale = pick(0, 1) == 1 ? "1.0" : "0.7";
    const std::vector<Tensor> inputs{columns_of(type), Tensor::from_reals(type, {20, 5}, rois)};
    INFO(name << ", " << bins << " bins");
    const std::vector<double> plain = interpret(import_pooling(name, across, scale, false), inputs)[0].reals();
    const std::vector<double> found = interpret(import_pooling(name, across, scale, true), inputs)[0].reals();
    REQUIRE(plain == found);
  }
}

TEST_CASE("bins of whole sizes have no elements of their neighbours") {
  for (const bool as_graph : {false, true})
    for (const auto& [name, type] : {std::pair("float", DataType::kFloat), std::pair("double", DataType::kDouble)}) {
      const std::vector<Tensor> inputs{columns_of(type),
                                       Tensor::from_reals(type, {2, 5}, std::vector<double>{0, 0, 0, 20, 0, 0, 2, 0, 22, 0})};
      // These are ONNX Runtime's.
      const std::vector<double> expected{2, 5, 8, 11, 14, 17, 20, 4, 7, 10, 13, 16, 19, 22};
      CHECK(interpret(import_pooling(name, "[1, 7]", "1.0", as_graph), inputs)[0].reals() == expected);
    }
}

TEST_CASE("regions of infinite size have empty bins, and those of no image are refused") {
  const double inf = HUGE_VAL, nan = std::nan("");
  for (const bool as_graph : {false, true}) {
    const Graph graph = import_pooling("float", "[2, 3]", "1.0", as_graph);
    const auto pooled = [&](const std::vector<double>& region) {
      return interpret(graph,
                       std::vector{columns_of(DataType::kFloat), Tensor::from_reals(DataType::kFloat, {1, 5}, region)})[0]
          .reals();
    };
    for (const auto& [begin, end] :
         {std::pair(0.0, inf), {-inf, 0.0}, {-inf, inf}, {inf, inf}, {inf, -inf}, {-3e38, 3e38}, {0.0, nan}, {nan, 0.0}}) {
      INFO(begin << " to " << end << (as_graph ? ", as a graph" : ""));
      CHECK(pooled({0, begin, 0, end, 5}) == std::vector<double>(6, 0));
      CHECK(pooled({0, 0, begin, 5, end}) == std::vector<double>(6, 0));
    }
    CHECK(pooled({0, 3e38, 0, 3e38, 5}) == std::vector<double>(6, 0));
    CHECK_THROWS_AS(pooled({2, 0, 0, 5, 5}), Error);
    if (as_graph) continue;
    for (const double image : {nan, inf, -inf, 3e38}) CHECK_THROWS_AS(pooled({image, 0, 0, 5, 5}), Error);
  }
}

TEST_CASE("a sequence that is longer than the tensor is not reversed") {
  std::mt19937 random(9);
  for (const std::string axes : {"batch_axis = 0, time_axis = 1", "batch_axis = 1, time_axis = 0"}) {
    const bool batch_first = axes.starts_with("batch_axis = 0");
    const std::string shape = batch_first ? "[2, 3, 4]" : "[3, 2, 4]";
    const Graph graph = import_onnx_bytes(text_bytes("agraph (float" + shape + " x, int64[2] n) => (float" + shape +
                                                         " y) { y = ReverseSequence <" + axes + "> (x, n) }",
                                                     22),
                                          "reversed");
    const Tensor x = random_tensor({DataType::kFloat, batch_first ? Indices{2, 3, 4} : Indices{3, 2, 4}}, random);
    const auto reversed = [&](std::int64_t first, std::int64_t second) {
      return interpret(graph, std::vector{x, Tensor::from_integers(DataType::kInt64, {2}, std::vector{first, second})});
    };
    INFO(axes);
    CHECK_NOTHROW(reversed(3, 3));
    for (const std::int64_t length : {std::int64_t{4}, std::int64_t{6}, std::int64_t{1} << 62, INT64_MAX}) {
      INFO(length);
      CHECK_THROWS_AS(reversed(length, 3), Error);
      CHECK_THROWS_AS(reversed(3, length), Error);
    }
  }
}

TEST_CASE("bins and samples of regions that no memory can hold are refused") {
  ImportOptions options;
  options.procedures_as_graphs = true;
  const auto pooled = [&](const std::string& node) {
    const std::string text =
        "agraph (float[2, 1, 6, 5] x, float[4, 4] places, int64[4] which, float[4, 5] rois) => "
        "(float[R, C, H, W] y) { y = " +
        node + " }";
    import_onnx_bytes(text_bytes(text, 22), "regions", options);
  };
  CHECK_NOTHROW(pooled("RoiAlign <output_height = 2> (x, places, which)"));
  CHECK_NOTHROW(pooled("MaxRoiPool <pooled_shape = [2, 3]> (x, rois)"));
  for (const std::string count : {"-1", "1099511627776", "4611686018427387904"}) {
    CHECK_THROWS_AS(pooled("RoiAlign <output_height = " + count + "> (x, places, which)"), Error);
    CHECK_THROWS_AS(pooled("MaxRoiPool <pooled_shape = [3, " + count + "]> (x, rois)"), Error);
    if (count != "-1")  // as many as fit
      CHECK_THROWS_AS(pooled("RoiAlign <mode = \"max\", sampling_ratio = " + count + "> (x, places, which)"), Error);
  }
}

TEST_CASE("caches that are written to as graphs") {
  check(
      "agraph (double[2, 3, 4, 2] x, double[2, 3, 2, 2] u) => (double[2, 3, 4, 2] y) <int64[2] w = {2, 1}> "
      "{ y = TensorScatter (x, u, w) }",
      "TensorScatter", 24);
  check(
      "agraph (double[2, 4, 3] x, double[2, 3, 3] u) => (double[2, 4, 3] y) <int64[2] w = {3, 9}> "
      "{ y = TensorScatter <axis = 1, mode = \"circular\"> (x, u, w) }",
      "TensorScatter", 24);
  check("agraph (double[2, 4, 3] x, double[2, 3, 3] u) => (double[2, 4, 3] y) { y = TensorScatter (x, u) }", "TensorScatter",
        24);
}

TEST_CASE("batch normalization in training as a graph") {
  check(
      "agraph (double[3, 2, 4] x, double[2] s, double[2] b, double[2] m, double[2] v) => (double[3, 2, 4] y, double[2] n, "
      "double[2] w) { y, n, w = BatchNormalization <training_mode = 1, momentum = 0.7> (x, s, b, m, v) }",
      "BatchNormalization");
}

TEST_CASE("random numbers of a seed are those of MT19937, of which dropout needs one each") {
  std::mt19937 random(3);
  const Graph graph = testing::import_text(
      "agraph (float[900] x, float ratio, bool training) => (float[900] y, bool[900] kept, double[900] u) { y, kept = Dropout "
      "<seed = 7> (x, ratio, training) u = RandomUniform <dtype = 11, shape = [900], seed = 7.0> () }",
      22);
  const Tensor x = random_tensor({DataType::kFloat, {900}}, random);
  const Tensor ratio = Tensor::scalar(DataType::kFloat, 0.25);
  for (const bool training : {true, false}) {
    const std::vector<Tensor> found = interpret(graph, std::vector{x, ratio, Tensor::scalar(DataType::kBool, training)});
    std::mt19937 words(7);
    for (std::size_t n = 0; n < 900; ++n) {
      const double high = words() >> 5, low = words() >> 6, uniform = (high * 67108864 + low) / 9007199254740992;
      const bool kept = !training || uniform >= 0.25;
      REQUIRE(found[2].reals()[n] == uniform);
      REQUIRE((found[1].integers()[n] != 0) == kept);
      const double expected = training ? x.reals()[n] / 0.75 : x.reals()[n];
      REQUIRE(found[0].reals()[n] == static_cast<float>(kept ? expected : 0));
    }
  }
}

TEST_CASE("Fourier transforms as graphs") {
  check("agraph (double[2, 5, 3, 1] x) => (double[2, 3, 3, 2] y) <int64 axis = {1}> { y = DFT <onesided = 1> (x, , axis) }",
        "DFT");
  check(
      "agraph (double[3, 2, 2] x) => (double[4, 2, 2] y) <int64 n = {4}, int64 axis = {0}> { y = DFT <inverse = 1> (x, n, "
      "axis) }",
      "DFT");
  check("agraph (double[2, 9, 1] x, double[4] w) => (double[2, 3, 3, 2] y) <int64 step = {2}> { y = STFT (x, step, w) }",
        "STFT");
}

TEST_CASE("Fourier transforms of an open length as graphs") {
  std::mt19937 random(1);
  ImportOptions options;
  options.procedures_as_graphs = true;
  for (const char* const how : {"onesided = 0", "onesided = 1", "inverse = 1"})
    for (const std::int64_t parts : {1, 2}) {
      const std::string text = "agraph (double[b, n, 3, " + std::to_string(parts) +
                               "] x) => (double[b, k, 3, 2] y) <int64 axis = {1}> { y = DFT <" + how + "> (x, , axis) }";
      INFO(text);
      const std::string bytes = text_bytes(text, 22);
      const Graph plain = import_onnx_bytes(bytes, "plain"), graph = import_onnx_bytes(bytes, "graph", options);
      for (const auto& node : graph.nodes()) REQUIRE(node->op != nullptr);
      for (const std::int64_t n : {1, 2, 5, 8}) {
        const std::vector<Tensor> x{random_tensor({DataType::kDouble, {2, n, 3, parts}}, random)};
        const Tensor expected = interpret(plain, x)[0], found = interpret(graph, x)[0];
        REQUIRE(found.sizes() == expected.sizes());
        for (std::size_t i = 0; i < expected.reals().size(); ++i)
          REQUIRE(found.reals()[i] == Approx(expected.reals()[i]).margin(1e-9));
      }
    }
}

TEST_CASE("loops with a known number of iterations as graphs") {
  check(R"(agraph (double[3] x, double[3] w) => (double[3] last, double[4, 3] all) <int64 n = {4}, bool yes = {1}> {
    last, all = Loop <body = b (int64 i, bool go, double[3] s) => (bool on, double[3] t, double[3] u) {
      on = Identity(go)
      k = Cast <to = 11> (i)
      a = Mul(s, w)
      t = Add(a, k)
      u = Tanh(t)
    }> (n, yes, x)
  })",
        "Loop");
  check(R"(agraph (double[2] x, double[2, 3] v) => (double[2] last, double[2, 3] all) {
    last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1],
                      body = b (double[2] s, double[2] e) => (double[2] t, double[2] u) {
      p = Mul(s, e)
      t = Add(p, s)
      u = Sin(t)
    }> (x, v)
  })",
        "Scan");
}

TEST_CASE("a loop whose number of iterations is not known stays, and says why") {
  ImportOptions options;
  options.procedures_as_graphs = true;
  const Graph graph = import_onnx_bytes(text_bytes(R"(agraph (float[3] x, int64 n) => (float[3] last) <bool yes = {1}> {
    last = Loop <body = b (int64 i, bool go, float[3] s) => (bool on, float[3] t) {
      on = Identity(go)
      t = Add(s, s)
    }> (n, yes, x)
  })"),
                                        "test", options);
  CHECK(graph.nodes()[0]->opaque_reason == "how often it goes round is not known");
}

}  // namespace rewright::graph
