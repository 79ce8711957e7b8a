#include "distribution/tensor_exchange.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "base/error.h"
#include "distribution/testing.h"

namespace rewright::distribution {
namespace {

// A random case that every process makes by itself.
struct Case {
  Tensor whole;
  TensorParts from, to;
};

TensorParts random_parts(std::mt19937& random, const Sizes& sizes, std::size_t processes) {
  TensorParts parts;
  parts.axis = random() % sizes.size();
  std::vector<std::int64_t> bounds{0, sizes[parts.axis]};
  for (std::size_t p = 1; p < processes; ++p)
    bounds.push_back(static_cast<std::int64_t>(random() % static_cast<std::size_t>(sizes[parts.axis] + 1)));
  std::sort(bounds.begin(), bounds.end());
  for (std::size_t p = 0; p < processes; ++p) parts.rows.push_back({bounds[p], bounds[p + 1]});
  return parts;
}

Case random_case(unsigned seed, std::size_t processes) {
  std::mt19937 random(seed);
  Sizes sizes(1 + random() % 4);
  for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(1 + random() % 7);
  Case c;
  std::vector<double> values(static_cast<std::size_t>(element_count(sizes)));
  for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<double>(n % 120);
  const DataType types[] = {DataType::kFloat, DataType::kDouble, DataType::kInt8,
                            DataType::kInt64, DataType::kHalf,   DataType::kBool};
  c.whole = Tensor::from_reals(types[random() % std::size(types)], sizes, values);
  c.from = random_parts(random, sizes, processes);
  c.to = random_parts(random, sizes, processes);
  if (random() % 4 == 0) c.to = {};  // an all-gather
  if (random() % 4 == 0) {           // a halo
    c.to = c.from;
    for (auto& rows : c.to.rows)
      rows.begin = std::max<std::int64_t>(0, rows.begin - static_cast<std::int64_t>(random() % 3)),
      rows.end = std::min(sizes[c.to.axis], rows.end + static_cast<std::int64_t>(random() % 3));
  }
  return c;
}

void check_redistribution(Communicator& all, unsigned seed) {
  const Case c = random_case(seed, all.size());
  const Tensor got = redistribute(all, part_of(c.whole, c.from, all.rank()), c.whole.sizes(), c.from, c.to);
  if (!(got == part_of(c.whole, c.to, all.rank()))) throw Error(ErrorCode::kBadInput, "case " + std::to_string(seed));
  const std::size_t root = seed % all.size();
  const Tensor mine = scatter(all, all.rank() == root ? c.whole : Tensor(), c.whole.type(), c.whole.sizes(), c.from, root);
  if (!(mine == part_of(c.whole, c.from, all.rank()))) throw Error(ErrorCode::kBadInput, "scatter " + std::to_string(seed));
  const Tensor back = gather(all, mine, c.whole.sizes(), c.from, root);
  if (all.rank() == root ? !(back == c.whole) : static_cast<bool>(back))
    throw Error(ErrorCode::kBadInput, "gather " + std::to_string(seed));
}

// The process's contribution: small integers, whose sums and products are exact.
Tensor contribution(const Case& c, std::size_t process) {
  std::vector<double> values = c.whole.reals();
  for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<double>((n * 7 + process * 5 + 1) % 4);
  return Tensor::from_reals(c.whole.type(), c.whole.sizes(), values);
}

void check_combination(Communicator& all, unsigned seed) {
  const Case c = random_case(seed, all.size());
  if (c.whole.type() == DataType::kBool) return;
  const auto how = static_cast<Reduction>(seed % 4);
  std::vector<double> expected = contribution(c, 0).reals();
  for (std::size_t p = 1; p < all.size(); ++p) {
    const std::vector<double> more = contribution(c, p).reals();
    for (std::size_t n = 0; n < expected.size(); ++n) {
      double& e = expected[n];
      e = how == Reduction::kSum       ? e + more[n]
          : how == Reduction::kProduct ? e * more[n]
          : how == Reduction::kMax     ? std::max(e, more[n])
                                       : std::min(e, more[n]);
    }
  }
  const Tensor whole = Tensor::from_reals(c.whole.type(), c.whole.sizes(), expected);
  const Tensor got = combine(all, contribution(c, all.rank()), how, c.to);
  if (!(got == part_of(whole, c.to, all.rank()))) throw Error(ErrorCode::kBadInput, "combination " + std::to_string(seed));
}

}  // namespace

TEST_CASE("tensors in parts: as plain copies and sums say") {
  for (const std::size_t processes : {1, 2, 3, 4})
    CHECK_NOTHROW(testing::run_as_processes(processes, [](Communicator& all) {
      for (unsigned seed = 0; seed < 200; ++seed) check_redistribution(all, seed), check_combination(all, seed);
    }));
}

TEST_CASE("tensors in parts: short ones among many processes in pairs") {
  const auto usual = [](std::size_t processes, double bytes) { return way_of(processes, bytes, usual_limits(processes)); };
  CHECK(usual(8, 8 * 32768.0) == ExchangeWay::kHalves);
  CHECK(usual(8, 8 * 32768.0 + 1) == ExchangeWay::kAtOnce);
  CHECK(usual(4, 4) == ExchangeWay::kAtOnce);
  CHECK(usual(12, 12) == ExchangeWay::kAtOnce);
  CHECK(way_of(8, 100, {100, 200}) == ExchangeWay::kWhole);
  CHECK(way_of(8, 101, {100, 200}) == ExchangeWay::kHalves);
  CHECK(way_of(8, 201, {100, 200}) == ExchangeWay::kAtOnce);
  for (const std::size_t processes : {8, 16})
    CHECK_NOTHROW(testing::run_as_processes(processes, [](Communicator& all) {
      const auto count = static_cast<std::int64_t>(all.size());
      for (unsigned seed = 0; seed < 40; ++seed) {
        check_redistribution(all, seed), check_combination(all, seed);
        // Reals whose sum depends on the order: the same bits in all processes, in parts, by halves and whole, and as a part of
        // a longer tensor.
        std::mt19937 random(seed + 100 * static_cast<unsigned>(all.rank()));
        std::vector<double> values(19);
        for (double& v : values) v = std::uniform_real_distribution<double>(-1, 1)(random);
        const DataType type = seed % 3 == 0 ? DataType::kBfloat16 : DataType::kFloat;
        const Tensor mine = Tensor::from_reals(type, {19}, values), sum = combine(all, mine, Reduction::kSum, {});
        TensorParts rows;
        for (std::int64_t p = 0; p < count; ++p) rows.rows.push_back({19 * p / count, 19 * (p + 1) / count});
        const Tensor part = combine(all, mine, Reduction::kSum, rows);
        if (!(redistribute(all, part, {19}, rows, {}) == sum)) throw Error(ErrorCode::kBadInput, "sums differ");
        if (!(combine(all, mine, Reduction::kSum, {}, PairLimits{1e9, 1e9}) == sum))
          throw Error(ErrorCode::kBadInput, "sums of the whole differ");
        values.insert(values.begin(), seed, 0.5);
        const Tensor longer = combine(all, Tensor::from_reals(type, {19 + seed}, values), Reduction::kSum, {});
        const std::vector<double> reals = longer.reals();
        if (std::vector<double>(reals.begin() + seed, reals.end()) != sum.reals())
          throw Error(ErrorCode::kBadInput, "sums of a longer tensor differ");
      }
      // log2(P) messages of a process to gather, twice as many to sum by halves.
      const auto rounds = static_cast<std::uint64_t>(std::countr_zero(all.size()));
      for (const bool whole : {false, true}) {
        const std::uint64_t before = all.messages_sent(), bytes = all.bytes_sent();
        combine(all, Tensor(DataType::kFloat, {64}), Reduction::kSum, {}, PairLimits{whole ? 256.0 : 255.0, 256});
        if (all.messages_sent() - before != (whole ? rounds : 2 * rounds) ||
            all.bytes_sent() - bytes != (whole ? rounds * 256 : 2 * (256 - 256 / all.size())))
          throw Error(ErrorCode::kBadInput, "it takes other messages");
      }
    }));
}

TEST_CASE("tensors in parts: between processes", "[distribution]") {
  Communicator& all = testing::started_processes();
  for (unsigned seed = 0; seed < 100; ++seed) {
    CHECK_NOTHROW(check_redistribution(all, seed));
    CHECK_NOTHROW(check_combination(all, seed));
  }
}

TEST_CASE("tensors in parts: what cannot be exchanged is refused") {
  const auto alone = make_local_communicator();
  const Tensor words = Tensor::from_strings({2}, {"a", "b"});
  CHECK_THROWS_AS(redistribute(*alone, words, {2}, {}, {}), Error);
  const Tensor numbers(DataType::kFloat, {4});
  CHECK_THROWS_AS(redistribute(*alone, numbers, {8}, {0, {{0, 8}}}, {}), Error);
  CHECK_THROWS_AS(redistribute(*alone, numbers, {4}, {}, {1, {{0, 4}}}), Error);
  CHECK_THROWS_AS(redistribute(*alone, numbers, {4}, {}, {0, {{0, 5}}}), Error);
}

TEST_CASE("tensors in parts: sums and products of integers wrap around") {
  testing::run_as_processes(2, [](Communicator& all) {
    const std::int64_t values[] = {200, 3};
    const Tensor mine = Tensor::from_integers(DataType::kUint8, {2}, values);
    const bool added = combine(all, mine, Reduction::kSum, {}).integers() == std::vector<std::int64_t>{144, 6};
    const bool multiplied = combine(all, mine, Reduction::kProduct, {}).integers() == std::vector<std::int64_t>{64, 9};
    if (!added || !multiplied) throw Error(ErrorCode::kBadInput, "they do not");
  });
}

TEST_CASE("tensors in parts: maxima of numbers that are none") {
  testing::run_as_processes(2, [](Communicator& all) {
    const double values[] = {all.rank() == 0 ? NAN : 1.0, all.rank() == 1 ? NAN : 1.0};
    const Tensor got = combine(all, Tensor::from_reals(DataType::kFloat, {2}, values), Reduction::kMax, {});
    for (const double v : got.reals())
      if (v == v) throw Error(ErrorCode::kBadInput, "a NaN was lost");
  });
}

}  // namespace rewright::distribution
