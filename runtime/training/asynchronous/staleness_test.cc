#include "runtime/training/asynchronous/staleness.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace rewright::training {
namespace {

// Workers that read, compute for some time, and update as often as their read allows; in random orders.
TEST_CASE("no update misses more than the bound, and nobody waits in a circle") {
  std::mt19937 random(1);
  for (int instance = 0; instance < 300; ++instance) {
    const std::size_t workers = 1 + random() % 6;
    const std::int64_t bound = random() % 8;
    Staleness staleness(bound);
    std::vector<bool> has_read(workers);
    for (int done = 0; done < 200;) {
      std::vector<std::size_t> admitted;
      for (std::size_t w = 0; w < workers; ++w)
        if (has_read[w] ? staleness.may_apply(w) : staleness.may_read(w)) admitted.push_back(w);
      REQUIRE_FALSE(admitted.empty());
      const std::size_t w = admitted[random() % admitted.size()];
      if (!has_read[w])
        staleness.read(w), has_read[w] = true;
      else if (random() % 20 == 0)
        staleness.forget(w), has_read[w] = false;
      else
        has_read[w] = staleness.apply(w, random() % 2 == 0), ++done;
      REQUIRE(staleness.counts().most <= bound);
    }
    CHECK(staleness.counts().updates == 200);
  }
}

TEST_CASE("a bound of 0 lets one worker work at a time, no bound all") {
  Staleness none(0), any(std::nullopt);
  none.read(1);
  CHECK_FALSE(none.may_read(2));
  CHECK(none.may_apply(1));
  CHECK_FALSE(none.apply(1, false));
  CHECK(none.may_read(2));
  any.read(1);
  for (int n = 0; n < 50; ++n) {
    any.read(2);
    CHECK(any.may_apply(2));
    any.apply(2, false);
  }
  any.apply(1, false);
  CHECK(any.counts().most == 50);
  CHECK(any.counts().mean() == Approx(50.0 / 51));
}

}  // namespace
}  // namespace rewright::training
