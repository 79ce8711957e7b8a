#include "runtime/cuda/planning/schedule.h"

#include <catch2/catch.hpp>
#include <random>

namespace rewright::cuda {

TEST_CASE("steps come after what they need, by streams and waits alone") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const int steps = 1 + static_cast<int>(random() % 90), most = 1 + static_cast<int>(random() % 5);
    std::vector<std::vector<int>> needs(static_cast<std::size_t>(steps));
    for (int n = 1; n < steps; ++n)
      for (unsigned i = random() % 4; i > 0; --i)
        needs[static_cast<std::size_t>(n)].push_back(static_cast<int>(random() % static_cast<unsigned>(n)));
    const Schedule schedule(needs, most);
    REQUIRE(schedule.streams() <= most);
    // The order of steps that follows from streams and waits.
    std::vector<std::vector<bool>> before(static_cast<std::size_t>(steps), std::vector<bool>(static_cast<std::size_t>(steps)));
    std::vector<int> last(static_cast<std::size_t>(most), -1);
    for (int n = 0; n < steps; ++n) {
      std::vector<bool>& mine = before[static_cast<std::size_t>(n)];
      std::vector<int> direct = schedule.waits(n);
      for (const int w : direct) {
        REQUIRE(w < n);
        REQUIRE(schedule.stream(w) != schedule.stream(n));
      }
      int& previous = last[static_cast<std::size_t>(schedule.stream(n))];
      if (previous >= 0) direct.push_back(previous);
      previous = n;
      for (const int d : direct) {
        mine[static_cast<std::size_t>(d)] = true;
        for (int m = 0; m < d; ++m)
          if (before[static_cast<std::size_t>(d)][static_cast<std::size_t>(m)]) mine[static_cast<std::size_t>(m)] = true;
      }
      for (const int needed : needs[static_cast<std::size_t>(n)]) REQUIRE(mine[static_cast<std::size_t>(needed)]);
      for (int m = 0; m < n; ++m) REQUIRE(schedule.before(m, n) == mine[static_cast<std::size_t>(m)]);
    }
  }
}

TEST_CASE("a chain is one stream, branches are several") {
  CHECK(Schedule({{}, {0}, {1}, {2}}, 4).streams() == 1);
  const Schedule branches({{}, {0}, {0}, {1}, {2}, {3, 4}}, 4);
  CHECK(branches.streams() == 2);
  CHECK_FALSE(branches.before(1, 4));
  CHECK_FALSE(branches.before(2, 3));
  CHECK(Schedule({{}, {}, {}, {}, {}, {}}, 4).streams() == 4);
  CHECK(Schedule({}, 4).streams() == 1);
}

}  // namespace rewright::cuda
