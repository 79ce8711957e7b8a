#include "plans/machines/measure_links.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <random>

#include "distribution/testing.h"

namespace rewright::plans {
namespace {

using distribution::Communicator;

TEST_CASE("a fitted link has the latency and the rate that its times were made from") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-7, -4), giga(0.1, 100);
  for (int n = 0; n < 50; ++n) {
    const double latency = std::pow(10, exponent(random)), rate = giga(random) * 1e9;
    std::vector<MessageTime> times;
    for (double bytes = 64; bytes <= 1 << 26; bytes *= 4) times.push_back({bytes, latency + bytes / rate});
    const MeasuredLink link = fit_link(times);
    REQUIRE(link.latency == Approx(latency).epsilon(1e-6));
    REQUIRE(link.bytes_per_second == Approx(rate).epsilon(1e-6));
    REQUIRE(link.median_error < 1e-6);
    for (MessageTime& m : times) m.seconds *= std::uniform_real_distribution<double>(0.9, 1.1)(random);
    const MeasuredLink noisy = fit_link(times);
    REQUIRE(noisy.latency == Approx(latency).epsilon(0.2));
    REQUIRE(noisy.bytes_per_second == Approx(rate).epsilon(0.2));
    REQUIRE(noisy.median_error < 0.1);
  }
}

TEST_CASE("times that no link has give numbers that a machine may have") {
  for (const std::vector<MessageTime>& times : std::vector<std::vector<MessageTime>>{
           {{64, 1e-6}, {256, 1e-6}}, {{64, 2e-6}, {256, 1e-6}}, {{64, 1e-9}, {256, 5e-9}, {1024, 1e-6}}}) {
    const MeasuredLink link = fit_link(times);
    REQUIRE(link.latency >= 0);
    REQUIRE(std::isfinite(link.latency));
    REQUIRE((link.bytes_per_second > 0 && std::isfinite(link.bytes_per_second)));
  }
}

TEST_CASE("links are measured between threads, the same in all of them") {
  for (const std::size_t count : {1, 2, 4}) {
    std::mutex mutex;
    std::vector<MeasuredLinks> results;
    testing::run_as_processes(count, [&](Communicator& processes) {
      const MeasuredLinks links = measure_links(processes, {.most_bytes = 1 << 16, .seconds = 0.02});
      const std::lock_guard lock(mutex);
      results.push_back(links);
    });
    for (const MeasuredLinks& links : results) {
      REQUIRE(links.per_node == count);
      REQUIRE(links.node.has_value() == (count > 1));
      REQUIRE(!links.cluster);
      if (count == 1) continue;
      REQUIRE(links.node->bytes_per_second > 0);
      REQUIRE(links.node->latency == results[0].node->latency);
    }
  }
}

TEST_CASE("links are measured between processes", "[distribution]") {
  Communicator& processes = testing::started_processes();
  const MeasuredLinks links = measure_links(processes, {.most_bytes = 1 << 16, .seconds = 0.02});
  REQUIRE(links.per_node == processes.size());
  REQUIRE(links.node.has_value() == (processes.size() > 1));
}

}  // namespace
}  // namespace rewright::plans
