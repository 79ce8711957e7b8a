#include "plans/partition/holding.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>

#include "distribution/testing.h"

namespace rewright::plans {

TEST_CASE("exchanges: as many bytes are sent between parts as is said") {
  std::mt19937 random(5);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<unsigned>(most - least + 1));
  };
  int same_axis = 0, other_axis = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t processes = pick(1, 4);
    const Sizes sizes{pick(12, 30), pick(12, 30)};
    const TensorType type{DataType::kFloat, {sizes[0], sizes[1]}};
    // Windows with a stride have parts of other units than what they read.
    const auto any_cut = [&] {
      const auto axis = static_cast<std::size_t>(pick(0, 1));
      const std::int64_t unit = pick(1, 3);
      return cut_along(axis, unit, sizes[axis] / unit, processes, sizes[axis]);
    };
    const Holding from = any_cut();
    Need to{any_cut()};
    if (pick(0, 1) == 1) to.before = pick(0, 2), to.after = pick(0, 2);
    const Exchange exchange = exchange_for(from, to);
    if (exchange != Exchange::kAllToAll) continue;
    ++(from.axis == to.holding.axis ? same_axis : other_axis);
    INFO("trial " << trial << ", " << processes << " processes, " << sizes[0] << " x " << sizes[1]);
    std::atomic<std::uint64_t> sent = 0;
    const Tensor whole(DataType::kFloat, sizes);
    testing::run_as_processes(static_cast<std::size_t>(processes), [&](distribution::Communicator& all) {
      const TensorParts parts = parts_of({from}, sizes, processes);
      const std::uint64_t before = all.bytes_sent();
      redistribute(all, part_of(whole, parts, all.rank()), sizes, parts, parts_of(to, sizes, processes));
      sent += all.bytes_sent() - before;
    });
    const auto n = static_cast<double>(processes);
    CHECK(exchanged_bytes(exchange, type, from, to, processes) * (n - 1) / n == Approx(static_cast<double>(sent)));
  }
  CHECK(same_axis > 0);
  CHECK(other_axis > 0);
}

}  // namespace rewright::plans
