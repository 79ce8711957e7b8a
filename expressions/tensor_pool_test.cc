#include "expressions/tensor_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>

using namespace rewright;

namespace {

constexpr std::int64_t kLarge = 1 << 18;  // floats

}  // namespace

TEST_CASE("memory of an output that nobody has any more is used again, also by one of nearly its size") {
  TensorPool pool;
  const std::byte* const at = pool.take(DataType::kFloat, {kLarge}).bytes;
  {
    const TensorPool::Output first = pool.take(DataType::kFloat, {kLarge});
    CHECK(first.bytes == at);
    CHECK(pool.take(DataType::kFloat, {kLarge - 100}).bytes != at);
  }
  const TensorPool::Output again = pool.take(DataType::kFloat, {2, kLarge / 2 - 100});
  const TensorPool::Output another = pool.take(DataType::kFloat, {kLarge});
  CHECK((again.bytes == at || another.bytes == at));
  CHECK(again.tensor.sizes() == Sizes{2, kLarge / 2 - 100});
  CHECK(again.tensor.bytes().data() == again.bytes);
}

TEST_CASE("a small output keeps a part of a large one's memory, and the rest serves others") {
  TensorPool pool;
  const std::byte* const at = pool.take(DataType::kFloat, {kLarge}).bytes;
  const TensorPool::Output small = pool.take(DataType::kFloat, {kLarge / 4});
  const TensorPool::Output other = pool.take(DataType::kFloat, {kLarge / 2});
  const TensorPool::Output last = pool.take(DataType::kFloat, {kLarge / 4});
  for (const TensorPool::Output* output : {&small, &other, &last})
    CHECK((output->bytes >= at && output->bytes < at + sizeof(float) * kLarge));
}

TEST_CASE("memory of many small outputs serves few large ones") {
  TensorPool pool;
  std::vector<TensorPool::Output> many;
  for (int n = 0; n < 32; ++n) many.push_back(pool.take(DataType::kFloat, {kLarge / 8}));
  many.clear();
  const TensorPool::Output large = pool.take(DataType::kFloat, {kLarge});
  std::memset(large.bytes, 1, large.tensor.byte_count());
  for (int n = 0; n < 3; ++n) many.push_back(pool.take(DataType::kFloat, {kLarge}));
  for (TensorPool::Output& output : many) std::memset(output.bytes, 2, output.tensor.byte_count());
  CHECK(std::ranges::all_of(large.tensor.bytes(), [](std::byte b) { return b == std::byte(1); }));
}

TEST_CASE("rounds that take the same tensors in the same order need no new memory, with a share more than was in use at once") {
  std::mt19937 random(7);
  for (int n = 0; n < 20; ++n) {
    TensorPool pool(0.5);
    std::vector<std::pair<Sizes, std::size_t>> wanted;  // and how many others are taken before it is given back
    for (int t = 0; t < 40; ++t)
      wanted.emplace_back(Sizes{static_cast<std::int64_t>((1 + random() % 8) << (14 + random() % 4))}, random() % 12);
    std::size_t before = 0;
    for (int round = 0; round < 12; ++round) {
      if (round == 8) before = pool.mapped_bytes();
      std::vector<std::pair<Tensor, std::size_t>> kept;
      for (std::size_t t = 0; t < wanted.size(); ++t) {
        kept.emplace_back(pool.take(DataType::kFloat, wanted[t].first).tensor, t + wanted[t].second);
        std::erase_if(kept, [&](const auto& tensor) { return tensor.second <= t; });
      }
    }
    CHECK(pool.mapped_bytes() == before);
  }
}

TEST_CASE("free memory that is more than was in use at once goes back to the system") {
  constexpr std::int64_t kFloats = std::int64_t{1} << 18;
  constexpr std::size_t kBytes = sizeof(float) * kFloats;
  const auto is_mapped = [](std::byte* at) {
    unsigned char resident = 0;
    return ::mincore(at, 1, &resident) == 0;
  };
  TensorPool pool;
  TensorPool::Output first = pool.take(DataType::kFloat, {kFloats});
  const TensorPool::Output between = pool.take(DataType::kFloat, {kFloats});
  std::byte* const at = first.bytes;
  first = {};
  CHECK(pool.kept_bytes() == 2 * kBytes);
  CHECK(is_mapped(at));
  const TensorPool::Output larger = pool.take(DataType::kFloat, {2 * kFloats});  // for which the free one is too small
  CHECK(pool.kept_bytes() == 3 * kBytes);
  CHECK_FALSE(is_mapped(at));
  CHECK(is_mapped(between.bytes));
}

TEST_CASE("a pool never keeps more than was in use at once and the share") {
  std::mt19937 random(11);
  for (const double share : {0.0, 0.5}) {
    TensorPool pool(share);
    std::vector<TensorPool::Output> taken;
    std::size_t used = 0, most = 0;
    const auto bytes = [](const TensorPool::Output& output) { return output.tensor.byte_count(); };
    for (int round = 0; round < 2000; ++round) {
      if (taken.empty() || random() % 2 == 0) {
        // Sizes that are not rounded: eighths of powers of two.
        const auto size = static_cast<std::int64_t>(8 + random() % 8) << (13 + random() % 5);
        taken.push_back(pool.take(DataType::kUint8, {size}));
        used += bytes(taken.back()), most = std::max(most, used);
      } else {
        const auto at = taken.begin() + static_cast<std::ptrdiff_t>(random() % taken.size());
        used -= bytes(*at);
        taken.erase(at);
      }
      REQUIRE(pool.kept_bytes() >= used);
      REQUIRE(static_cast<double>(pool.kept_bytes()) <= (1 + share) * static_cast<double>(most));
    }
  }
}

TEST_CASE("outputs of any size, kept for any time, keep their elements") {
  std::mt19937 random(3);
  auto pool = std::make_unique<TensorPool>();
  std::vector<std::pair<Tensor, int>> kept;
  for (int round = 0; round < 600; ++round) {
    const Sizes sizes{static_cast<std::int64_t>(random() % 5), static_cast<std::int64_t>(random() % 60000)};
    TensorPool::Output made = pool->take(DataType::kUint8, sizes);
    if (made.tensor.byte_count() > 0) std::memset(made.bytes, round % 251, made.tensor.byte_count());
    kept.emplace_back(std::move(made.tensor), round % 251);
    while (kept.size() > random() % 9) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size()));
    if (round == 590) pool.reset(new TensorPool);  // outputs outlive it
    for (const auto& [tensor, value] : kept)
      REQUIRE(std::ranges::all_of(tensor.bytes(), [v = value](std::byte b) { return b == std::byte(v); }));
  }
}

TEST_CASE("threads take outputs and give them back at once") {
  TensorPool pool;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&pool, &wrong, t] {
      std::vector<Tensor> kept;
      for (int round = 0; round < 200; ++round) {
        TensorPool::Output made = pool.take(DataType::kUint8, {70000 + 1000 * (round % 7)});
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
  TensorPool pool;
  CHECK_THROWS_AS(pool.take(DataType::kDouble, {std::int64_t{1} << 40, 1 << 10}), Error);
}
