// Operators that one kernel computes in the place of their graphs, beside these graphs in the interpreter.
#include <algorithm>
#include <random>
#include <sstream>

#include "graph/testing.h"
#include "runtime/cpu/testing/whole_calls.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::in_brackets;
using rewright::testing::random_tensor;
using rewright::testing::require_close;
using rewright::testing::tested_isas;

namespace {

struct Random {
  std::mt19937 generator;
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  }
  const char* one_of(std::initializer_list<const char*> list) {
    return list.begin()[pick(0, static_cast<std::int64_t>(list.size()) - 1)];
  }
};

Graph whole_graph(const std::string& text, int opset) {
  ImportOptions options;
  options.procedures_as_graphs = true;
  return rewright::testing::import_text(text, opset, options, ", \"com.microsoft\" : 1");
}

// Is there a node of this name alone, and are its results those of the graph, on all instruction sets and on several threads?
void check_whole(const Graph& graph, std::string_view name, const std::vector<Tensor>& inputs, double tolerance) {
  const Graph whole = with_whole_operators(graph);
  REQUIRE(whole.nodes().size() == 1);
  REQUIRE(whole.nodes()[0]->op->name() == name);
  const std::vector<Tensor> expected = interpret(graph, inputs);
  for (const Isa isa : tested_isas())
    for (const int threads : {1, 3}) {
      SessionOptions options;
      options.max_isa = isa;
      options.threads = threads;
      INFO("isa " << cpu::name(isa) << ", " << threads << " threads");
      require_close(graph, rewright::testing::cpu_backend().prepare(graph, options)->run(inputs), expected, {tolerance});
    }
}

// Likewise for this graph of floats in 16 bits: computed in floats, from rounded inputs, and rounded.
void check_short(std::string text, int opset, std::string_view name, std::vector<Tensor> inputs) {
  const auto round = [](const Tensor& tensor, DataType type) {
    return tensor.type() == DataType::kFloat || tensor.type() == DataType::kHalf
               ? Tensor::from_reals(type, tensor.sizes(), tensor.reals())
               : tensor;
  };
  const Graph graph = whole_graph(text, opset);
  for (std::size_t at = 0; (at = text.find("float[", at)) != std::string::npos;) text.insert(at += 5, "16");
  const Graph in_16_bits = whole_graph(text, opset);
  REQUIRE(with_whole_operators(in_16_bits).nodes()[0]->op->name() == name);
  std::vector<Tensor> given, expected;
  for (Tensor& input : inputs) {
    given.push_back(round(input, DataType::kHalf));
    input = round(given.back(), input.type());
  }
  for (const Tensor& tensor : interpret(graph, inputs)) expected.push_back(round(tensor, DataType::kHalf));
  require_close(in_16_bits, rewright::testing::cpu_backend().prepare(in_16_bits)->run(given), expected, {2e-3});
}

}  // namespace

TEST_CASE("GridSample finds the elements beside a point once for all channels") {
  Random r{std::mt19937(11)};
  for (int round = 0; round < 60; ++round) {
    const bool is_cubic = round % 5 == 4;
    const auto axes = static_cast<std::size_t>(is_cubic ? 2 : r.pick(1, 3));
    const char* const mode = is_cubic ? "cubic" : r.one_of({"linear", "nearest"});
    const char* const padding = r.one_of({"zeros", "border", "reflection"});
    Sizes x{r.pick(1, 3), r.pick(1, 5)}, grid{x[0]};
    for (std::size_t a = 0; a < axes; ++a) {
      x.push_back(r.pick(1, 9));
      grid.push_back(r.pick(1, axes == 1 ? 700 : axes == 2 ? 30 : 9));
    }
    Sizes y{x[0], x[1]};
    y.insert(y.end(), grid.begin() + 1, grid.end());
    grid.push_back(static_cast<std::int64_t>(axes));
    std::ostringstream text;
    text << "agraph (float" << in_brackets(x) << " x, float" << in_brackets(grid) << " grid) => (float" << in_brackets(y)
         << " y) {\n  y = GridSample <mode = \"" << mode << "\", padding_mode = \"" << padding
         << "\", align_corners = " << r.pick(0, 1) << "> (x, grid)\n}";
    CAPTURE(round, text.str());
    std::vector<Tensor> inputs{random_tensor(r.generator, DataType::kFloat, x),
                               random_tensor(r.generator, DataType::kFloat, grid, -1.4, 1.4)};
    if (round % 7 == 3) {  // at the centres and edges of elements, and where no position is
      std::vector<double> places = inputs[1].reals();
      for (std::size_t i = 0; i < places.size(); i += 2)
        places[i] = std::vector<double>{-1, 1, 0, 0.5, NAN, INFINITY, -1e30}[static_cast<std::size_t>(r.pick(0, 6))];
      inputs[1] = Tensor::from_reals(DataType::kFloat, grid, places);
    }
    check_whole(whole_graph(text.str(), 22), GridSampling::kName, inputs, 2e-5);
    if (round % 4 == 2) check_short(text.str(), 22, GridSampling::kName, inputs);
  }
}

TEST_CASE("RotaryEmbedding turns heads where they lie") {
  Random r{std::mt19937(12)};
  for (int round = 0; round < 60; ++round) {
    const bool contrib = round % 2 == 0, has_axis = r.pick(0, 1) == 1, interleaved = r.pick(0, 1) == 1;
    const std::int64_t batch = r.pick(1, 3), heads = r.pick(1, 5), length = r.pick(1, 9), half = r.pick(1, 40);
    const std::int64_t size = 2 * half + (r.pick(0, 1) == 1 ? r.pick(1, 20) : 0), table = length + r.pick(0, 20);
    const bool is_partial = size != 2 * half, has_positions = contrib || r.pick(0, 2) > 0;
    const bool is_first = contrib && r.pick(0, 1) == 1;
    const Sizes x = has_axis ? Sizes{batch, heads, length, size} : Sizes{batch, length, heads * size};
    const Sizes tables = has_positions ? Sizes{table, half} : Sizes{batch, length, half};
    const Sizes positions = is_first ? Sizes{1} : Sizes{batch, length};
    std::ostringstream text;
    text << "agraph (float" << in_brackets(x) << " x, float" << in_brackets(tables) << " c, float" << in_brackets(tables)
         << " s";
    if (has_positions) text << ", int64" << in_brackets(positions) << " p";
    text << ") => (float" << in_brackets(x) << " y) {\n  y = " << (contrib ? "com.microsoft." : "")
         << "RotaryEmbedding <interleaved = " << interleaved << ", num_heads = " << heads;
    if (is_partial || r.pick(0, 1) == 1) text << ", rotary_embedding_dim = " << 2 * half;
    text << "> " << (contrib ? "(x, p, c, s)" : has_positions ? "(x, c, s, p)" : "(x, c, s)") << "\n}";
    if (contrib && !has_axis && is_partial && text.str().find("rotary_embedding_dim") == std::string::npos) continue;
    CAPTURE(round, text.str());
    std::vector<Tensor> inputs{random_tensor(r.generator, DataType::kFloat, x),
                               random_tensor(r.generator, DataType::kFloat, tables),
                               random_tensor(r.generator, DataType::kFloat, tables)};
    if (has_positions) {
      std::vector<std::int64_t> at(static_cast<std::size_t>(element_count(positions)));
      for (auto& p : at) p = is_first ? r.pick(0, table - length) : r.pick(0, table - 1);
      inputs.push_back(Tensor::from_integers(DataType::kInt64, positions, at));
    }
    check_whole(whole_graph(text.str(), 23), Rotation::kName, inputs, 2e-5);
    if (round % 4 > 1) check_short(text.str(), 23, Rotation::kName, inputs);
  }
}

TEST_CASE("BatchNormalization in training normalizes a channel while it is in the caches") {
  Random r{std::mt19937(13)};
  for (int round = 0; round < 30; ++round) {
    // Also short rows, as many as are put side by side at most, and more.
    Sizes x{r.pick(1, 9), r.pick(1, 9), r.pick(4, 30), round % 3 == 1 ? r.pick(2, 4) : r.pick(4, 50)};
    if (round == 5) x = {128, 1, 8, 8};
    if (round == 7) x = {100, 2, 10, 10};
    const DataType of = round % 4 == 2 ? DataType::kDouble : DataType::kFloat;
    const std::string real = of == DataType::kDouble ? "double" : "float", type = real + in_brackets(x),
                      c = real + in_brackets({x[1]});
    const bool has_running = round % 3 > 0;
    std::ostringstream text;
    text << "agraph (" << type << " x, " << c << " s, " << c << " b, " << c << " m, " << c << " v) => (" << type << " y";
    if (has_running) text << ", " << c << " nm, " << c << " nv";
    text << ") {\n  y" << (has_running ? ", nm, nv" : "")
         << " = BatchNormalization <training_mode = 1, momentum = 0.7, epsilon = " << (round % 2 == 0 ? "0.00001" : "0.01")
         << "> (x, s, b, m, v)\n}";
    CAPTURE(round, text.str());
    std::vector<Tensor> inputs{random_tensor(r.generator, of, x, 1, 3)};
    for (int i = 0; i < 4; ++i) inputs.push_back(random_tensor(r.generator, of, {x[1]}, 0.5, 2));
    check_whole(whole_graph(text.str(), 15), BatchStatistics::kName, inputs, 3e-5);
    if (of == DataType::kFloat && round % 4 == 1) check_short(text.str(), 15, BatchStatistics::kName, inputs);
  }
}

TEST_CASE("DeformConv multiplies the elements at some windows' points at a time") {
  Random r{std::mt19937(15)};
  for (int round = 0; round < 40; ++round) {
    const std::int64_t of_offsets = r.pick(1, 3), groups = round % 3 == 0 ? of_offsets * r.pick(1, 2) : r.pick(0, 1) * 2 + 1,
                       least = std::max(of_offsets, groups);
    // Numbers of groups of which one divides the other.
    if (of_offsets % groups != 0 && groups % of_offsets != 0) continue;
    const std::int64_t channels = least * r.pick(1, round % 4 == 0 ? 40 : 5), outputs = groups * r.pick(1, 5);
    const Sizes w{outputs, channels / groups, r.pick(1, 3), r.pick(1, 3)};
    const Sizes strides{r.pick(1, 2), r.pick(1, 2)}, dilations{r.pick(1, 2), r.pick(1, 2)},
        pads{r.pick(0, 2), r.pick(0, 2), r.pick(0, 2), r.pick(0, 2)};
    Sizes x{r.pick(1, 3), channels}, places;
    for (std::size_t a = 0; a < 2; ++a) {
      const std::int64_t extent = dilations[a] * (w[a + 2] - 1) + 1;
      x.push_back(r.pick(extent, extent + 24));
      places.push_back((x[a + 2] + pads[a] + pads[a + 2] - extent) / strides[a] + 1);
    }
    const std::int64_t taps = w[2] * w[3];
    const Sizes offsets{x[0], of_offsets * 2 * taps, places[0], places[1]}, mask{x[0], of_offsets * taps, places[0], places[1]};
    const bool has_bias = r.pick(0, 1) == 1, has_mask = r.pick(0, 1) == 1;
    std::ostringstream text;
    text << "agraph (float" << in_brackets(x) << " x, float" << in_brackets(w) << " w, float" << in_brackets(offsets) << " o";
    if (has_bias) text << ", float" << in_brackets({outputs}) << " b";
    if (has_mask) text << ", float" << in_brackets(mask) << " m";
    text << ") => (float" << in_brackets({x[0], outputs, places[0], places[1]}) << " y) {\n  y = DeformConv <group = " << groups
         << ", offset_group = " << of_offsets << ", strides = " << in_brackets(strides)
         << ", dilations = " << in_brackets(dilations) << ", pads = " << in_brackets(pads) << "> (x, w, o"
         << (has_bias   ? ", b"
             : has_mask ? ", "
                        : "")
         << (has_mask ? ", m" : "") << ")\n}";
    CAPTURE(round, text.str());
    std::vector<Tensor> inputs{random_tensor(r.generator, DataType::kFloat, x), random_tensor(r.generator, DataType::kFloat, w),
                               random_tensor(r.generator, DataType::kFloat, offsets, -3, 3)};
    if (round % 5 == 1) {  // onto elements, and where no position is
      std::vector<double> moved = inputs[2].reals();
      for (std::size_t i = 0; i < moved.size(); i += 2)
        moved[i] = std::vector<double>{-1, 0, 0.5, NAN, INFINITY, -1e30}[static_cast<std::size_t>(r.pick(0, 5))];
      inputs[2] = Tensor::from_reals(DataType::kFloat, offsets, moved);
    }
    if (has_bias) inputs.push_back(random_tensor(r.generator, DataType::kFloat, {outputs}));
    if (has_mask) inputs.push_back(random_tensor(r.generator, DataType::kFloat, mask));
    check_whole(whole_graph(text.str(), 22), DeformedConvolution::kName, inputs, 2e-5);
    if (round % 4 == 2) check_short(text.str(), 22, DeformedConvolution::kName, inputs);
  }
}
