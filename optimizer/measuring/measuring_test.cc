#include "optimizer/measuring/measuring.h"

#include <catch2/catch.hpp>
#include <map>

#include "optimizer/testing.h"

namespace rewright::optimizer {

namespace {

// So many nodes at this size.
Graph chain(std::size_t nodes, std::int64_t size) {
  Graph graph;
  ValueId x = graph.add_input("x", testing::floats({size}));
  for (std::size_t i = 0; i < nodes; ++i) x = testing::add(graph, "Relu", {x})[0];
  graph.add_output("y", x);
  return graph;
}

// Seconds are said for each number of nodes and size.
class ToldDevice final : public testing::RooflineDevice {
 public:
  explicit ToldDevice(std::map<std::pair<std::size_t, std::int64_t>, double> seconds) : seconds_(std::move(seconds)) {}

  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
    std::vector<std::vector<double>> times;
    for (const Graph& graph : graphs) {
      const std::int64_t size = graph.value(graph.inputs()[0]).type.shape[0].value();
      CHECK((options.inputs.empty() || options.inputs[0].sizes() == Sizes{size}));
      const double seconds = seconds_.at({graph.nodes().size(), size});
      times.emplace_back(size == 8 ? 9 : 11, seconds);
      times.back()[0] *= 1.01;
    }
    return times;
  }

 private:
  std::map<std::pair<std::size_t, std::int64_t>, double> seconds_;
};

// The given graph has three nodes, the candidates two and one; sizes are 8, with this weight, and 64.
Measuring::Result chosen(double weight, std::map<std::pair<std::size_t, std::int64_t>, double> seconds) {
  ToldDevice device(std::move(seconds));
  const Budget budget(Budget::Clock::now(), 1000);
  std::vector<SizedGraph> given;
  given.push_back({chain(3, 8), weight});
  given.push_back({chain(3, 64), 1});
  Measuring measuring(std::move(given), device, {}, budget);
  REQUIRE(measuring.look() == Measuring::Look::kExecuted);
  std::vector<Measuring::AtSizes> candidates;
  for (const std::size_t nodes : {2, 1}) candidates.push_back({chain(nodes, 8), chain(nodes, 64)});
  return measuring.choose(candidates, 0);
}

}  // namespace

TEST_CASE("the weighted mean over several sizes decides") {
  // One candidate gains at 8, the other at 64, and both lose next to nothing elsewhere.
  const std::map<std::pair<std::size_t, std::int64_t>, double> seconds = {{{3, 8}, 1.0},  {{2, 8}, 0.7},   {{1, 8}, 1.01},
                                                                          {{3, 64}, 1.0}, {{2, 64}, 1.01}, {{1, 64}, 0.6}};
  const Measuring::Result equal = chosen(1, seconds), first = chosen(3, seconds);
  CHECK(equal.best == 1);
  CHECK(equal.before == Approx(1.0));
  CHECK(equal.after == Approx((1.01 + 0.6) / 2));
  CHECK(first.best == 0);
  CHECK(first.after == Approx((3 * 0.7 + 1.01) / 4));
  REQUIRE(first.at.size() == 2);
  CHECK(first.at[0].speedup == Approx(1 / 0.7));
  CHECK(first.at[1].after == Approx(1.01));
  CHECK(first.at[1].speedup == Approx(1 / 1.01));
}

TEST_CASE("what is slower at one of the sizes is not taken") {
  const Measuring::Result result =
      chosen(1, {{{3, 8}, 1.0}, {{2, 8}, 0.2}, {{1, 8}, 0.9}, {{3, 64}, 1.0}, {{2, 64}, 1.05}, {{1, 64}, 1.0}});
  CHECK(result.best == 1);  // the other gains more in the mean
  const Measuring::Result none =
      chosen(1, {{{3, 8}, 1.0}, {{2, 8}, 0.2}, {{1, 8}, 0.3}, {{3, 64}, 1.0}, {{2, 64}, 1.05}, {{1, 64}, 1.1}});
  CHECK_FALSE(none.best);
  CHECK(none.slower_at == 1);
  CHECK(none.at[1].before == none.at[1].after);
}

}  // namespace rewright::optimizer
