#include "api/rewright_c.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "api/optimization.h"
#include "graph/onnx/onnx.h"
#include "optimizer/testing.h"
#include "report/testing/graphviz_leaks.h"

namespace rewright::api {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

struct Models {
  Models() = default;
  Models(const Models&) = delete;
  ~Models() { rewright_model_free(model); }
  rewright_model* model = nullptr;
};

// y = relu(x w), with an open size.
std::string small_model() {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({Index::symbol("batch"), 4}));
  graph.add_output("y", add(graph, "Relu", {add(graph, "MatMul", {x, graph.add_constant(weights({4, 3}))})[0]})[0]);
  return export_onnx_bytes(graph);
}

// y = x + w, where w is also an input with the default [10, 20]. Written by ONNX's own library.
std::string model_with_default() {
  static constexpr char kBytes[] =
      "\x08\x08:Y\x0a\x0e\x0a\x01x\x0a\x01w\x12\x01y\x22\x03"
      "Add\x12\x01g*\x11\x08\x02\x10\x01"
      "B\x01wJ\x08"
      "\x00\x00 A\x00\x00\xa0"
      "AZ\x0f\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02Z\x0f\x0a\x01"
      "w\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02"
      "b\x0f\x0a\x01y\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a"
      "\x02\x08\x02"
      "B\x04\x0a\x00\x10\x11";
  return {kBytes, sizeof kBytes - 1};
}

void parse(const std::string& bytes, Models& models) {
  REQUIRE(rewright_model_parse(bytes.data(), bytes.size(), "small", &models.model) == REWRIGHT_OK);
}

}  // namespace

TEST_CASE("every option's initial value is what the library begins with, and bad values are refused by name") {
  // Each default's text must parse to the initial value in the library's structs.
  OptimizationRequest said;
  for (const OptimizationOption& option : optimization_options())
    if (option.kind != OptionKind::kList) set_option(optimization_options(), said, option.name, option.initial);
  const OptimizationRequest begun;
  CHECK(said.optimize.alpha == begun.optimize.alpha);
  CHECK(said.optimize.budget_seconds == begun.optimize.budget_seconds);
  CHECK(said.optimize.memory == begun.optimize.memory);
  CHECK(said.optimize.math == begun.optimize.math);
  CHECK(said.optimize.strategy == begun.optimize.strategy);
  CHECK(said.optimize.objective == begun.optimize.objective);
  CHECK(said.optimize.measure == begun.optimize.measure);
  CHECK(said.optimize.time_graphs == begun.optimize.time_graphs);
  CHECK(said.optimize.fold.max_bytes == begun.optimize.fold.max_bytes);
  CHECK(said.optimize.search.saturation_share == begun.optimize.search.saturation_share);
  CHECK(said.kernels == begun.kernels);
  CHECK(option_called(optimization_options(), "budget").initial == "18s");
  CHECK(option_called(optimization_options(), "memory").initial == "8G");
  CHECK(option_called(optimization_options(), "objective").type == "latency|memory|energy-proxy");

  OptimizationRequest changed;
  for (const OptimizationOption& option : optimization_options()) {
    if (option.kind == OptionKind::kList || option.name == "device") continue;
    for (const char* bad : {"", "there is no such thing", "-1", "nan"})
      CHECK_THROWS_WITH(set_option(optimization_options(), changed, option.name, bad),
                        Catch::Contains("option " + std::string(option.name)));
  }
  CHECK_THROWS_WITH(set_option(optimization_options(), changed, "shape", "x"), Catch::Contains("option shape"));
  CHECK_THROWS_WITH(set_option(optimization_options(), changed, "colour", "red"), Catch::Contains("no option \"colour\""));
  set_option(optimization_options(), changed, "budget", "2m");
  CHECK(changed.optimize.budget_seconds == 120);
  set_option(optimization_options(), changed, "no-timing", "true");
  CHECK_FALSE(changed.optimize.time_graphs);
}

TEST_CASE("a weight that is an input as well may be given in a run") {
  Models given;
  parse(model_with_default(), given);
  REQUIRE(rewright_model_input_count(given.model) == 1);
  rewright_session* session = nullptr;
  REQUIRE(rewright_session_create(given.model, "cpu", 1, &session) == REWRIGHT_OK);
  float x[] = {1, 2}, w[] = {3, 4};
  const int64_t sizes[] = {2};
  const rewright_tensor inputs[] = {{1, 1, sizes, x, sizeof x}, {1, 1, sizes, w, sizeof w}};
  const char *names[] = {"x", "w"}, *wanted[] = {"y"};
  for (int repeated = 0; repeated < 2; ++repeated)
    for (const std::size_t count : {1, 2}) {
      rewright_tensor output{};
      REQUIRE(rewright_session_run_named(session, names, inputs, count, wanted, &output, 1) == REWRIGHT_OK);
      CHECK(static_cast<const float*>(output.data)[0] == (count == 1 ? 11 : 4));
      CHECK(static_cast<const float*>(output.data)[1] == (count == 1 ? 22 : 6));
      rewright_tensor_free(&output);
    }
  rewright_session_free(session);
}

TEST_CASE("a model through C: described, optimized, executed, serialized") {
  Models given;
  parse(small_model(), given);
  REQUIRE(rewright_model_input_count(given.model) == 1);
  rewright_value value;
  REQUIRE(rewright_model_input(given.model, 0, &value) == REWRIGHT_OK);
  CHECK(std::string(value.name) == "x");
  CHECK(value.type == 1);
  REQUIRE(value.rank == 2);
  CHECK(value.sizes[0] == -1);
  CHECK(std::string(value.size_names[0]) == "batch");
  CHECK(value.sizes[1] == 4);

  rewright_options* options = nullptr;
  REQUIRE(rewright_options_create(&options) == REWRIGHT_OK);
  REQUIRE(rewright_options_set(options, "device", "cpu") == REWRIGHT_OK);
  REQUIRE(rewright_options_set(options, "estimate", "true") == REWRIGHT_OK);
  int calls = 0;
  REQUIRE(rewright_options_set_progress(
              options, [](const char*, double, double, void* user) { return ++*static_cast<int*>(user), 0; }, &calls) ==
          REWRIGHT_OK);
  rewright_result* result = nullptr;
  REQUIRE(rewright_optimize(given.model, options, &result) == REWRIGHT_OK);
  CHECK(calls > 0);
  CHECK(nlohmann::json::parse(rewright_result_report(result)).at("device") == "cpu");
  CHECK(nlohmann::json::parse(rewright_result_certificate(result)).contains("steps"));

  void* bytes = nullptr;
  std::size_t size = 0;
  REQUIRE(rewright_model_serialize(rewright_result_model(result), &bytes, &size) == REWRIGHT_OK);
  Models again;
  parse(std::string(static_cast<const char*>(bytes), size), again);
  rewright_bytes_free(bytes);

  // Both compute the same, for any batch, on several threads at once.
  rewright_session *before = nullptr, *after = nullptr;
  REQUIRE(rewright_session_create(given.model, "reference", 1, &before) == REWRIGHT_OK);
  REQUIRE(rewright_session_create(again.model, nullptr, 1, &after) == REWRIGHT_OK);
  rewright_result_free(result);
  rewright_options_free(options);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (std::int64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (std::int64_t batch : {t, t + 5}) {
        std::vector<float> x(static_cast<std::size_t>(batch * 4));
        for (float& e : x) e = static_cast<float>(random() % 1000) / 500 - 1;
        const std::int64_t sizes[] = {batch, 4};
        const rewright_tensor input{1, 2, sizes, x.data(), x.size() * sizeof(float)};
        rewright_tensor expected{}, found{};
        if (rewright_session_run(before, &input, 1, &expected, 1) != REWRIGHT_OK ||
            rewright_session_run(after, &input, 1, &found, 1) != REWRIGHT_OK || found.rank != 2 || found.sizes[0] != batch ||
            found.sizes[1] != 3 || found.bytes != expected.bytes || found.bytes != static_cast<std::size_t>(batch * 3) * 4)
          ++wrong;
        else
          for (std::size_t i = 0; i < found.bytes / 4; ++i)
            if (std::abs(static_cast<float*>(expected.data)[i] - static_cast<float*>(found.data)[i]) > 1e-5F) ++wrong;
        rewright_tensor_free(&expected);
        rewright_tensor_free(&found);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);

  rewright_session* checked = nullptr;
  REQUIRE(rewright_session_create_checked(again.model, "cpu", 1, &checked) == REWRIGHT_OK);
  std::vector<float> x(800, 0.5F);
  const std::int64_t sizes[] = {200, 4};
  const rewright_tensor input{1, 2, sizes, x.data(), x.size() * sizeof(float)};
  rewright_tensor output{};
  REQUIRE(rewright_session_run(checked, &input, 1, &output, 1) == REWRIGHT_OK);
  CHECK(rewright_session_checked_steps(checked) > 0);
  CHECK(rewright_session_warning_count(checked) == 0);
  CHECK(rewright_session_warning(checked, 0) == nullptr);
  rewright_tensor_free(&output);
  rewright_session_free(checked);

  rewright_session_free(before);
  rewright_session_free(after);
}

TEST_CASE("what is wrong is a status and a text, and leaves nothing behind") {
  Models none;
  CHECK(rewright_model_read("/no/such.onnx", &none.model) == REWRIGHT_BAD_INPUT);
  CHECK(none.model == nullptr);
  CHECK(std::string(rewright_error_where()).find("/no/such.onnx") != std::string::npos);
  CHECK(rewright_model_parse("what is this", 12, "m", &none.model) == REWRIGHT_BAD_INPUT);
  CHECK(rewright_model_read(nullptr, &none.model) == REWRIGHT_USAGE);
  CHECK(rewright_model_read("x", nullptr) == REWRIGHT_USAGE);
  CHECK(rewright_optimize(nullptr, nullptr, nullptr) == REWRIGHT_USAGE);
  rewright_model_free(nullptr);
  rewright_session_free(nullptr);

  Models given;
  parse(small_model(), given);
  rewright_value value;
  CHECK(rewright_model_output(given.model, 1, &value) == REWRIGHT_USAGE);
  rewright_session* session = nullptr;
  CHECK(rewright_session_create(given.model, "abacus", 1, &session) == REWRIGHT_USAGE);
  CHECK(std::string(rewright_error_text()).find("abacus") != std::string::npos);
  CHECK(std::string(rewright_error_hint()).find("cpu") != std::string::npos);
  REQUIRE(rewright_session_create(given.model, "cpu", 1, &session) == REWRIGHT_OK);
  float x[8] = {};
  const std::int64_t sizes[] = {2, 4}, huge[] = {std::int64_t{1} << 62, 4};
  rewright_tensor output{};
  const auto status = [&](const rewright_tensor& input) { return rewright_session_run(session, &input, 1, &output, 1); };
  CHECK(status({1, 2, sizes, x, 31}) == REWRIGHT_BAD_INPUT);
  CHECK(status({1, 2, huge, x, 32}) == REWRIGHT_BAD_INPUT);
  CHECK(status({1, 2, sizes, nullptr, 32}) == REWRIGHT_BAD_INPUT);
  CHECK(status({8, 2, sizes, x, 32}) == REWRIGHT_BAD_INPUT);
  CHECK(status({777, 2, sizes, x, 32}) == REWRIGHT_BAD_INPUT);
  CHECK(status({6, 2, sizes, x, 32}) == REWRIGHT_BAD_INPUT);
  CHECK(status({1, 1, sizes, x, 8}) == REWRIGHT_BAD_INPUT);
  CHECK(rewright_session_run(session, nullptr, 0, &output, 1) == REWRIGHT_USAGE);
  CHECK(status({1, 2, sizes, x, 32}) == REWRIGHT_OK);
  rewright_tensor_free(&output);
  CHECK(output.data == nullptr);
  rewright_session_free(session);

  // Each thread has its own failure.
  std::string other;
  CHECK(rewright_model_read("/no/such.onnx", &none.model) == REWRIGHT_BAD_INPUT);
  std::thread([&] { other = rewright_error_text(); }).join();
  CHECK(other.empty());
}

TEST_CASE("sizes that cannot be run are a status and a text, and the session goes on") {
  const Index n = Index::symbol("n"), m = Index::symbol("m");
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {n, Index(1)}}),
                y = graph.add_input("y", {DataType::kFloat, {Index(1), m}});
  const ValueId sum = add(graph, "Add", {x, y})[0];
  graph.add_output("z", add(graph, "Add", {sum, graph.add_input("v", {DataType::kFloat, {n, Index(1)}})})[0]);
  Models given;
  parse(export_onnx_bytes(graph), given);
  rewright_session* session = nullptr;
  REQUIRE(rewright_session_create(given.model, "cpu", 1, &session) == REWRIGHT_OK);
  constexpr std::int64_t kMost = std::int64_t{1} << 23;
  const std::vector<float> zeros(kMost);
  const auto status = [&](std::int64_t rows, std::int64_t columns, std::int64_t others) {
    const std::int64_t of_x[] = {rows, 1}, of_y[] = {1, columns}, of_v[] = {others, 1};
    const auto tensor = [&](const std::int64_t(&sizes)[2]) {
      const std::int64_t count = std::min(sizes[0] * sizes[1], kMost);
      return rewright_tensor{1, 2, sizes, const_cast<float*>(zeros.data()),
                             static_cast<std::size_t>(std::max<std::int64_t>(count, 0)) * 4};
    };
    const rewright_tensor inputs[] = {tensor(of_x), tensor(of_y), tensor(of_v)};
    rewright_tensor output{};
    const rewright_status result = rewright_session_run(session, inputs, 3, &output, 1);
    if (result == REWRIGHT_OK) rewright_tensor_free(&output);
    if (result != REWRIGHT_OK) CHECK(std::string(rewright_error_text()).find('\n') == std::string::npos);
    return result;
  };
  CHECK(status(2, 3, 2) == REWRIGHT_OK);
  CHECK(status(2, 3, 4) == REWRIGHT_BAD_INPUT);
  CHECK(status(-2, 3, 2) == REWRIGHT_BAD_INPUT);
  CHECK(status(kMost, kMost, kMost) == REWRIGHT_MISSING);  // 256 TiB
  CHECK(status(0, 3, 0) == REWRIGHT_OK);
  CHECK(status(2, 3, 2) == REWRIGHT_OK);
  rewright_session_free(session);
}

TEST_CASE("several sets of sizes with weights, through C") {
  Models given;
  parse(small_model(), given);
  const auto sets = [&](const std::vector<const char*>& shapes) {
    rewright_options* options = nullptr;
    REQUIRE(rewright_options_create(&options) == REWRIGHT_OK);
    for (const auto& [name, text] : {std::pair("device", "cpu"), {"estimate", "true"}, {"check", "0"}})
      REQUIRE(rewright_options_set(options, name, text) == REWRIGHT_OK);
    for (const char* shape : shapes) REQUIRE(rewright_options_set(options, "shape", shape) == REWRIGHT_OK);
    rewright_result* result = nullptr;
    REQUIRE(rewright_optimize(given.model, options, &result) == REWRIGHT_OK);
    std::vector<std::pair<std::int64_t, double>> found;
    const auto report = nlohmann::json::parse(rewright_result_report(result));
    for (const auto& set : report.at("sets_of_sizes")) {
      found.emplace_back(set.at("sizes").at("batch").get<std::int64_t>(), set.at("weight").get<double>());
      CHECK(set.at("predicted_ms").at("before").get<double>() > 0);
    }
    rewright_value value;  // the result leaves the size open
    REQUIRE(rewright_model_input(rewright_result_model(result), 0, &value) == REWRIGHT_OK);
    CHECK(value.sizes[0] == -1);
    rewright_result_free(result);
    rewright_options_free(options);
    return found;
  };
  using Sets = std::vector<std::pair<std::int64_t, double>>;
  CHECK(sets({"x=1x4*3,64x4"}) == Sets{{1, 3}, {64, 1}});
  CHECK(sets({"x=2..32x4"}).size() == 3);

  // Refused once the model is known: a shape that no input has, and one input given twice.
  for (const std::vector<const char*>& shapes : {std::vector{"x=1x4,2x5"}, {"z=1x4"}, {"x=1x4", "x=8x4"}}) {
    rewright_options* options = nullptr;
    REQUIRE(rewright_options_create(&options) == REWRIGHT_OK);
    REQUIRE(rewright_options_set(options, "device", "cpu") == REWRIGHT_OK);
    CHECK(rewright_options_set(options, "shape", "x=1x4*0") == REWRIGHT_USAGE);
    for (const char* shape : shapes) REQUIRE(rewright_options_set(options, "shape", shape) == REWRIGHT_OK);
    rewright_result* result = nullptr;
    CHECK(rewright_optimize(given.model, options, &result) == (shapes.size() == 1 ? REWRIGHT_BAD_INPUT : REWRIGHT_USAGE));
    CHECK(result == nullptr);
    const std::string said = std::string(rewright_error_text()) + rewright_error_where();
    CHECK(said.find("\"" + std::string(shapes[0], 1) + "\"") != std::string::npos);
    rewright_options_free(options);
  }
}

TEST_CASE("an optimization that is told to end gives a whole model") {
  Models given;
  parse(export_onnx_bytes(testing::adapters(12, 32, 4)), given);
  rewright_options* options = nullptr;
  REQUIRE(rewright_options_create(&options) == REWRIGHT_OK);
  for (const auto& [name, text] : {std::pair("device", "cpu"), {"estimate", "true"}, {"check", "0"}})
    REQUIRE(rewright_options_set(options, name, text) == REWRIGHT_OK);
  REQUIRE(rewright_options_set_progress(
              options, [](const char*, double, double, void*) { return 1; }, nullptr) == REWRIGHT_OK);
  rewright_result* result = nullptr;
  REQUIRE(rewright_optimize(given.model, options, &result) == REWRIGHT_OK);
  CHECK(nlohmann::json::parse(rewright_result_report(result)).at("search").at("stop_reason") == "cancelled");
  CHECK(rewright_model_input_count(rewright_result_model(result)) == 1);
  rewright_result_free(result);
  rewright_options_free(options);
}

}  // namespace rewright::api
