#include "plans/machines/machine_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "graph/file.h"

namespace rewright::plans {
namespace {

const std::string kExample =
    R"({"devices": {"count": 8, "per_node": 4, "operations_per_second": 15e12, "bytes_per_second": 900e9,
                                             "memory": 16e9, "name": "any"},
  "links": {"node":    {"latency": 5e-6,  "bytes_per_second": 25e9,   "shape": "switch"},
            "cluster": {"latency": 15e-6, "bytes_per_second": 12.5e9, "shape": "fat-tree:4"}}, "note": 1})";

std::string fault(const std::string& text) {
  try {
    Machine(parse_machine(text, "m.json"));
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::kBadInput);
    REQUIRE(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "none";
}

// The example with something else in place of a part of it.
std::string changed(const std::string& part, const std::string& instead) {
  std::string text = kExample;
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), instead);
}

TEST_CASE("a machine file is read, and unknown keys are allowed") {
  const Machine machine(parse_machine(kExample, "m.json"));
  REQUIRE(machine.devices() == 8);
  REQUIRE(machine.nodes() == 2);
  REQUIRE(machine.memory() == 16e9);
  REQUIRE(machine.rates().operations_per_second == 15e12);
  REQUIRE(machine.rates().bytes_per_second == 900e9);
  REQUIRE(machine.message_seconds(0, 4, 0) == 15e-6);
  REQUIRE(machine.message_seconds(0, 3, 25e9) == Approx(1 + 5e-6));
}

TEST_CASE("a machine that is written is read as it was") {
  const NetworkDescription edges{.shape = "edges", .edges = {{0, 1, 1e-6, 3e9}, {1, 2, 0.1 + 0.2, 1e9}}};
  const NetworkDescription node{1.0 / 3, 1e9, "ring"};
  MachineDescription shared = make_node(4, {1e12, 1e11}, 1e9, node);
  shared.node_bytes_per_second = 1.0 / 7, shared.exchange_seconds = 0.1 + 0.7, shared.exchanges_beside = false;
  shared.layouts = {{"operand 0 of Conv"}, {"operand 0 of Relu", "operand 1 of Add"}, {"operand 2 of Sum"}, 8, 1e9 / 3};
  for (const MachineDescription& d :
       {shared, parse_machine(kExample, "m"), make_node(5, {1e12, 1e11, 1e-6}, 2e9, node),
        make_cluster(3, 2, {1e12, 1e11}, 1e9, node, edges), MachineDescription{.rates = DeviceRates{1, 2}}}) {
    const std::string text = write_machine(d);
    REQUIRE(write_machine(parse_machine(text, "m")) == text);
    const Machine before(d), after(parse_machine(text, "m"));
    REQUIRE(before.memory() == after.memory());
    REQUIRE(before.rates().call_seconds == after.rates().call_seconds);
    REQUIRE(before.rates().bytes_per_second == after.rates().bytes_per_second);
    REQUIRE(before.exchange_seconds() == after.exchange_seconds());
    REQUIRE(before.exchanges_beside() == after.exchanges_beside());
    REQUIRE(before.description().layouts == after.description().layouts);
    REQUIRE(before.links().size() == after.links().size());
    for (std::size_t n = 0; n < before.links().size(); ++n) REQUIRE(before.links()[n].latency == after.links()[n].latency);
  }
}

TEST_CASE("devices of a node share its memory's rate") {
  for (const double together : {1e9, 3e9, 4e9, 1e12}) {
    MachineDescription d = make_cluster(3, 4, {1e12, 1e9}, 1e9, {1e-6, 1e9}, {1e-6, 1e9});
    d.node_bytes_per_second = together;
    REQUIRE(Machine(d).rates().bytes_per_second == std::min(1e9, together / 4));
  }
}

TEST_CASE("links may be edges of nodes, in place of the cluster") {
  const std::string cluster = R"("cluster": {"latency": 15e-6, "bytes_per_second": 12.5e9, "shape": "fat-tree:4"})";
  for (const std::string edges : {R"("edges": [[0, 1, 1e-6, 1e9]])", R"("cluster": {"edges": [[0, 1, 1e-6, 1e9]]})"}) {
    const Machine machine(parse_machine(changed(cluster, edges), "m.json"));
    REQUIRE(machine.message_seconds(0, 7, 0) == 1e-6);
    REQUIRE(machine.message_seconds(7, 0, 0) == 1e-6);
  }
  REQUIRE(fault(changed("\"cluster\"", R"("edges": [[0, 1, 1e-6, 1e9]], "cluster")")) ==
          "m.json: links.edges: stand in place of cluster, and it is there too");
  REQUIRE(fault(changed(cluster, R"("edges": [[0, 2, 1e-6, 1e9]])")) ==
          "links.cluster: edges: the link from node 0 to 2 leads nowhere: there are 2");
  REQUIRE(fault(changed(cluster, R"("edges": [[1, 1, 1e-6, 1e9]])")) ==
          "links.cluster: edges: the link from node 1 to 1 leads back to where it begins");
  REQUIRE(fault(changed(cluster, R"("edges": [])")) == "links.cluster: edges: no links lead from node 0 to 1");
  REQUIRE(fault(changed(cluster, R"("edges": [[0, 1, 1, 1], [0, 1, 1, 1]])")) ==
          "links.cluster: edges: the link from node 0 to 1 is given twice");
  REQUIRE(fault(changed(cluster, R"("edges": [[0, -1, 1, 1]])")) == "m.json: links.edges[0]: leads nowhere: there is no -1");
  REQUIRE(fault(changed(cluster, R"("edges": [[0, 1, 1, 0]])")) ==
          "m.json: links.edges[0][3]: must be a number from 0.001 up, and is 0");
  REQUIRE(fault(changed(cluster, R"("edges": [[0, 1, 1]])")) ==
          "m.json: links.edges[0]: must be [from, to, latency, bytes_per_second], and is [0,1,1]");
}

TEST_CASE("each fault of a machine file has a line that names it") {
  const std::vector<std::pair<std::string, std::string>> faults{
      {"{", "m.json: is no JSON: parse error at line 1, column 2:"},
      {"[]", "m.json: must be an object, and is []"},
      {"{}", "m.json: devices: is missing"},
      {changed("8, ", "0, "), "m.json: devices.count: must be a whole number from 1 to 65536, and is 0"},
      {changed("8, ", "-8, "), "m.json: devices.count: must be a whole number from 1 to 65536, and is -8"},
      {changed("8, ", "7.5, "), "m.json: devices.count: must be a whole number from 1 to 65536, and is 7.5"},
      {changed("8, ", "1e15, "), "m.json: devices.count: must be a whole number from 1 to 65536, and is 1e+15"},
      {changed("8, ", "\"8\", "), "m.json: devices.count: must be a whole number from 1 to 65536, and is \"8\""},
      {changed("\"per_node\": 4", "\"per_node\": 3"), "devices.per_node: must divide devices.count, 8, and is 3"},
      {changed("\"per_node\": 4", "\"per_node\": 16"), "devices.per_node: must divide devices.count, 8, and is 16"},
      {changed("15e12", "0"), "m.json: devices.operations_per_second: must be a number from 0.001 up, and is 0"},
      {changed("15e12", "-1"), "m.json: devices.operations_per_second: must be a number from 0.001 up, and is -1"},
      {changed("15e12", "1e999"), "m.json: is no JSON: number overflow parsing '1e999'"},
      {changed("15e12", "NaN"), "m.json: is no JSON: parse error at line 1"},
      {changed("15e12", "null"), "m.json: devices.operations_per_second: must be a number from 0.001 up, and is null"},
      {changed("\"operations_per_second\"", "\"ops\""),
       "m.json: devices.operations_per_second: is missing: devices have a profile"},
      {changed("16e9", "0"), "m.json: devices.memory: must be a number from 0.001 up, and is 0"},
      {changed("5e-6", "-1"), "m.json: links.node.latency: must be a number from 0 up, and is -1"},
      {changed("25e9", "0.0"), "m.json: links.node.bytes_per_second: must be a number from 0.001 up, and is 0.0"},
      {changed("25e9", "0.0009"), "m.json: links.node.bytes_per_second: must be a number from 0.001 up, and is 0.0009"},
      {changed("900e9", "1e-300"), "m.json: devices.bytes_per_second: must be a number from 0.001 up, and is 1e-300"},
      {changed("15e12", "5e-324"), "m.json: devices.operations_per_second: must be a number from 0.001 up, and is 5e-324"},
      {changed("\"latency\": 15e-6, ", ""), "m.json: links.cluster.latency: is missing"},
      {changed("\"switch\"", "\"star\""), "links.node: shape: 'star' is no shape (there are switch, ring"},
      {changed("\"switch\"", "7"), "m.json: links.node.shape: must be a text, and is 7"},
      {changed("\"switch\"", "\"torus:2x3\""), "links.node: shape: 'torus:2x3' has 6 places for 4 devices"},
      {changed("\"switch\"", "\"torus:\""), "links.node: shape: 'torus:' is no shape: after the colon stand sizes"},
      {changed("\"switch\"", "\"torus:2x\""), "links.node: shape: 'torus:2x' is no shape: after the colon stand sizes"},
      {changed("\"switch\"", "\"torus:65536x65536x65536x65536x2\""),
       "links.node: shape: 'torus:65536x65536x65536x65536x2' has more than"},
      {changed("\"switch\"", "\"torus:99999999999999999999999\""),
       "links.node: shape: 'torus:99999999999999999999999' is no shape"},
      {changed("fat-tree:4", "fat-tree:3"),
       "links.cluster: shape: 'fat-tree:3' is no shape: after the colon stands the number"},
      {changed("fat-tree:4", "fat-tree:1000000"), "links.cluster: shape: 'fat-tree:1000000' is no shape"},
      {changed("\"node\"", "\"nodes\""), "links.node: is missing, and joins the 4 devices"},
      {changed("\"cluster\"", "\"other\""), "links.cluster: is missing, and joins the 2 nodes"},
      {changed("\"links\": {", "\"links\": [], \"x\": {"), "m.json: links: must be an object, and is []"},
      {changed("8, \"per_node\": 4", "1024, \"per_node\": 2"),
       "links.cluster: shape: 'fat-tree:4' has 16 places for 512 nodes"},
      {std::string(17 << 20, ' '), "m.json: the file is larger than 16777216 bytes"},
  };
  for (const auto& [text, line] : faults) {
    INFO(text.substr(0, 300));
    REQUIRE_THAT(fault(text), Catch::Matchers::StartsWith(line));
  }
  REQUIRE(fault(kExample) == "none");
}

TEST_CASE("ports of layouts are texts of one form, and none is too long to be read") {
  const auto read = [](const std::string& key, const std::string& port, const std::string& rate = "1e9") {
    std::map<std::string, std::string> ports{
        {"changed", "operand 0 of Conv"}, {"kept", "operand 0 of Relu"}, {"read", "operand 0 of Relu"}};
    ports[key] = port;
    std::string text = R"("memory": 16e9, "layouts": {"least_channels": 8, "bytes_per_second": )" + rate;
    for (const auto& [name, value] : ports) text += ", \"" + name + "\": [\"" + value + "\"]";
    return fault(changed(R"("memory": 16e9)", text + "}"));
  };
  const std::string many(1'000'000, 'x'), digits(1'000'000, '1'), spaces(1'000'000, ' ');
  for (const std::string key : {"changed", "kept", "read"}) {
    CAPTURE(key);
    for (const std::string port :
         {"operand 0 of Conv", "operand 12 of com.microsoft.FusedConv", "operand 0 of Gr\u00f6\u00dfe"})
      REQUIRE(read(key, port) == "none");
    REQUIRE((read(key, "result 0 of Conv") == "none") == (key == "changed"));
    for (const std::string& port :
         {std::string(), std::string("operand"), std::string("operand 0 of "), std::string("operand  of Conv"),
          std::string("operand -1 of Conv"), std::string("operand 0  of Conv"), std::string("operand 0 of Conv Relu"),
          std::string("operand 0 of Conv\\t"), std::string("operands 0 of Conv"), std::string("input 0 of Conv"),
          "operand 0 of " + many, "operand " + digits, "operand " + digits + " of Conv", many, "operand 0 of" + spaces + "Conv",
          spaces})
      REQUIRE_THAT(read(key, port), Catch::Matchers::StartsWith("m.json: devices.layouts." + key +
                                                                ": must be as \"operand 0 of Conv\", and is "));
  }
  REQUIRE_THAT(
      read("read", "operand 0 of Relu", "1e-4"),
      Catch::Matchers::StartsWith("m.json: devices.layouts.bytes_per_second: must be a number from 0.001 up, and is 0.0001"));
}

TEST_CASE("a file's faults name the file, and a profile is read beside it") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "m.json";
  graph::write_file(file, changed("\"per_node\": 4", "\"per_node\": 3"));
  REQUIRE_THROWS_WITH(read_machine(file), file.string() + ": devices.per_node: must divide devices.count, 8, and is 3");
  graph::write_file(file, R"({"devices": {"count": 1, "profile": "gpu.profile"}})");
  REQUIRE_THROWS_WITH(read_machine(file), Catch::Matchers::Contains("gpu.profile"));
  DeviceProfile profile{"a device", {2e12, 3e11, 4e-6}, {}};
  graph::write_file(folder.path() / "gpu.profile", write_profile(profile, ProfileFormat::kText));
  const Machine machine = read_machine(file);
  REQUIRE(machine.rates().operations_per_second == 2e12);
  REQUIRE(machine.seconds(2e12, 0) == 1 + 4e-6);
  REQUIRE(machine.profile()->profile().device == "a device");
}

// After a change of the form: plans_test "[write]".
const std::string kSchema = "plans/machines/machine.schema.json";

TEST_CASE("the schema is that of the reader") { REQUIRE(graph::map_file(kSchema).text() == machine_schema()); }

TEST_CASE("writes the schema", "[.][write]") { graph::write_file(kSchema, machine_schema()); }

}  // namespace
}  // namespace rewright::plans
