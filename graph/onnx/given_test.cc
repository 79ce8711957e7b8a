// Sizes, weights and files that are given in place of the model's.
#include <catch2/catch.hpp>

#include "graph/onnx/given.h"
#include "graph/onnx/interface.h"
#include "graph/onnx/text.h"

namespace rewright::graph {

namespace {

using Catch::Contains;

std::string failure(const onnx::ModelProto& model, const GivenParts& given) {
  try {
    import_onnx_bytes(model.SerializeAsString(), "m.onnx", {}, given);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "no failure";
}

// "x[3, n]", of all inputs and outputs.
std::string declared(const onnx::ModelProto& model, const GivenParts& given) {
  const Graph graph = import_onnx_bytes(model.SerializeAsString(), "m.onnx", {}, given);
  std::string text;
  const auto inputs = declared_inputs(graph), outputs = declared_outputs(graph);
  for (const auto* list : {&inputs, &outputs})
    for (const Declaration& value : *list) {
      text += (text.empty() ? "" : " ") + value.name + "[";
      for (std::size_t i = 0; i < value.shape->size(); ++i) {
        const auto& size = (*value.shape)[i];
        text += (i > 0 ? "," : "") + (size.number ? std::to_string(*size.number) : size.name);
      }
      text += "]";
    }
  return text;
}

onnx::ModelProto open_model() {
  onnx::ModelProto model = text_model("agraph (float[N, M] x, float[N, 1] z) => (float[N, M] y) { y = Add(x, z) }");
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_denotation("DATA_BATCH");
  return model;
}

onnx::ModelProto weighted_model(bool is_external) {
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
  if (!is_external) return model;
  onnx::TensorProto& weight = *model.mutable_graph()->mutable_initializer(0);
  weight.clear_float_data();
  weight.clear_raw_data();
  weight.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* entry = weight.add_external_data();
  entry->set_key("location");
  entry->set_value("weights.bin");
  return model;
}

std::vector<double> result(const onnx::ModelProto& model, const GivenParts& given) {
  const std::string bytes = model.SerializeAsString();
  const std::vector<Tensor> zeros = {Tensor::from_reals(DataType::kFloat, {2}, std::vector<double>{0, 0})};
  const Graph graph = import_onnx_bytes(bytes, "m.onnx", {}, given);
  const auto y = interpret(graph, zeros)[0].reals();
  CHECK(interpret(import_onnx_bytes(export_onnx_bytes(graph), "again.onnx"), zeros)[0].reals() == y);
  return y;
}

Tensor floats(const std::vector<double>& values) {
  return Tensor::from_reals(DataType::kFloat, {static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace

TEST_CASE("sizes are given by the names and denotations of dimensions") {
  const onnx::ModelProto model = open_model();
  CHECK(declared(model, {}) == "x[N,M] z[N,1] y[N,M]");
  CHECK(declared(model, {.named_sizes = {{"M", 3}, {"other", 5}}}) == "x[N,3] z[N,1] y[N,3]");
  CHECK(declared(model, {.denoted_sizes = {{"data_batch", 4}}}) == "x[4,M] z[4,1] y[4,M]");
  CHECK(declared(model, {.named_sizes = {{"N", 0}}, .denoted_sizes = {{"DATA_BATCH", 0}}}) == "x[0,M] z[0,1] y[0,M]");
  CHECK_THAT(failure(model, {.named_sizes = {{"N", 3}}, .denoted_sizes = {{"DATA_BATCH", 4}}}),
             Contains("is given the size 4"));
  CHECK_THAT(failure(model, {.named_sizes = {{"M", -1}}}), Contains("cannot be -1"));
  onnx::ModelProto fixed = model;
  fixed.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(7);
  CHECK_THAT(failure(fixed, {.denoted_sizes = {{"DATA_BATCH", 4}}}), Contains("but is 7"));
  CHECK(declared(fixed, {.denoted_sizes = {{"DATA_BATCH", 7}}}) == "x[7,M] z[N,1] y[N,M]");
}

TEST_CASE("weights are given in place of the model's, and written with it") {
  const auto with = [](const std::string& name, Tensor tensor, bool is_external = false) {
    GivenParts parts;
    parts.weights[name] = {std::move(tensor), is_external};
    return parts;
  };
  CHECK(result(weighted_model(false), with("w", floats({5, 6}))) == std::vector<double>{5, 6});
  CHECK(result(weighted_model(true), with("w", floats({5, 6}), true)) == std::vector<double>{5, 6});
  CHECK(result(weighted_model(false), with("other", floats({5, 6}))) == std::vector<double>{1, 2});
  CHECK_THAT(failure(weighted_model(false), with("w", floats({5, 6, 7}))),
             Contains("initializer \"w\"") && Contains("sizes [3]"));
  CHECK_THAT(failure(weighted_model(false), with("w", Tensor::from_reals(DataType::kDouble, {2}, std::vector<double>{1, 2}))),
             Contains("of type double"));
  CHECK_THAT(failure(weighted_model(false), with("w", floats({5, 6}), true)), Contains("has its data itself"));
  CHECK_THAT(failure(weighted_model(false), with("other", floats({5, 6}), true)), Contains("which the model does not have"));
}

TEST_CASE("files beside a model are given in memory") {
  const Tensor data = floats({5, 6});
  GivenParts given;
  given.external_files["weights.bin"] = {nullptr, data.bytes()};
  CHECK(result(weighted_model(true), given) == std::vector<double>{5, 6});
  given.external_files["weights.bin"] = {nullptr, data.bytes().subspan(4)};
  CHECK_THAT(failure(weighted_model(true), given), Contains("reach beyond the end"));
  given.external_files = {{"others.bin", {nullptr, data.bytes()}}};
  CHECK_THAT(failure(weighted_model(true), given), Contains("weights.bin"));
}

}  // namespace rewright::graph
