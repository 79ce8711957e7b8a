#include "api/fresh_process.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"

namespace rewright::api {

namespace {

// Counts the graphs timed in this process.
class Here : public Device {
 public:
  explicit Here(int& timed) : timed_(timed) {}
  std::string name() const override { return "here"; }
  std::string identity() const override { return "here"; }
  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample>) override { return {}; }
  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions&) override {
    ++timed_;
    return std::vector<std::vector<double>>(graphs.size(), {1.0});
  }
  std::vector<Tensor> run(const Graph&, std::span<const Tensor>) override { return {}; }
  bool supports(const Graph&, const Node&) const override { return true; }

 private:
  int& timed_;
};

Graph relu() {
  Graph graph;
  const Operator& op = registry().get("Relu");
  const ValueId x = graph.add_input("x", {DataType::kFloat, Indices{4}});
  graph.add_output("y", graph.add_node(op, op.defaults(), {x})[0]);
  return graph;
}

// A shell script as the program: its second argument is the folder.
std::string script(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << "#!/bin/sh\n" << text << "\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file.string();
}

}  // namespace

TEST_CASE("graphs are timed by the program that is named, and by the device where it fails") {
  const TemporaryFolder folder;
  const GraphsInTurn sets[] = {{{relu(), relu()}, {}}, {{relu()}, {}}};
  int timed = 0;
  const auto times_by = [&](const std::string& program) {
    const auto device = make_fresh_device({program, "cpu"}, std::make_unique<Here>(timed));
    return device->time_afresh(sets);
  };
  const std::vector<std::vector<std::vector<double>>> told{{{2, 3}, {4, 5}}, {{6, 7}}};
  CHECK(times_by(script(
            folder / "good",
            "test \"$1\" = time-graphs && test -e \"$2/request.json\" && grep -q 'model_1.onnx' \"$2/request.json\" && "
            "! grep -q 'model_2.onnx' \"$2/request.json\" && echo '[[[2,3],[4,5]],[[6,7]]]' > \"$2/times.json\"")) == told);
  CHECK(timed == 0);
  const std::vector<std::vector<std::vector<double>>> own{{{1.0}, {1.0}}, {{1.0}}};
  CHECK(times_by(script(folder / "fails", "exit 4")) == own);
  CHECK(times_by(script(folder / "silent", "exit 0")) == own);
  CHECK(times_by(script(folder / "wrong", "echo '[[[1]],[[1]]]' > \"$2/times.json\"")) == own);
  CHECK(times_by(script(folder / "broken", "echo '[[1' > \"$2/times.json\"")) == own);
  CHECK(times_by("/no/such/program") == own);
  CHECK(timed == 10);
}

TEST_CASE("a process that does not end is ended, when its time is over or the caller says so") {
  const TemporaryFolder folder;
  GraphsInTurn set{{relu()}, {}};
  int timed = 0;
  const std::string program = script(folder / "sleeps", "exec sleep 600");
  const auto device = make_fresh_device({program, "cpu"}, std::make_unique<Here>(timed));
  std::stop_source stop;
  stop.request_stop();
  set.options.cancel = stop.get_token();
  CHECK_THROWS_AS(device->time_afresh({&set, 1}), Error);
  set.options.cancel = {};
  device->end_at(std::chrono::steady_clock::now());
  CHECK_THROWS_AS(device->time_afresh({&set, 1}), Error);
  CHECK(timed == 0);
}

TEST_CASE("what is asked for in a folder is timed on the device, and a folder without it is refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(time_graphs_in_folder(folder.path().string()), Catch::Contains("request.json"));
}

}  // namespace rewright::api
