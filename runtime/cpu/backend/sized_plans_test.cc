#include "runtime/cpu/backend/sized_plans.h"

#include <catch2/catch.hpp>

using namespace rewright;
using namespace rewright::cpu;

namespace {

constexpr std::size_t kLargePlan = std::size_t{4} << 20;

// Plans without steps, for the sizes {0}, {1}, ...
struct CountedPlans {
  SizedPlans sized;
  int made = 0;

  void get(std::int64_t size, std::size_t bytes) {
    sized.get({{size}}, [&] {
      ++made;
      Plan plan;
      plan.folded_bytes = bytes;
      return std::make_unique<PlanRunner>(std::move(plan));
    });
  }
};

}  // namespace

TEST_CASE("small plans are kept for many sizes") {
  CountedPlans plans;
  for (int round = 0; round < 3; ++round)
    for (std::int64_t size = 0; size < 300; ++size) plans.get(size, 10000);
  CHECK(plans.made == 300);
}

TEST_CASE("of large plans those used last are kept") {
  CountedPlans plans;
  for (std::int64_t size = 0; size < 100; ++size) plans.get(size, kLargePlan);
  CHECK(plans.made == 100);
  for (std::int64_t size = 84; size < 100; ++size) plans.get(size, kLargePlan);
  CHECK(plans.made == 100);
  plans.get(0, kLargePlan);
  plans.get(85, kLargePlan);  // 84 was used longest ago
  CHECK(plans.made == 101);
  plans.get(84, kLargePlan);
  CHECK(plans.made == 102);
}

TEST_CASE("the plans of one session share the memory that they may take") {
  const auto bytes = std::make_shared<std::atomic<std::size_t>>(0);
  {
    CountedPlans first, second;
    first.sized.share_bytes(bytes);
    second.sized.share_bytes(bytes);
    for (std::int64_t size = 0; size < 4; ++size) first.get(size, kLargePlan);
    for (int round = 0; round < 2; ++round)
      for (std::int64_t size = 0; size < 40; ++size) second.get(size, 100);
    CHECK(second.made == 80);  // the first ones' take all of it
    CHECK(bytes->load() > 4 * kLargePlan);
  }
  CHECK(bytes->load() == 0);
}
