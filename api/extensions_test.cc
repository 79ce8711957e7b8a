// Extensions of callers: rules, operators, costs; also names of inputs, and pages.
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/rewright_c.h"
#include "graph/onnx/text.h"

namespace rewright::api {

namespace {

template <class T, void (*release)(T*)>
struct Owned {
  Owned() = default;
  Owned(const Owned&) = delete;
  ~Owned() { release(value); }
  operator T*() const { return value; }
  T** operator&() { return &value; }
  T* value = nullptr;
};
using Model = Owned<rewright_model, rewright_model_free>;
using Options = Owned<rewright_options, rewright_options_free>;
using Result = Owned<rewright_result, rewright_result_free>;
using Session = Owned<rewright_session, rewright_session_free>;
using Operators = Owned<rewright_operators, rewright_operators_free>;

// ---- An operator of our own: mine.Scale(x) with attributes factor, axes and mode.

struct Calls {
  std::atomic<int> inferred = 0, computed = 0;
  bool fail = false;
};

int infer_scale(rewright_node* node, void* user) {
  ++static_cast<Calls*>(user)->inferred;
  rewright_value x;
  if (rewright_node_input(node, 0, &x) != REWRIGHT_OK) return 1;
  if (x.rank < 0) return 0;  // nothing is known
  return rewright_node_set_output(node, 0, x.type, x.rank, x.sizes) == REWRIGHT_OK ? 0 : 1;
}

int compute_scale(rewright_node* node, const rewright_tensor* inputs, rewright_tensor* outputs, void* user) {
  auto& calls = *static_cast<Calls*>(user);
  ++calls.computed;
  if (calls.fail) return rewright_node_fail(node, "it is out of order");
  const double* factor = nullptr;
  const int64_t* list = nullptr;
  const char* mode = nullptr;
  size_t count = 0, listed = 0, none = 1;
  if (rewright_node_reals(node, "factor", &factor, &count) != REWRIGHT_OK || count != 1) return 1;
  if (rewright_node_integers(node, "list", &list, &listed) != REWRIGHT_OK || listed != 3 || list[2] != 7) return 1;
  if (rewright_node_text(node, "mode", &mode) != REWRIGHT_OK || std::string(mode) != "plain") return 1;
  if (rewright_node_integers(node, "absent", &list, &none) != REWRIGHT_OK || none != 0 || list != nullptr) return 1;
  if (rewright_node_integers(node, "mode", &list, &none) == REWRIGHT_OK) return 1;
  if (std::string(rewright_node_operator(node)) != "Scale" || std::string(rewright_node_domain(node)) != "mine") return 1;
  const auto* x = static_cast<const float*>(inputs[0].data);
  auto* y = static_cast<float*>(outputs[0].data);
  for (size_t i = 0; i < inputs[0].bytes / sizeof(float); ++i) y[i] = static_cast<float>(*factor) * x[i];
  return 0;
}

std::string model_with_scale(
    const std::string& attributes = "factor: float = 2.0, list: ints = [3, 5, 7], mode: string = \"plain\"") {
  return text_bytes(
      "agraph (float[batch, 2] x) => (float[batch, 1] y) <float[2, 2] w = {1, 2, 3, -4}, float[2, 1] v = {1, 10}> {"
      " p = MatMul(x, w) s = mine.Scale <" +
          attributes + "> (p) r = Relu(s) t = Relu(r) y = MatMul(t, v) }",
      17, ", \"mine\" : 1");
}

rewright_status parse(const std::string& bytes, Model& model, const rewright_operators* operators = nullptr) {
  return rewright_model_parse_with(bytes.data(), bytes.size(), "model", operators, &model);
}

// Executes model_with_scale() on ones, float[batch, 2], in a session of its own; `y` is its result, or empty where there is
// none.
rewright_status run_on_ones(const rewright_model* model, const char* device, std::int64_t batch, std::vector<float>& y) {
  y.clear();
  Session session;
  if (const auto status = rewright_session_create(model, device, 1, &session); status != REWRIGHT_OK) return status;
  std::vector<float> x(static_cast<std::size_t>(batch) * 2, 1);
  const std::int64_t sizes[] = {batch, 2};
  const rewright_tensor input{1, 2, sizes, x.data(), x.size() * sizeof(float)};
  rewright_tensor output{};
  const rewright_status status = rewright_session_run(session, &input, 1, &output, 1);
  CHECK((output.data != nullptr) == (status == REWRIGHT_OK));
  if (status == REWRIGHT_OK) y.assign(static_cast<const float*>(output.data), static_cast<const float*>(output.data) + batch);
  rewright_tensor_free(&output);
  return status;
}

void set(Options& options, const std::vector<std::pair<const char*, const char*>>& values) {
  REQUIRE(rewright_options_create(&options) == REWRIGHT_OK);
  for (const auto& [name, value] : values) REQUIRE(rewright_options_set(options, name, value) == REWRIGHT_OK);
}

std::size_t nodes_after(const Result& result) {
  return nlohmann::json::parse(rewright_result_report(result)).at("nodes").at("after");
}

std::string error_text() { return rewright_error_text(); }

}  // namespace

TEST_CASE("an operator of the caller's own: its types are inferred, it is executed, and what is around it optimized") {
  Calls calls;
  Model model;
  {
    Operators operators;
    REQUIRE(rewright_operators_create(&operators) == REWRIGHT_OK);
    REQUIRE(rewright_operators_add(operators, "mine", "Scale", infer_scale, compute_scale, &calls) == REWRIGHT_OK);
    REQUIRE(parse(model_with_scale(), model, operators) == REWRIGHT_OK);
  }
  CHECK(calls.inferred == 1);
  Options options;
  set(options, {{"device", "cpu"}, {"estimate", "true"}, {"check", "2"}, {"threads", "1"}});
  Result result;
  REQUIRE(rewright_optimize(model, options, &result) == REWRIGHT_OK);
  CHECK(nodes_after(result) == 4);  // one Relu is gone; a rule needs the custom operator's type to match across it
  CHECK(nlohmann::json::parse(rewright_result_report(result)).at("check").at("runs") == 2);
  std::vector<float> y;
  for (const rewright_model* m : {static_cast<const rewright_model*>(model.value), rewright_result_model(result)})
    for (const char* device : {"cpu", "reference"})
      for (const std::size_t batch : {1, 3}) {
        REQUIRE(run_on_ones(m, device, static_cast<std::int64_t>(batch), y) == REWRIGHT_OK);
        CHECK(y == std::vector<float>(batch, 8));  // relu(2 * {4, -2}) {1, 10}
      }
  CHECK(calls.computed > 0);

  // A callback's message is the failure's text.
  calls.fail = true;
  CHECK(run_on_ones(model, "cpu", 1, y) == REWRIGHT_BAD_INPUT);
  CHECK(error_text() == "it is out of order");
  CHECK(std::string(rewright_error_where()).find("Scale") != std::string::npos);
}

TEST_CASE("operators are refused where they could mean two things, and without them models are not executed") {
  Operators operators;
  REQUIRE(rewright_operators_create(&operators) == REWRIGHT_OK);
  const auto added = [&](const char* domain, const char* type, rewright_infer infer, rewright_compute compute) {
    return rewright_operators_add(operators, domain, type, infer, compute, nullptr);
  };
  CHECK(added("mine", "Scale", nullptr, compute_scale) == REWRIGHT_USAGE);
  CHECK(added("mine", nullptr, infer_scale, compute_scale) == REWRIGHT_USAGE);
  CHECK(added("", "Scale", infer_scale, compute_scale) == REWRIGHT_USAGE);
  CHECK(added("ai.onnx.ml", "LabelEncoder", infer_scale, compute_scale) == REWRIGHT_USAGE);           // a procedure
  CHECK(added("ai.onnx.ml", "TreeEnsembleRegressor", infer_scale, compute_scale) == REWRIGHT_USAGE);  // a graph
  CHECK(added("com.microsoft", "FusedMatMul", infer_scale, compute_scale) == REWRIGHT_USAGE);
  CHECK(added("mine", "Scale", infer_scale, compute_scale) == REWRIGHT_OK);
  CHECK(added("mine", "Scale", infer_scale, compute_scale) == REWRIGHT_USAGE);
  CHECK(rewright_operators_add(nullptr, "mine", "Scale", infer_scale, compute_scale, nullptr) == REWRIGHT_USAGE);

  Model model;
  REQUIRE(parse(model_with_scale(), model) == REWRIGHT_OK);
  std::vector<float> y;
  CHECK(run_on_ones(model, "cpu", 1, y) == REWRIGHT_UNSUPPORTED);
  CHECK(error_text().find("Scale") != std::string::npos);
}

TEST_CASE("what callbacks say of outputs is checked") {
  struct Said {
    std::int32_t type;
    std::int64_t size;
    rewright_status status = REWRIGHT_OK;
  };
  const auto infer = [](rewright_node* node, void* user) {
    auto& said = *static_cast<Said*>(user);
    const std::int64_t sizes[] = {said.size, 2};
    said.status = rewright_node_set_output(node, 0, said.type, 2, sizes);
    CHECK(rewright_node_set_output(node, 1, 1, 2, sizes) == REWRIGHT_USAGE);
    CHECK(rewright_node_set_output(node, 0, 1, -1, sizes) == REWRIGHT_USAGE);
    CHECK(rewright_node_set_output(node, 0, 1, 1, nullptr) == REWRIGHT_USAGE);
    return 0;
  };
  const auto compute = [](rewright_node* node, const rewright_tensor*, rewright_tensor*, void*) {
    const std::int64_t sizes[] = {1, 2};
    CHECK(rewright_node_set_output(node, 0, 1, 2, sizes) == REWRIGHT_USAGE);
    return 0;
  };
  for (const auto& [type, size, text] :
       {std::tuple(8, 1, "sizes of output 0"), {777, 1, "sizes of output 0"}, {1, -1, "sizes of output 0"}}) {
    Said said{type, size};
    Operators operators;
    REQUIRE(rewright_operators_create(&operators) == REWRIGHT_OK);
    REQUIRE(rewright_operators_add(operators, "mine", "Scale", infer, compute, &said) == REWRIGHT_OK);
    Model model;
    REQUIRE(parse(model_with_scale(), model, operators) == REWRIGHT_OK);
    CHECK((said.status == REWRIGHT_OK) == (type == 1));
    std::vector<float> y;
    CHECK(run_on_ones(model, "reference", 1, y) == REWRIGHT_BAD_INPUT);
    CHECK(error_text().find(text) != std::string::npos);
  }
}

TEST_CASE("rules of the caller's own are proved, or refused with the reason") {
  // (x + y) + (x - y) = 2 x
  const std::string good =
      "rule sum_and_difference: \"a sum and a difference, added\"\n  x[S...], y[S...]\n  (x + y) + (x - y) => x * 2\n  "
      "reassociates\n";
  const std::string wrong = "rule wrong_sum: \"not so\"\n  x[S...], y[S...]\n  (x + y) + (x - y) => y * 2\n  reassociates\n";
  const std::string bytes =
      text_bytes("agraph (float[3, 4] x, float[3, 4] y) => (float[3, 4] z) { a = Add(x, y) b = Sub(x, y) z = Add(a, b) }");
  Model model;
  REQUIRE(parse(bytes, model) == REWRIGHT_OK);
  const auto add_rules = [](rewright_options* options, const std::string& text) {
    return rewright_options_add_rules(options, text.data(), text.size(), "own.rules");
  };
  Options options;
  set(options, {{"device", "cpu"}, {"estimate", "true"}, {"threads", "1"}});
  CHECK(add_rules(options, wrong) == REWRIGHT_BAD_INPUT);
  CHECK(std::string(rewright_error_where()).find("wrong_sum") != std::string::npos);
  CHECK(error_text().find("refuted") == 0);
  CHECK(error_text().size() > 20);  // with the counterexample
  CHECK(add_rules(options, good + wrong) == REWRIGHT_BAD_INPUT);
  CHECK(add_rules(options, "rule what") == REWRIGHT_BAD_INPUT);
  CHECK(rewright_options_add_rules(options, nullptr, 0, nullptr) == REWRIGHT_USAGE);
  REQUIRE(add_rules(options, good) == REWRIGHT_OK);
  Result result;
  REQUIRE(rewright_optimize(model, options, &result) == REWRIGHT_OK);
  CHECK(std::string(rewright_result_certificate(result)).find("sum_and_difference") != std::string::npos);
  CHECK(std::string(rewright_result_certificate(result)).find("wrong_sum") == std::string::npos);
  CHECK(nodes_after(result) == 1);

  REQUIRE(add_rules(options, good) == REWRIGHT_OK);  // equal names are found when all rules are put together
  Result none;
  CHECK(rewright_optimize(model, options, &none) == REWRIGHT_BAD_INPUT);
  CHECK(none.value == nullptr);
}

TEST_CASE("costs of the caller's own decide") {
  // x w + x v: the expensive operator is avoided.
  const std::string bytes = text_bytes(
      "agraph (float[8, 16] x, float[16, 4] w, float[16, 4] v) => (float[8, 4] z)"
      " { a = MatMul(x, w) b = MatMul(x, v) z = Add(a, b) }");
  struct Prices {
    std::string dear;
    int asked = 0;
    std::vector<std::int64_t> sizes = {};
  };
  const auto cost = [](const rewright_node* node, void* user) {
    auto& prices = *static_cast<Prices*>(user);
    ++prices.asked;
    rewright_value input, output;
    if (rewright_node_input_count(node) < 2 || rewright_node_input(node, 1, &input) != REWRIGHT_OK ||
        rewright_node_output(node, 0, &output) != REWRIGHT_OK || input.rank != 2 || output.rank != 2)
      return std::nan("");
    if (rewright_node_operator(node) == std::string("Add")) prices.sizes.assign(input.sizes, input.sizes + input.rank);
    if (rewright_node_operator(node) == prices.dear) return 1.0;
    return 1e-3;
  };
  const auto count = [](const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  for (const char* dear : {"MatMul", "Add"}) {
    Prices prices{dear};
    Model model;
    REQUIRE(parse(bytes, model) == REWRIGHT_OK);
    Options options;
    set(options, {{"device", "cpu"}, {"threads", "2"}});
    REQUIRE(rewright_options_set_cost(options, cost, &prices) == REWRIGHT_OK);
    Result result;
    REQUIRE(rewright_optimize(model, options, &result) == REWRIGHT_OK);
    CHECK(prices.asked > 0);
    CHECK(prices.sizes.size() == 2);
    void* serialized = nullptr;
    size_t size = 0;
    REQUIRE(rewright_model_serialize(rewright_result_model(result), &serialized, &size) == REWRIGHT_OK);
    CHECK(count({static_cast<const char*>(serialized), size}, dear) < count(bytes, dear));
    rewright_bytes_free(serialized);
    const auto report = nlohmann::json::parse(rewright_result_report(result));
    CHECK(report.at("device") == "cpu, by prices given");
    CHECK(report.at("measured_ms").at("before") == 0);
    CHECK(report.at("predicted_ms").at("before").get<double>() > 400);
  }
  CHECK(rewright_options_set_cost(nullptr, cost, nullptr) == REWRIGHT_USAGE);
}

TEST_CASE("inputs and outputs by name, a page, and the libraries' versions") {
  const std::string bytes = text_bytes(
      "agraph (float[2] x, float[2] y) => (float[2] sum, float[2] difference) { sum = Add(x, y) difference = Sub(x, y) }");
  Model model;
  REQUIRE(parse(bytes, model) == REWRIGHT_OK);
  Session session;
  REQUIRE(rewright_session_create(model, "cpu", 1, &session) == REWRIGHT_OK);
  float x[2] = {5, 7}, y[2] = {1, 2};
  const std::int64_t sizes[] = {2};
  const rewright_tensor inputs[] = {{1, 1, sizes, y, sizeof y}, {1, 1, sizes, x, sizeof x}};
  const char *names[] = {"y", "x"}, *wanted[] = {"difference"}, *twice[] = {"y", "y"}, *unknown[] = {"y", "z"};
  rewright_tensor output{};
  REQUIRE(rewright_session_run_named(session, names, inputs, 2, wanted, &output, 1) == REWRIGHT_OK);
  CHECK(static_cast<const float*>(output.data)[0] == 4);
  CHECK(static_cast<const float*>(output.data)[1] == 5);
  rewright_tensor_free(&output);
  CHECK(rewright_session_run_named(session, names, inputs, 1, wanted, &output, 1) == REWRIGHT_USAGE);
  CHECK(std::string(rewright_error_where()) == "input x");
  CHECK(rewright_session_run_named(session, twice, inputs, 2, wanted, &output, 1) == REWRIGHT_USAGE);
  CHECK(rewright_session_run_named(session, unknown, inputs, 2, wanted, &output, 1) == REWRIGHT_USAGE);
  CHECK(rewright_session_run_named(session, names, inputs, 2, names, &output, 1) == REWRIGHT_USAGE);
  CHECK(std::string(rewright_error_hint()).find("difference") != std::string::npos);
  CHECK(rewright_session_run_named(session, nullptr, inputs, 2, wanted, &output, 1) == REWRIGHT_USAGE);
  CHECK(rewright_session_run_named(session, names, inputs, 2, nullptr, &output, 1) == REWRIGHT_USAGE);
  CHECK(rewright_session_run_named(session, names, inputs, 2, nullptr, nullptr, 0) == REWRIGHT_OK);

  Options options;
  set(options, {{"device", "cpu"}, {"estimate", "true"}});
  for (const bool page : {false, true}) {
    REQUIRE(rewright_options_set_page(options, page) == REWRIGHT_OK);
    Result result;
    REQUIRE(rewright_optimize(model, options, &result) == REWRIGHT_OK);
    CHECK((std::string(rewright_result_page(result)).find("<html") != std::string::npos) == page);
  }

  const std::string versions = rewright_library_versions();
  for (const char* library : {"ONNX 1.", "Protobuf ", "oneDNN ", "OpenBLAS ", "Z3 ", "HiGHS ", "SQLite "})
    CHECK(versions.find(library) != std::string::npos);
}

}  // namespace rewright::api
