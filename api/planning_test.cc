// Plans through the C interface and C++ over it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/text.h"

// This program also contains the library's internal classes, some with the names of the public ones.
#define rewright rewright_for_programs
#include "api/rewright.h"
#undef rewright

namespace {

using rewright_for_programs::Failure, rewright_for_programs::Model, rewright_for_programs::Plan;

constexpr const char* kMachine = R"({"devices": {"count": 4, "per_node": 2, "operations_per_second": 1e12,
  "bytes_per_second": 1e11, "memory": 16e9},
  "links": {"node": {"latency": 1e-6, "bytes_per_second": 1e10, "shape": "switch"},
            "cluster": {"latency": 1e-6, "bytes_per_second": 1e10, "shape": "switch"}}})";

}  // namespace

TEST_CASE("a plan is made through C++, and says how it divides the work") {
  const rewright::TemporaryFolder folder;
  const std::string machine = (folder.path() / "machine.json").string();
  rewright::graph::write_file(machine, kMachine);
  const Model model = Model::parse(
      rewright::graph::text_bytes("agraph (float[N, 64] x, float[64, 32] w) => (float[N, 32] y) { y = MatMul(x, w) }"));
  const Plan plan = rewright_for_programs::plan(
      model, {{"machine", machine}, {"for", "inference"}, {"batch", "64"}, {"strategy", "data+data"}});
  const nlohmann::json report = nlohmann::json::parse(plan.report()), file = nlohmann::json::parse(plan.text());
  CHECK(report["proved"] == true);
  CHECK(report["strategy"] == "data+data");
  CHECK(report["processes"] == 4);
  CHECK(file["processes"] == 2);
  CHECK(file["within"]["processes"] == 2);
  const std::string found = (folder.path() / "found.plan").string(), changed = (folder.path() / "changed.plan").string();
  rewright::graph::write_file(found, plan.text());
  CHECK(rewright_for_programs::check_plan(model, found).empty());
  nlohmann::json other = file;
  REQUIRE_FALSE(other["nodes"][0]["cut"]["operands"][0].is_string());
  other["nodes"][0]["cut"]["operands"][0]["axis"] = 1;
  rewright::graph::write_file(changed, other.dump());
  CHECK(rewright_for_programs::check_plan(model, changed).find("node 0 (MatMul") != std::string::npos);
  const Model another = Model::parse(
      rewright::graph::text_bytes("agraph (float[N, 64] x, float[64, 64] w) => (float[N, 64] y) { y = MatMul(x, w) }"));
  CHECK_THROWS_AS(rewright_for_programs::check_plan(another, found), Failure);
  CHECK(rewright_check_plan(nullptr, nullptr, nullptr) == REWRIGHT_USAGE);
  CHECK_THROWS_AS(rewright_for_programs::plan(model, {{"colour", "red"}}), Failure);
  CHECK_THROWS_AS(rewright_for_programs::plan(model, {{"batch", "64"}}), Failure);  // no machine
  CHECK(rewright_make_plan(nullptr, nullptr, nullptr) == REWRIGHT_USAGE);
}
