#include "distribution/background_messages.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "base/error.h"
#include "distribution/testing.h"

using namespace rewright;
using namespace rewright::distribution;

namespace {

Tensor numbered(std::size_t from, std::size_t to, int number, std::int64_t size) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(size));
  for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<std::int64_t>(1000 * from + 100 * to + n) + number;
  return Tensor::from_integers(DataType::kInt64, {size}, values);
}

// Messages of random sizes, some of them long and some empty, from all to all; each process waits in an order of its own.
void exchange_at_random(Communicator& all, unsigned seed) {
  constexpr int kMessages = 30;
  const auto sizes = [&](std::size_t from, std::size_t to) {
    std::mt19937 random(static_cast<unsigned>(seed + 17 * from + to));
    std::vector<std::int64_t> result;
    for (int n = 0; n < kMessages; ++n) result.push_back(random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % 40000));
    return result;
  };
  const std::size_t me = all.rank();
  {
    BackgroundMessages messages(all);
    std::vector<std::pair<std::size_t, Tensor>> expected;  // by number
    for (int n = 0; n < kMessages; ++n)
      for (std::size_t p = 0; p < all.size(); ++p) {
        if (p == me) continue;
        messages.send(p, numbered(me, p, n, sizes(me, p)[static_cast<std::size_t>(n)]));
        const std::int64_t size = sizes(p, me)[static_cast<std::size_t>(n)];
        expected.emplace_back(messages.receive(p, DataType::kInt64, {size}), numbered(p, me, n, size));
      }
    std::mt19937 random(static_cast<unsigned>(seed + me));
    std::shuffle(expected.begin(), expected.end(), random);
    for (const auto& [number, tensor] : expected)
      if (!(messages.wait(number) == tensor)) throw Error(ErrorCode::kBadInput, "another message came");
    messages.finish();
  }
  // Others can be sent as before.
  if (all.all_gather(std::to_string(me)).back() != std::to_string(all.size() - 1))
    throw Error(ErrorCode::kBadInput, "what came behind the messages was mixed up with them");
}

}  // namespace

TEST_CASE("messages in the background come in order, whoever waits for which", "[distribution]") {
  for (unsigned seed = 0; seed < 3; ++seed) exchange_at_random(testing::started_processes(), seed);
}

TEST_CASE("messages in the background between threads, and a process that fails") {
  for (const std::size_t processes : {1, 2, 3, 5})
    testing::run_as_processes(processes, [&](Communicator& all) { exchange_at_random(all, 5); });
  CHECK_THROWS_WITH(testing::run_as_processes(2,
                                              [&](Communicator& all) {
                                                if (all.rank() == 0) throw Error(ErrorCode::kBadInput, "it fails");
                                                BackgroundMessages messages(all);
                                                messages.wait(messages.receive(0, DataType::kFloat, {4}));
                                              }),
                    Catch::Contains("it fails"));
}
