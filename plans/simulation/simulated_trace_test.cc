#include "plans/simulation/simulated_trace.h"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "plans/machines/machine_file.h"
#include "plans/simulation/block_maker.h"

namespace rewright::plans {
namespace {

using nlohmann::json;

json events_of(const Simulation& simulation, std::span<const std::uint32_t> devices = {}) {
  return json::parse(simulated_trace(simulation, devices).text())["traceEvents"];
}

// Two devices on two nodes compute and add up two vectors at a time.
void set_step(Simulation& simulation) {
  BlockMaker block(simulation.machine(), 0);
  const TaskName a = block.compute("a \xff", {0}, 1e9, 0, {}), b = block.compute("b", {1}, 2e9, 0, {});
  const Waits sum =
      block.collective("sum", {CollectiveKind::kAllReduce, {{0, 1}}, 1e6}, {{a, {0}}, {b, {1}}}, ExchangeDetail::kMessages);
  block.compute("c", {0}, 1e9, 0, {});
  block.compute("update", {0, 1}, 1e9, 0, sum);
  simulation.set_block(0, block.take());
  simulation.run();
}

TEST_CASE("a trace has what devices and links do, when they do it") {
  const Machine machine(make_cluster(2, 1, {1e12, 1e12}, 1, {}, {1e-6, 1e9, "ring"}));
  Simulation simulation(machine);
  set_step(simulation);
  std::map<std::string, int> names, on_links;
  int arrows = 0;
  double last = 0;
  const json events = events_of(simulation);
  for (const json& event : events) {
    const std::string phase = event["ph"];
    if (phase == "M") ++names[event["args"].value("name", "")];
    if (phase == "s") ++arrows;
    if (phase != "X") continue;
    REQUIRE(event["dur"] >= 0.0);
    last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
    if (event["pid"] == 3) ++on_links[event["name"]];
  }
  REQUIRE(last == Approx(simulation.seconds() * 1e6));
  for (const char* name : {"device 0", "device 1", "computing", "exchanges", "links", "cluster: 0 -> 1", "cluster: 1 -> 0"}) {
    INFO(name);
    REQUIRE(names[name] >= 1);
  }
  REQUIRE(on_links == std::map<std::string, int>{{"sum 0 -> 1", 2}, {"sum 1 -> 0", 2}});
  REQUIRE(arrows > 0);
}

TEST_CASE("rows do not overlap, and those of other devices can be left out") {
  const Machine machine(make_cluster(2, 4, {1e12, 1e12}, 1, {1e-6, 5e9, "switch"}, {1e-6, 1e9, "switch"}));
  Simulation simulation(machine);
  BlockMaker block(machine, 0);
  for (std::uint32_t d = 0; d < 4; ++d) block.send("", d, d + 4, 1e6 * (d + 1), {block.compute_for("", {d}, 1e-4 * d, {})});
  simulation.set_block(0, block.take());
  simulation.run();
  std::map<std::pair<int, int>, double> ends;
  for (const json& event : events_of(simulation)) {
    if (event["ph"] != "X") continue;
    double& end = ends[{event["pid"], event["tid"]}];
    REQUIRE(event["ts"].get<double>() >= end - 1e-9);
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  const std::vector<std::uint32_t> one{2};
  for (const json& event : events_of(simulation, one)) REQUIRE((event["pid"] == 3 || event["pid"] == 9));
}

}  // namespace
}  // namespace rewright::plans
