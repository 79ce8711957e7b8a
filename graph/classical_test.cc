// Operators of ai.onnx.ml and their like: maps, and models as graphs of operators.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "base/temporary_folder.h"
#include "graph/graph.h"
#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "graph/onnx/tree_calls.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::floats;
using testing::int64s;

Graph classical(const std::string& text) {
  return import_onnx_bytes(text_bytes(text, 17, ", \"ai.onnx.ml\" : 3, \"com.microsoft\" : 1"), "test");
}

Datum run(const Graph& graph, const std::vector<Datum>& inputs) { return execute(graph, inputs).at(0); }

bool is_graph(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) { return node->op != nullptr; });
}

Datum map_of(const Tensor& keys, const Tensor& values) { return Datum::map(std::make_shared<const Tensor>(keys), values); }

}  // namespace

TEST_CASE("a table of scores becomes a map for each row, its classes in ascending order") {
  const Graph numbers = classical(R"(agraph (float[N, 3] x) => (seq(map(int64, float)) y) {
    y = ai.onnx.ml.ZipMap <classlabels_int64s = [5, -1, 2]> (x)
  })");
  const Datum maps = run(numbers, {floats({2, 3}, {1, 2, 3, 4, 5, 6})});
  REQUIRE(maps.elements().size() == 2);
  CHECK(maps.elements()[0].keys()->integers() == std::vector<std::int64_t>{-1, 2, 5});
  CHECK(maps.elements()[0].values().reals() == std::vector<double>{2, 3, 1});
  CHECK(maps.elements()[1].values().reals() == std::vector<double>{5, 6, 4});
  CHECK(maps.elements()[0].keys() == maps.elements()[1].keys());
  CHECK_THROWS_WITH(run(numbers, {floats({1, 4}, {1, 2, 3, 4})}), Catch::Contains("4"));

  const Graph texts = classical(R"(agraph (float[2] x) => (seq(map(string, float)) y) {
    y = ai.onnx.ml.ZipMap <classlabels_strings = ["a", "b"]> (x)
  })");
  const Datum one = run(texts, {floats({2}, {0.25, 0.75})});
  REQUIRE(one.elements().size() == 1);
  CHECK(one.elements()[0].keys()->strings()[1] == "b");
  CHECK_THROWS_WITH(one.elements()[0].tensor(), Catch::Contains("is a map, a tensor is needed"));
}

TEST_CASE("maps become rows") {
  const Datum map = map_of(Tensor::from_strings({2}, {"b", "d"}), floats({2}, {1.5, 2.5}));
  const Graph words = classical(R"(agraph (map(string, float) x) => (float[1, 3] y) {
    y = ai.onnx.ml.DictVectorizer <string_vocabulary = ["a", "b", "c"]> (x)
  })");
  CHECK(run(words, {map}).tensor().reals() == std::vector<double>{0, 1.5, 0});
  CHECK_THROWS_WITH(run(words, {map_of(int64s({1}, {3}), floats({1}, {1}))}), Catch::Contains("keys"));

  const Datum numbers = map_of(int64s({3}, {3, 1, 9}), floats({3}, {30, 10, 90}));
  const Graph dense = classical(R"(agraph (map(int64, float) x) => (float[1, C] y) { y = ai.onnx.ml.CastMap (x) })");
  CHECK(run(dense, {numbers}).tensor().reals() == std::vector<double>{10, 30, 90});
  const Graph sparse = classical(R"(agraph (map(int64, float) x) => (int64[1, 5] y) {
    y = ai.onnx.ml.CastMap <cast_to = "TO_INT64", map_form = "SPARSE", max_map = 5> (x)
  })");
  CHECK(run(sparse, {numbers}).tensor().integers() == std::vector<std::int64_t>{0, 10, 0, 30, 0});
}

TEST_CASE("maps are read from files as they are written to them") {
  const TemporaryFolder folder;
  const Graph graph = classical(R"(agraph (float[N, 2] x) => (seq(map(string, float)) y) {
    y = ai.onnx.ml.ZipMap <classlabels_strings = ["a", "b"]> (x)
  })");
  const auto file = folder.path() / "y.pb";
  write_output(graph, 0, run(graph, {floats({2, 2}, {1, 2, 3, 4})}), file);
  const Datum read = read_output(graph, 0, file);
  REQUIRE(read.elements().size() == 2);
  CHECK(read.elements()[1].keys()->strings()[1] == "b");
  CHECK(read.elements()[1].values().reals() == std::vector<double>{3, 4});
}

TEST_CASE("preparations of features are graphs") {
  const Tensor x = floats({2, 3}, {1, -2, 0, 0, 4, 3});
  const auto result = [&](const std::string& node, const std::string& in = "float[N, 3] x") {
    const Graph graph = classical("agraph (" + in + ") => (float[N, C] y) { y = ai.onnx.ml." + node + " }");
    CHECK(is_graph(graph));
    return run(graph, {x}).tensor().reals();
  };
  CHECK(result("Scaler <offset = [1.0, 2.0, 3.0], scale = [2.0]> (x)") == std::vector<double>{0, -8, -6, -2, 4, 0});
  CHECK(result("Binarizer <threshold = 0.5> (x)") == std::vector<double>{1, 0, 0, 0, 1, 1});
  CHECK(result("Normalizer <norm = \"L1\"> (x)") == std::vector<double>{1.0f / 3, -2.0f / 3, 0, 0, 4.0f / 7, 3.0f / 7});
  CHECK(result("Normalizer <norm = \"MAX\"> (x)") == std::vector<double>{1, -2, 0, 0, 1, 0.75});
  CHECK(result("Imputer <replaced_value_float = 0.0, imputed_value_floats = [7.0, 8.0, 9.0]> (x)") ==
        std::vector<double>{1, -2, 9, 7, 4, 3});
  CHECK(result("FeatureVectorizer <inputdimensions = [2]> (x)") == std::vector<double>{1, -2, 0, 4});
  CHECK(result("FeatureVectorizer <inputdimensions = [4]> (x)") == std::vector<double>{1, -2, 0, 0, 0, 4, 3, 0});
  const Graph integers = classical(
      "agraph (int32[N, 2] x) => (int32[N, 2] y) { y = ai.onnx.ml.Imputer <replaced_value_int64 = 4, imputed_value_int64s = "
      "[9]> (x) }");
  const Tensor small = Tensor::from_integers(DataType::kInt32, {1, 2}, std::vector<std::int64_t>{4, 5});
  CHECK(run(integers, {small}).tensor().integers() == std::vector<std::int64_t>{9, 5});
  const Graph none = classical("agraph (float[N, 0] x) => (float[N, 0] y) { y = ai.onnx.ml.Normalizer (x) }");
  CHECK(run(none, {floats({2, 0}, {})}).tensor().sizes() == Sizes{2, 0});
  const Graph wide = classical(
      "agraph (float[N, 2] x) => (float[N, C] y) { y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [1000000000000000]> (x) "
      "}");
  CHECK_THROWS_WITH(run(wide, {floats({1, 2}, {1, 2})}), Catch::Contains("lists in its attributes"));
  // The columns are known only when it is executed.
  const Graph late =
      classical("agraph (float[N, M] x) => (float[N, M] y) { y = ai.onnx.ml.Scaler <offset = [1.0, 2.0, 3.0]> (x) }");
  CHECK(run(late, {x}).tensor().reals() == std::vector<double>{0, -4, -3, -1, 2, 0});
  CHECK_THROWS_WITH(run(late, {floats({1, 2}, {1, 2})}), Catch::Contains("lists in its attributes"));
}

TEST_CASE("linear models are graphs") {
  const Graph classes = classical(R"(agraph (float[N, 2] x) => (string[N] label, float[N, 3] y) {
    label, y = ai.onnx.ml.LinearClassifier <classlabels_strings = ["a", "b", "c"], post_transform = "SOFTMAX",
      coefficients = [1.0, 0.0, 0.0, 1.0, -1.0, -1.0], intercepts = [0.0, 0.5, 0.0]> (x)
  })");
  CHECK(is_graph(classes));
  const auto results = execute(classes, std::vector<Datum>{floats({2, 2}, {1, 0, -3, 0})});
  CHECK(results[0].tensor().strings()[0] == "a");
  CHECK(results[0].tensor().strings()[1] == "c");
  const double total = std::exp(1.0) + std::exp(0.5) + std::exp(-1.0);
  CHECK(results[1].tensor().reals()[0] == Approx(std::exp(1.0) / total));

  // The normal distribution function inverts the probit.
  const Graph probit = classical(R"(agraph (float[N, 1] x) => (float[N, 1] y) {
    y = ai.onnx.ml.LinearRegressor <coefficients = [1.0], post_transform = "PROBIT"> (x)
  })");
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> probabilities{0, 1, -0.5, 1e-6};
  while (probabilities.size() < 100) probabilities.push_back(uniform(random));
  const Tensor p = floats({100, 1}, probabilities);
  const auto z = run(probit, {p}).tensor().reals();
  CHECK(z[0] == -INFINITY);
  CHECK(z[1] == INFINITY);
  CHECK(std::isnan(z[2]));
  for (std::size_t i = 3; i < z.size(); ++i) CHECK(std::erfc(-z[i] / std::sqrt(2.0)) / 2 == Approx(p.reals()[i]).epsilon(3e-6));
}

TEST_CASE("distances and hashes of ONNX Runtime's own domain") {
  const Graph distances = classical(R"(agraph (float[N, 2] a, float[M, 2] b) => (float[N, M] y) {
    y = com.microsoft.CDist <metric = "euclidean"> (a, b)
  })");
  CHECK(is_graph(distances));
  CHECK(run(distances, {floats({1, 2}, {0, 0}), floats({2, 2}, {3, 4, 6, 8})}).tensor().reals() == std::vector<double>{5, 10});

  const Graph hashes = classical(R"(agraph (string[N] x) => (uint32[N] y) { y = com.microsoft.MurmurHash3 (x) })");
  const Tensor texts = Tensor::from_strings({3}, {"", "hello", "The quick brown fox jumps over the lazy dog"});
  CHECK(run(hashes, {texts}).tensor().integers() == std::vector<std::int64_t>{0, 0x248bfa47, 0x2e4ff723});
}

TEST_CASE("a test of a tree sends each number, and a missing one, where its mode says") {
  const auto holds = [](const std::string& mode, double x, double split) {
    if (mode == "BRANCH_LEQ") return x <= split;
    if (mode == "BRANCH_LT") return x < split;
    if (mode == "BRANCH_GTE") return x >= split;
    if (mode == "BRANCH_GT") return x > split;
    return mode == "BRANCH_EQ" ? x == split : x != split;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> xs{-2, -1, -0.0, 0, 1e-45, 1, 2, std::nan(""), infinity, -infinity};
  for (const std::string mode : {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"})
    for (const int missing : {0, 1})
      for (const std::string split : {"-1.0", "0.0", "1.0"}) {
        const Graph graph = classical(
            "agraph (float[N, 1] x) => (float[N, 1] y) { y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = "
            "[0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_modes = [\"" +
            mode + "\", \"LEAF\", \"LEAF\"], nodes_values = [" + split +
            ", 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_missing_value_tracks_true = [" +
            std::to_string(missing) +
            ", 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (x) "
            "}");
        CHECK(is_graph(graph));
        std::vector<double> expected;
        for (const double x : xs)
          expected.push_back((std::isnan(x) && missing == 1) || holds(mode, x, std::stod(split)) ? 1 : 2);
        INFO(mode << " " << split << " " << missing);
        CHECK(run(graph, {floats({static_cast<std::int64_t>(xs.size()), 1}, xs)}).tensor().reals() == expected);
      }
}

TEST_CASE("an ensemble of trees around which the graph has changed is written as one") {
  const Graph graph = classical(
      "agraph (float[N, 2] x) => (float[N, 1] y) { label, z = ai.onnx.ml.TreeEnsembleClassifier <classlabels_int64s = [0, 1], "
      "nodes_treeids = [0, 0, 0, 1], nodes_nodeids = [0, 1, 2, 0], nodes_featureids = [1, 0, 0, 0], nodes_modes = "
      "[\"BRANCH_GT\", \"LEAF\", \"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0, 0], "
      "nodes_falsenodeids = [2, 0, 0, 0], class_treeids = [0, 0, 1], class_nodeids = [1, 2, 0], class_ids = [1, 1, 1], "
      "class_weights = [0.25, 0.75, 0.125]> (x) y = Identity (z) }");
  // As a rewrite would do, the scores of the second class are taken from inside of the call.
  const auto trees = std::find_if(graph.nodes().begin(), graph.nodes().end(),
                                  [](const auto& node) { return node->op->name() == "TreeScores"; });
  REQUIRE(trees != graph.nodes().end());
  Graph changed = graph;
  std::vector<GraphOutput> outputs(graph.outputs().begin(), graph.outputs().end());
  outputs[0].value = (*trees)->outputs[0];
  changed.set_outputs(std::move(outputs));
  const Graph again = import_onnx_bytes(export_onnx_bytes(changed), "test");
  const Tensor x = floats({3, 2}, {0, 0.5, 0, 0.75, 0, std::nan("")});
  CHECK(run(again, {x}).tensor().reals() == std::vector<double>{0.875, 0.375, 0.875});
}

TEST_CASE("a call of trees of which a rewrite changed the rows and the tests is written as a call") {
  for (const bool texts : {false, true})
    for (const bool of_one_class : {false, true})
      for (const auto& [missing, transform, base] :
           {std::array<std::string, 3>{"0", "LOGISTIC", "0.125"}, {"1", "LOGISTIC", "0.125"}, {"0", "NONE", "0.0"}}) {
        const Graph graph = classical(
            "agraph (float[N, 3] x) => (" + std::string(texts ? "string" : "int64") +
            "[N] label, float[N, 2] z) <float[2] s = {-4, 0.25}, float[2] m = {0.5, 1}, int64[2] i = {2, 0}> { y = Gather "
            "<axis = "
            "1> (x, i) n = IsNaN (y) f = Where (n, m, y) c = Mul (f, s) label, z = ai.onnx.ml.TreeEnsembleClassifier <" +
            (texts ? "classlabels_strings = [\"a\", \"b\"]" : "classlabels_int64s = [0, 1]") + ", post_transform = \"" +
            transform + "\", base_values = [" + base + (of_one_class ? "" : ", " + base) +
            "], nodes_treeids = [0, 0, 0, 1, 1, 1], nodes_nodeids = [0, 1, 2, 0, 1, 2], nodes_featureids = [1, 0, 0, 0, 0, 0], "
            "nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"LEAF\", \"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, "
            "0.0, -3.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0, 1, 0, 0], nodes_falsenodeids = [2, 0, 0, 2, 0, 0], "
            "nodes_missing_value_tracks_true = [" +
            missing + ", 0, 0, 0, 0, 0], class_treeids = [0, 0, 1, 1], class_nodeids = [1, 2, 1, 2], class_ids = " +
            (of_one_class ? "[1, 1, 1, 1]" : "[0, 1, 1, 0]") + ", class_weights = [0.25, -0.75, 0.125, -2.0]> (c) }");
        // As the rules do, all that is before the trees goes into them.
        Graph changed = graph;
        const auto trees = std::find_if(graph.nodes().begin(), graph.nodes().end(),
                                        [](const auto& node) { return node->op && node->op->name() == "TreeScores"; });
        REQUIRE(trees != graph.nodes().end());
        std::vector<ValueId> inputs = (*trees)->inputs;
        REQUIRE(inputs.size() == 7);
        const auto is_sum = [](const auto& node) { return node->op && node->op->name() == "Add"; };
        CHECK(std::any_of(graph.nodes().begin(), graph.nodes().end(), is_sum) == (base != "0.0"));
        inputs[0] = graph.inputs()[0];
        inputs.push_back(changed.add_constant(int64s({2}, {2, 0})));
        inputs.push_back(changed.add_constant(floats({2}, {0.5, 1})));
        inputs.push_back(changed.add_constant(floats({2}, {-4, 0.25})));
        const ValueId scores = changed.add_node(*(*trees)->op, (*trees)->attributes, inputs).at(0);
        changed.replace_uses((*trees)->outputs.at(0), scores);
        changed.tidy();
        const std::string bytes = export_onnx_bytes(changed);
        onnx::ModelProto model;
        REQUIRE(model.ParseFromString(bytes));
        REQUIRE(model.graph().node_size() == 1);
        CHECK(model.graph().node(0).op_type() == "TreeEnsembleClassifier");
        const Graph again = import_onnx_bytes(bytes, "test");
        const double nan = std::nan("");
        const Tensor x = floats(
            {7, 3},
            {2, 0, 0.75, 2,   0, std::nextafter(0.75F, 1.0F), std::nextafter(2.0F, 3.0F), 0, 0.5, nan, 0, nan, 0, 0, nan, nan,
             0, 1, -5,   nan, -5});
        const auto expected = execute(graph, std::vector<Datum>{x}), found = execute(again, std::vector<Datum>{x});
        for (const std::size_t k : {0, 1}) CHECK(expected[k].tensor() == found[k].tensor());
      }
}

TEST_CASE("a call stays one where nothing reads some of its outputs") {
  for (const std::string read : {"label", "z"}) {
    const std::string type = read == "z" ? "float[N, 2] z" : "int64[N] label";
    Graph graph = classical(
        "agraph (float[N, 1] x) => (" + type +
        ") { label, z = ai.onnx.ml.TreeEnsembleClassifier <classlabels_int64s = [3, 4], nodes_treeids = [0, 0, 0], "
        "nodes_nodeids "
        "= [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], nodes_values = [0.5, "
        "0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], class_treeids = [0, 0], class_nodeids = [1, "
        "2], class_ids = [1, 1], class_weights = [0.25, 0.75]> (x) }");
    const std::size_t nodes = graph.nodes().size();
    graph.tidy();
    CHECK(graph.nodes().size() == nodes);
    onnx::ModelProto model;
    REQUIRE(model.ParseFromString(export_onnx_bytes(graph)));
    REQUIRE(model.graph().node_size() == 1);
    CHECK(model.graph().node(0).op_type() == "TreeEnsembleClassifier");
    CHECK(model.graph().node(0).output(0) == "label");
    CHECK(model.graph().node(0).output(1) == "z");
  }
}

TEST_CASE("ensembles of doubles, and of later versions, keep their trees") {
  const auto graph = [](const std::string& type, const std::string& version) {
    return import_onnx_bytes(text_bytes("agraph (" + type + R"([N, 1] x) => (float[N, 1] y) {
          y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
            nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values = [0.5, 0.0, 0.0],
            nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2],
            target_ids = [0, 0], target_weights = [1.0, 2.0]> (x) })",
                                        17, ", \"ai.onnx.ml\" : " + version),
                             "test");
  };
  CHECK(can_write_other_trees(graph("float", "3")));
  CHECK(can_write_other_trees(graph("float", "1")));
  CHECK_FALSE(can_write_other_trees(graph("double", "1")));
  CHECK_FALSE(can_write_other_trees(graph("double", "3")));
  CHECK_FALSE(can_write_other_trees(graph("float", "5")));
}

TEST_CASE("trees that are none are refused when the model is read") {
  const auto refuses = [](const std::string& yes, const std::string& weight, const char* message) {
    CHECK_THROWS_WITH(
        classical("agraph (float[N, 1] x) => (float[N, 1] y) { y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, "
                  "nodes_treeids = [0, 0], nodes_nodeids = [0, 1], nodes_featureids = [0, 0], nodes_modes = [\"BRANCH_LEQ\", "
                  "\"LEAF\"], nodes_values = [0.0, 0.0], nodes_truenodeids = [" +
                  yes + ", 0], nodes_falsenodeids = [1, 0], target_treeids = [0], target_nodeids = [1], " + weight +
                  ", target_weights = [1.0]> (x) }"),
        Catch::Contains(message));
  };
  refuses("7", "target_ids = [0]", "there is no node 7 in its tree");
  refuses("0", "target_ids = [0]", "its tree has a cycle");
  refuses("1", "target_ids = [1]", "1");
  refuses("1", "target_ids = [0, 0]", "do not fit one another");
}

TEST_CASE("a Scan whose state never changes is its body on all entries") {
  const auto scan = [](const std::string& body) {
    return classical(
        "agraph (float[N, 2] x) => (float[N, 2] s, float[3, M] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> { s, y = Scan "
        "<num_scan_inputs = 1, body = b (float[N, 2] a, float[2] e) => (float[N, 2] s1, float[N] z) { " +
        body + " }> (x, w) }");
  };
  const Tensor x = floats({2, 2}, {1, 2, 0, 0});
  const Graph distances = scan("s1 = Identity (a) d = Sub (a, e) z = ReduceSumSquare <axes = [1], keepdims = 0> (d)");
  CHECK(is_graph(distances));
  const std::vector<Datum> inputs{x};
  CHECK(run(distances, inputs).tensor() == x);
  CHECK(execute(distances, inputs).at(1).tensor().reals() == std::vector<double>{0, 5, 8, 25, 32, 61});
  const Graph changing = scan("s1 = Add (a, e) d = Sub (a, e) z = ReduceSumSquare <axes = [1], keepdims = 0> (d)");
  CHECK_FALSE(is_graph(changing));
  CHECK(execute(changing, inputs).at(1).tensor().reals() == std::vector<double>{0, 5, 1, 8, 4, 1});
}

}  // namespace rewright::graph
