#include "runtime/cpu/planning/prepared_constants.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "runtime/cpu/testing/graphs.h"

namespace rewright::cpu {

namespace {

Tensor numbers(double first) { return Tensor::from_reals(DataType::kFloat, {2}, std::vector<double>{first, 2}); }

}  // namespace

TEST_CASE("what several plans ask for is made once and kept, the rest is forgotten") {
  PreparedConstants constants;
  const Tensor weights = numbers(1), others = numbers(3);
  int made = 0;
  const auto make = [&](std::byte* to) { std::memset(to, ++made, 100); };
  const auto get = [&](const ConstantOrigin& origin, std::string_view how) {
    return constants.get(origin, how, 100, nullptr, make);
  };
  const Tensor first = get(ConstantOrigin(weights), "a");
  CHECK(reinterpret_cast<std::uintptr_t>(first.bytes().data()) % 64 == 0);
  CHECK(get(ConstantOrigin(weights), "a").bytes().data() == first.bytes().data());
  CHECK(made == 1);
  CHECK(get(ConstantOrigin(weights), "b").bytes().data() != first.bytes().data());
  CHECK(get(ConstantOrigin(others), "a").bytes().data() != first.bytes().data());
  CHECK(get(ConstantOrigin(weights).add(std::int64_t{1}), "a").bytes().data() != first.bytes().data());
  CHECK(made == 4);
  constants.begin_plan();
  get(ConstantOrigin(weights), "a");
  CHECK(made == 4);
  for (int plan = 0; plan < 8; ++plan) constants.begin_plan();
  get(ConstantOrigin(weights), "a");
  CHECK(made == 4);
  CHECK(!constants.has(ConstantOrigin(weights), "b"));
  get(ConstantOrigin(weights), "b");  // seen again: kept from here on
  CHECK(made == 5);
  for (int plan = 0; plan < 8; ++plan) constants.begin_plan();
  get(ConstantOrigin(weights), "b");
  CHECK(made == 5);
  constants.forget(weights.bytes());
  CHECK(!constants.has(ConstantOrigin(weights), "a"));
}

TEST_CASE("an origin's hash is of contents, its key of places") {
  const Tensor a = numbers(1), b = numbers(1), c = numbers(4);
  CHECK(ConstantOrigin(a).key() != ConstantOrigin(b).key());
  CHECK(ConstantOrigin(a).content_hash() == ConstantOrigin(b).content_hash());
  CHECK(ConstantOrigin(a).content_hash() != ConstantOrigin(c).content_hash());
  const std::vector<double> scale{1, 2};
  CHECK(ConstantOrigin(a).add(std::span(scale)).content_hash() != ConstantOrigin(a).content_hash());
}

TEST_CASE("equal constants of two sessions are one, as long as one of them is used") {
  constexpr std::size_t kBytes = 100 << 10;
  const Tensor weights = numbers(1), read_again = numbers(1);
  const auto fill = [](int value) { return [value](std::byte* to) { std::memset(to, value, kBytes); }; };
  PreparedConstants first, second;
  auto third = std::make_unique<PreparedConstants>();
  const std::byte* const at = first.get(ConstantOrigin(weights), "a", kBytes, nullptr, fill(1)).bytes().data();
  CHECK(second.get(ConstantOrigin(read_again), "a", kBytes, nullptr, fill(1)).bytes().data() == at);
  CHECK(second.get(ConstantOrigin(read_again), "b", kBytes, nullptr, fill(2)).bytes().data() != at);
  CHECK(third->get(ConstantOrigin(numbers(2)), "c", kBytes, nullptr, fill(1)).bytes().data() == at);
  first.forget(weights.bytes());
  third.reset();
  const Tensor kept = second.get(ConstantOrigin(read_again), "a", kBytes, nullptr, fill(3));
  CHECK(kept.bytes().data() == at);
  CHECK(std::ranges::all_of(kept.bytes(), [](std::byte b) { return b == std::byte(1); }));
}

TEST_CASE("threads make equal constants and let them go at once") {
  constexpr std::size_t kBytes = 20 << 10;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        PreparedConstants constants;
        const Tensor weights = numbers(round % 3);
        const auto fill = [&](std::byte* to) { std::memset(to, round % 3, kBytes); };
        const Tensor made = constants.get(ConstantOrigin(weights), "a", kBytes, nullptr, fill);
        wrong += std::ranges::all_of(made.bytes(), [&](std::byte b) { return b == std::byte(round % 3); }) ? 0 : 1;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("memory of constants is used again, and no two pieces overlap") {
  std::mt19937 random(3);
  const auto memory = ConstantMemory::make();
  std::vector<std::pair<std::shared_ptr<std::byte>, std::size_t>> pieces;
  constexpr std::uintptr_t kPage = 4096;
  std::set<std::uintptr_t> pages;
  for (int step = 0; step < 3000; ++step) {
    if (!pieces.empty() && random() % 2 == 0) {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      for (std::size_t i = 0; i < pieces.back().second; ++i)
        REQUIRE(pieces.back().first.get()[i] == static_cast<std::byte>(pieces.back().second));
      pieces.pop_back();
      continue;
    }
    const std::size_t bytes = random() % 5000;
    pieces.emplace_back(memory->allocate(bytes), bytes);
    std::byte* const at = pieces.back().first.get();
    REQUIRE(reinterpret_cast<std::uintptr_t>(at) % 64 == 0);
    std::memset(at, static_cast<int>(bytes & 0xFF), bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    for (std::uintptr_t page = address / kPage; page <= (address + bytes) / kPage; ++page) pages.insert(page);
  }
  CHECK(pages.size() * kPage < 2 << 20);  // 3.8 MB were asked for
}

}  // namespace rewright::cpu
