#include "base/only_copy.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using namespace rewright;

namespace {

constexpr std::size_t kBytes = 20 << 10;

std::shared_ptr<std::byte> piece_of(int value) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(kBytes, static_cast<std::byte>(value));
  return {bytes, bytes->data()};
}

}  // namespace

TEST_CASE("equal bytes are one piece, as long as somebody has it") {
  std::weak_ptr<std::byte> first;
  {
    const std::shared_ptr<std::byte> a = only_copy(piece_of(1), kBytes), b = only_copy(piece_of(1), kBytes);
    first = a;
    CHECK(a == b);
    CHECK(known_copy({piece_of(1).get(), kBytes}) == a);
    CHECK(only_copy(piece_of(2), kBytes) != a);
    CHECK(known_copy({piece_of(2).get(), kBytes}) == nullptr);  // nobody has it any more
  }
  CHECK(first.expired());
  CHECK(known_copy({piece_of(1).get(), kBytes}) == nullptr);
}

TEST_CASE("few bytes stay where they are") {
  const std::shared_ptr<std::byte> a = only_copy(piece_of(1), 100);
  CHECK(only_copy(piece_of(1), 100) != a);
}

TEST_CASE("threads bring equal bytes and let them go at once") {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const std::shared_ptr<std::byte> piece = only_copy(piece_of(round % 3), kBytes);
        wrong += std::count(piece.get(), piece.get() + kBytes, static_cast<std::byte>(round % 3)) != kBytes;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
