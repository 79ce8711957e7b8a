#include "runtime/cpu/running/output_pool.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>

using namespace rewright;
using namespace rewright::cpu;

namespace {

constexpr std::int64_t kLarge = 1 << 18;  // floats

}  // namespace

TEST_CASE("memory of an output that nobody has any more is used again, also by one of nearly its size") {
  OutputPool pool;
  const std::byte* const at = pool.take(DataType::kFloat, {kLarge}).bytes;
  {
    const OutputPool::Output first = pool.take(DataType::kFloat, {kLarge});
    CHECK(first.bytes == at);
    CHECK(pool.take(DataType::kFloat, {kLarge - 100}).bytes != at);
  }
  const OutputPool::Output again = pool.take(DataType::kFloat, {2, kLarge / 2 - 100});
  const OutputPool::Output another = pool.take(DataType::kFloat, {kLarge});
  CHECK((again.bytes == at || another.bytes == at));
  CHECK(again.tensor.sizes() == Sizes{2, kLarge / 2 - 100});
  CHECK(again.tensor.bytes().data() == again.bytes);
}

TEST_CASE("a small output keeps a part of a large one's memory, and the rest serves others") {
  OutputPool pool;
  const std::byte* const at = pool.take(DataType::kFloat, {kLarge}).bytes;
  const OutputPool::Output small = pool.take(DataType::kFloat, {kLarge / 4});
  const OutputPool::Output other = pool.take(DataType::kFloat, {kLarge / 2});
  const OutputPool::Output last = pool.take(DataType::kFloat, {kLarge / 4});
  for (const OutputPool::Output* output : {&small, &other, &last})
    CHECK((output->bytes >= at && output->bytes < at + sizeof(float) * kLarge));
}

TEST_CASE("memory of many small outputs serves few large ones") {
  OutputPool pool;
  std::vector<OutputPool::Output> many;
  for (int n = 0; n < 32; ++n) many.push_back(pool.take(DataType::kFloat, {kLarge / 8}));
  many.clear();
  const OutputPool::Output large = pool.take(DataType::kFloat, {kLarge});
  std::memset(large.bytes, 1, large.tensor.byte_count());
  for (int n = 0; n < 3; ++n) many.push_back(pool.take(DataType::kFloat, {kLarge}));
  for (OutputPool::Output& output : many) std::memset(output.bytes, 2, output.tensor.byte_count());
  CHECK(std::ranges::all_of(large.tensor.bytes(), [](std::byte b) { return b == std::byte(1); }));
}

TEST_CASE("outputs of any size, kept for any time, keep their elements") {
  std::mt19937 random(3);
  auto pool = std::make_unique<OutputPool>();
  std::vector<std::pair<Tensor, int>> kept;
  for (int round = 0; round < 600; ++round) {
    const Sizes sizes{static_cast<std::int64_t>(random() % 5), static_cast<std::int64_t>(random() % 60000)};
    OutputPool::Output made = pool->take(DataType::kUint8, sizes);
    if (made.tensor.byte_count() > 0) std::memset(made.bytes, round % 251, made.tensor.byte_count());
    kept.emplace_back(std::move(made.tensor), round % 251);
    while (kept.size() > random() % 9) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size()));
    if (round == 590) pool.reset(new OutputPool);  // outputs outlive it
    for (const auto& [tensor, value] : kept)
      REQUIRE(std::ranges::all_of(tensor.bytes(), [v = value](std::byte b) { return b == std::byte(v); }));
  }
}

TEST_CASE("threads take outputs and give them back at once") {
  OutputPool pool;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&pool, &wrong, t] {
      std::vector<Tensor> kept;
      for (int round = 0; round < 200; ++round) {
        OutputPool::Output made = pool.take(DataType::kUint8, {70000 + 1000 * (round % 7)});
        std::memset(made.bytes, t, made.tensor.byte_count());
        kept.push_back(std::move(made.tensor));
        if (kept.size() > 3) kept.erase(kept.begin());
        for (const Tensor& tensor : kept)
          for (std::size_t i = 0; i < tensor.byte_count(); i += 997) wrong += tensor.bytes()[i] != std::byte(t);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("an output that does not fit into any memory is an error") {
  OutputPool pool;
  CHECK_THROWS_AS(pool.take(DataType::kDouble, {std::int64_t{1} << 40, 1 << 10}), Error);
}
