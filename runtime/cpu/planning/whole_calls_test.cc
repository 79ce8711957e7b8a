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
  }
}

TEST_CASE("BatchNormalization in training normalizes a channel while it is in the caches") {
  Random r{std::mt19937(13)};
  for (int round = 0; round < 30; ++round) {
    const Sizes x{r.pick(1, 9), r.pick(1, 9), r.pick(4, 30), r.pick(4, 30)};
    const std::string c = in_brackets({x[1]}), type = "float" + in_brackets(x);
    const bool has_running = round % 3 > 0;
    std::ostringstream text;
    text << "agraph (" << type << " x, float" << c << " s, float" << c << " b, float" << c << " m, float" << c << " v) => ("
         << type << " y";
    if (has_running) text << ", float" << c << " nm, float" << c << " nv";
    text << ") {\n  y" << (has_running ? ", nm, nv" : "")
         << " = BatchNormalization <training_mode = 1, momentum = 0.7, epsilon = " << (round % 2 == 0 ? "0.00001" : "0.01")
         << "> (x, s, b, m, v)\n}";
    CAPTURE(round, text.str());
    std::vector<Tensor> inputs{random_tensor(r.generator, DataType::kFloat, x, 1, 3)};
    for (int i = 0; i < 4; ++i) inputs.push_back(random_tensor(r.generator, DataType::kFloat, {x[1]}, 0.5, 2));
    check_whole(whole_graph(text.str(), 15), BatchStatistics::kName, inputs, 3e-5);
  }
}
