#include "runtime/conformance.h"

#include <catch2/catch.hpp>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"

namespace rewright::runtime {

TEST_CASE("cases pass, fail or are unsupported, each with its reason") {
  const TemporaryFolder folder;
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(2)}});
  graph.add_output("y", graph.add_node(registry().get("Relu"), {}, {x}).at(0));
  for (const char* name : {"good", "wrong", "empty"}) {
    std::filesystem::create_directories(folder / (std::string(name) + "/test_data_set_0"));
    export_onnx(graph, folder / (std::string(name) + "/model.onnx"));
  }
  // A float tensor of two elements as TensorProto: dims, data_type, raw_data.
  auto tensor = [](float a, float b) {
    std::string bytes = {'\x08', '\x02', '\x10', '\x01', '\x4a', '\x08'};
    for (float f : {a, b}) bytes.append(reinterpret_cast<const char*>(&f), 4);
    return bytes;
  };
  for (const char* name : {"good", "wrong"}) {
    write_file(folder / (std::string(name) + "/test_data_set_0/input_0.pb"), tensor(-1, 2));
    write_file(folder / (std::string(name) + "/test_data_set_0/output_0.pb"), tensor(0, name[0] == 'g' ? 2.001f : 3));
  }
  const auto report = run_conformance(folder.path(), [](const Graph& g, std::span<const Datum> in) { return execute(g, in); });
  REQUIRE(report.cases.size() == 3);
  CHECK(report.count(ConformanceCase::Status::kPassed) == 1);
  CHECK(report.cases[1].name == "good");
  CHECK(report.cases[1].status == ConformanceCase::Status::kPassed);
  CHECK_THAT(report.cases[2].reason, Catch::Contains("output \"y\"") && Catch::Contains("expected 3"));
  CHECK_THAT(report.cases[0].reason, Catch::Contains("0 tensors for 1 inputs"));
  CHECK_THROWS_WITH(run_conformance(folder / "good", {}), Catch::Contains("has no test cases"));
}

TEST_CASE("what is random is left out, even where the numbers drawn are the expected ones") {
  const TemporaryFolder folder;
  // A ModelProto: y = Bernoulli(x) of two probabilities 0.
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  const std::string sizes = field(2, field(1, std::string("\x08\x02", 2)));
  const auto value = [&](const char* name) { return field(1, name) + field(2, field(1, std::string("\x08\x01", 2) + sizes)); };
  const std::string node = field(1, "x") + field(2, "y") + field(4, "Bernoulli");
  const std::string graph = field(1, node) + field(2, "g") + field(11, value("x")) + field(12, value("y"));
  write_file(folder / "model.onnx", std::string("\x08\x08", 2) + field(7, graph) + field(8, std::string("\x10\x11", 2)));
  std::filesystem::create_directories(folder / "random/test_data_set_0");
  std::filesystem::rename(folder / "model.onnx", folder / "random/model.onnx");
  const std::string zeros = std::string("\x08\x02\x10\x01\x4a\x08", 6) + std::string(8, '\0');
  write_file(folder / "random/test_data_set_0/input_0.pb", zeros);
  write_file(folder / "random/test_data_set_0/output_0.pb", zeros);
  const auto report = run_conformance(folder.path(), [](const Graph& g, std::span<const Datum> in) { return execute(g, in); });
  CHECK(report.count(ConformanceCase::Status::kUnsupported) == 1);
  CHECK_THAT(report.cases.at(0).reason, Catch::Contains("random"));
}

}  // namespace rewright::runtime
