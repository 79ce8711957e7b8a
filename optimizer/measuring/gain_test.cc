#include "optimizer/measuring/gain.h"

#include <catch2/catch.hpp>

namespace rewright::optimizer {

namespace {

// Rounds around a time, alternately a little more and a little less.
std::vector<double> rounds(double seconds, double noise = 0.002) {
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(seconds * (1 + noise * (i % 3 - 1)));
  return times;
}

}  // namespace

TEST_CASE("a gain in one process that is none in the next does not count") {
  // Rounds within a process agree to a fifth of a percent: each process alone is significant.
  const FreshTimes lucky{{rounds(1.07)}, {rounds(1)}}, unlucky{{rounds(1)}, {rounds(1.04)}};
  CHECK(gain_of(lucky.before[0], lucky.after[0]).significant);
  CHECK_FALSE(confirmed_gain(lucky, unlucky).holds);
  CHECK(confirmed_gain(lucky, unlucky).speedup < 1);
  // A gain no larger than the difference between the processes.
  CHECK_FALSE(confirmed_gain(lucky, {{rounds(1.015)}, {rounds(1)}}).holds);
  const FreshTimes same{{rounds(1.06)}, {rounds(1)}};
  CHECK(confirmed_gain(lucky, same).holds);
  CHECK(confirmed_gain(same, lucky).holds);
}

TEST_CASE("what is claimed is the lesser of two measurements") {
  const FreshTimes more{{rounds(1.5)}, {rounds(1)}}, less{{rounds(1.4)}, {rounds(1)}};
  for (const ConfirmedGain& gain : {confirmed_gain(more, less), confirmed_gain(less, more)}) {
    CHECK(gain.holds);
    CHECK(gain.speedup == Approx(1.4));
  }
}

TEST_CASE("each preparation of the rewritten graph is faster than each of the given one") {
  const FreshTimes plain{{rounds(1.06)}, {rounds(1)}};
  // The original graph alone varies as much between preparations.
  CHECK_FALSE(confirmed_gain(plain, {{rounds(1.12), rounds(1)}, {rounds(1.01), rounds(0.99)}}).holds);
  CHECK_FALSE(confirmed_gain(plain, {{rounds(1.06), rounds(1.06)}, {rounds(0.95), rounds(1.07)}}).holds);
  CHECK(confirmed_gain(plain, {{rounds(1.06), rounds(1.07)}, {rounds(1.01), rounds(0.99)}}).holds);
}

TEST_CASE("noise of rounds is no gain, and nothing measured is none") {
  FreshTimes noise;
  noise.before.push_back({1, 2, 1, 2, 1, 2, 1, 2, 1.5});
  noise.after.push_back({2, 1, 2, 1, 2, 1, 2, 1, 1.4});
  const FreshTimes good{{rounds(2)}, {rounds(1)}};
  CHECK_FALSE(confirmed_gain(good, noise).holds);
  CHECK_FALSE(confirmed_gain(good, {}).holds);
  CHECK_FALSE(confirmed_gain(good, {{{}}, {{}}}).holds);
  CHECK(gain_of({}, {}).speedup == 1);
  CHECK(median({}) == 0);
}

}  // namespace rewright::optimizer
