#include "api/training.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "api/rewright_c.h"
#include "graph/onnx/onnx.h"
#include "optimizer/testing.h"

namespace rewright::api {

using testing::add;
using testing::floats;

namespace {

// y = x w + b, with an open size.
Graph linear() {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({Index::symbol("batch"), 3}));
  const ValueId w = graph.add_constant(Tensor::from_reals(DataType::kFloat, {3, 1}, std::vector<double>{0.1, 0.2, 0.3}));
  const ValueId b = graph.add_constant(Tensor::from_reals(DataType::kFloat, {1}, std::vector<double>{0}));
  graph.add_output("y", add(graph, "Add", {add(graph, "MatMul", {x, w})[0], b})[0]);
  return graph;
}

// Targets are what weights 1, -2, 3 and the bias 0.5 give.
struct Data {
  std::vector<float> x, targets;
  std::vector<std::int64_t> x_sizes{64, 3}, target_sizes{64, 1};
  Data() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (int n = 0; n < 64; ++n) {
      for (int i = 0; i < 3; ++i) x.push_back(normal(random));
      const float* row = &x[x.size() - 3];
      targets.push_back(row[0] - 2 * row[1] + 3 * row[2] + 0.5F);
    }
  }
  rewright_tensor x_tensor() { return {1, 2, x_sizes.data(), x.data(), x.size() * sizeof(float)}; }
  rewright_tensor target_tensor() { return {1, 2, target_sizes.data(), targets.data(), targets.size() * sizeof(float)}; }
};

struct Handles {
  rewright_model* model = nullptr;
  rewright_training* training = nullptr;
  rewright_trained* trained = nullptr;
  Handles() {
    const std::string bytes = export_onnx_bytes(linear());
    REQUIRE(rewright_model_parse(bytes.data(), bytes.size(), "linear", &model) == REWRIGHT_OK);
    REQUIRE(rewright_training_create(&training) == REWRIGHT_OK);
    for (const auto& [name, value] : {std::pair{"loss", "mean-squared"},
                                      {"optimizer", "adam"},
                                      {"rate", "0.05"},
                                      {"epochs", "100"},
                                      {"batch", "16"},
                                      {"threads", "1"}})
      set(name, value);
  }
  Handles(const Handles&) = delete;
  ~Handles() {
    rewright_trained_free(trained);
    rewright_training_free(training);
    rewright_model_free(model);
  }
  void set(const char* name, const char* value) { REQUIRE(rewright_training_set(training, name, value) == REWRIGHT_OK); }
  void add(int held_out, Data& data) {
    const rewright_tensor x = data.x_tensor(), targets = data.target_tensor();
    REQUIRE(rewright_training_add_data(training, held_out, "x", &x) == REWRIGHT_OK);
    REQUIRE(rewright_training_add_data(training, held_out, "targets", &targets) == REWRIGHT_OK);
  }
};

}  // namespace

TEST_CASE("every option of training is read as what a request begins with, and bad values are refused by name") {
  const auto all = training_options();
  TrainingRequest said;
  for (const TrainingOption& option : all)
    if (option.kind != OptionKind::kList) set_option(all, said, option.name, option.initial);
  const TrainingRequest begun;
  CHECK(said.train.batch == begun.train.batch);
  CHECK(said.train.epochs == begun.train.epochs);
  CHECK(said.train.schedule.rate == begun.train.schedule.rate);
  CHECK(said.train.graph.loss == begun.train.graph.loss);
  CHECK(said.train.graph.update.method == UpdateMethod::kAdam);
  CHECK(said.train.exchange.bucket_bytes == begun.train.exchange.bucket_bytes);
  CHECK(said.save_every == begun.save_every);
  CHECK(said.rewrite_seconds == 0);
  CHECK(said.memory_budget == 0);
  TrainingRequest changed;
  for (const TrainingOption& option : all) {
    const bool any_text = option.kind == OptionKind::kList || option.type.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 0;
    const bool number = option.type == "N" || option.type == "STEPS" || option.type == "NUMBER" || option.type == "BYTES";
    if ((any_text && !number) || option.name == "device") continue;
    for (const char* bad : {"", "there is no such thing", "-1", "nan"})
      CHECK_THROWS_WITH(set_option(all, changed, option.name, bad), Catch::Contains("option " + std::string(option.name)));
  }
  set_option(all, changed, "mean", "0.5,0.25");
  CHECK(changed.mean == std::vector<double>{0.5, 0.25});
  CHECK_THROWS_WITH(set_option(all, changed, "mean", "0.5,x"), Catch::Contains("\"x\" is no number"));
  CHECK_THROWS_WITH(set_option(all, changed, "allreduce", "telepathy"), Catch::Contains("telepathy"));
  set_option(all, changed, "allreduce", "hierarchical:4");
  set_option(all, changed, "rate", "1e-4");
  CHECK(changed.train.schedule.rate == 1e-4);
}

TEST_CASE("a model is trained through C on tensors in memory") {
  Data data;
  Handles h;
  h.add(0, data), h.add(1, data);
  std::vector<double> losses;
  const auto told = [](const rewright_step* step, void* user) {
    static_cast<std::vector<double>*>(user)->push_back(step->loss);
    CHECK(step->steps == 400);
    CHECK(step->skipped == 0);
    return 0;
  };
  REQUIRE(rewright_training_set_progress(h.training, told, &losses) == REWRIGHT_OK);
  REQUIRE(rewright_train(h.model, h.training, &h.trained) == REWRIGHT_OK);
  CHECK(losses.size() == 400);
  CHECK(losses.back() == rewright_trained_loss(h.trained));
  CHECK(losses.back() < 1e-3 * losses.front());
  const nlohmann::json report = nlohmann::json::parse(rewright_trained_report(h.trained));
  CHECK(report["complete"] == true);
  CHECK(report["steps"] == 400);
  CHECK(report["validation"]["examples"] == 64);
  CHECK(report["validation"]["loss"] < 1e-2);
  void* bytes = nullptr;
  std::size_t size = 0;
  REQUIRE(rewright_model_serialize(rewright_trained_model(h.trained), &bytes, &size) == REWRIGHT_OK);
  const Graph trained = import_onnx_bytes({static_cast<const char*>(bytes), size}, "trained");
  rewright_bytes_free(bytes);
  std::vector<double> weights;
  for (const auto& node : trained.nodes())
    for (const ValueId id : node->inputs)
      if (trained.is_constant(id))
        for (const double v : trained.value(id).constant.reals()) weights.push_back(v);
  std::sort(weights.begin(), weights.end());
  const std::vector<double> expected{-2, 0.5, 1, 3};
  REQUIRE(weights.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(weights[i] == Approx(expected[i]).margin(0.05));
}

TEST_CASE("a caller ends training after a step, and keeps what was trained so far") {
  Data data;
  Handles h;
  h.add(0, data);
  const auto told = [](const rewright_step* step, void*) { return step->step == 7 ? 1 : 0; };
  REQUIRE(rewright_training_set_progress(h.training, told, nullptr) == REWRIGHT_OK);
  REQUIRE(rewright_train(h.model, h.training, &h.trained) == REWRIGHT_OK);
  const nlohmann::json report = nlohmann::json::parse(rewright_trained_report(h.trained));
  CHECK(report["complete"] == false);
  CHECK(report["steps"] == 7);
  CHECK(rewright_trained_model(h.trained) != nullptr);
}

TEST_CASE("training that cannot be is refused with a reason") {
  Data data;
  const auto refused = [](Handles& h, rewright_status status, const std::string& what) {
    CHECK(rewright_train(h.model, h.training, &h.trained) == status);
    CHECK(h.trained == nullptr);
    CHECK_THAT(std::string(rewright_error_where()) + ": " + rewright_error_text(), Catch::Contains(what));
  };
  {
    Handles h;
    refused(h, REWRIGHT_USAGE, "no data");
    const rewright_tensor x = data.x_tensor(), targets = data.target_tensor();
    REQUIRE(rewright_training_add_data(h.training, 0, "x", &x) == REWRIGHT_OK);
    refused(h, REWRIGHT_BAD_INPUT, "no targets");
    REQUIRE(rewright_training_add_data(h.training, 0, "targets", &targets) == REWRIGHT_OK);
    REQUIRE(rewright_training_add_data(h.training, 0, "z", &x) == REWRIGHT_OK);
    refused(h, REWRIGHT_BAD_INPUT, "z: the model has no input of this name");
  }
  {
    Handles h;
    data.x[5] = NAN;
    h.add(0, data);
    h.set("data", "somewhere");
    refused(h, REWRIGHT_USAGE, "somewhere: data are given twice");
    h.set("data", "");
    refused(h, REWRIGHT_BAD_INPUT, "example 1");
    CHECK(rewright_training_set(h.training, "rate", "0") == REWRIGHT_USAGE);
    CHECK(rewright_training_set(h.training, "speed", "1") == REWRIGHT_USAGE);
    h.set("resume", "true");
    refused(h, REWRIGHT_USAGE, "--checkpoint");
    h.set("resume", "false"), h.set("shards", "2"), h.set("accumulate", "2");
    refused(h, REWRIGHT_USAGE, "--shards");
  }
  CHECK(rewright_train(nullptr, nullptr, nullptr) == REWRIGHT_USAGE);
}

}  // namespace rewright::api
