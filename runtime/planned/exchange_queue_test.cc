#include "runtime/planned/exchange_queue.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "base/error.h"
#include "distribution/testing.h"
#include "runtime/testing.h"

namespace rewright::runtime {
namespace {

using distribution::Communicator;

constexpr std::int64_t kRows = 1 << 15;  // of floats
constexpr std::size_t kBytes = kRows * sizeof(float);

// A tensor of ones that counts itself while it is in memory.
Tensor counted(std::int64_t rows, std::atomic<int>& count) {
  const Tensor ones = Tensor::from_reals(DataType::kFloat, {rows}, std::vector<double>(static_cast<std::size_t>(rows), 1.0));
  ++count;
  const std::shared_ptr<const void> owner(ones.bytes().data(), [ones, &count](const void*) { --count; });
  return {DataType::kFloat, {rows}, owner, ones.bytes().data()};
}

// Exchange number e has value e, and gives value `number of exchanges` + e.
plans::LocalExchange exchange(std::size_t number, std::size_t all, bool shrinks) {
  const plans::Holding cut = plans::cut_along(0, 1, kRows, 2, kRows);
  const plans::Holding before = shrinks ? plans::partial(Reduction::kSum) : cut, after = shrinks ? cut : plans::whole();
  plans::LocalExchange result;
  result.exchange = shrinks ? plans::Exchange::kReduceScatter : plans::Exchange::kAllGather;
  result.from = number, result.to = all + number;
  result.whole = {kRows};
  result.before = plans::parts_of({before}, {kRows}, 2), result.after = plans::parts_of({after}, {kRows}, 2);
  if (shrinks) result.reduction = Reduction::kSum;
  return result;
}

std::shared_ptr<ExchangesOfRuns> exchanges_of(Communicator& processes, const std::vector<bool>& shrinks) {
  const auto result = std::make_shared<ExchangesOfRuns>();
  for (std::size_t e = 0; e < shrinks.size(); ++e) result->exchanges.push_back(exchange(e, shrinks.size(), shrinks[e]));
  result->processes = std::make_shared<plans::PlanProcesses>(processes, 1);
  result->shrinks = shrinks;
  result->at_once.resize(shrinks.size()), result->seconds.resize(shrinks.size());
  return result;
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorCode::kBadInput, what);
}

}  // namespace

TEST_CASE("exchange queue: without a second thread the sources of exchanges that make values smaller are not kept") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    std::vector<bool> shrinks;
    for (int e = 0; e < 8; ++e) shrinks.push_back(random() % 2 == 0);
    testing::run_as_processes(2, [&](Communicator& processes) {
      const std::size_t all = shrinks.size();
      const auto shared = exchanges_of(processes, shrinks);
      ExchangeQueue queue(shared, std::vector<int>(2 * all, 1));
      std::atomic<int> sources = 0;
      int put_off = 0;  // exchanges, since the last one that was not
      for (std::size_t e = 0; e < all; ++e) {
        queue.put(e, counted(shrinks[e] ? kRows : kRows / 2, sources));
        put_off = shrinks[e] ? 0 : put_off + 1;
        require(sources == put_off, "another number of sources is in memory");
      }
      for (std::size_t e = 0; e < all; ++e) {
        const Tensor result = queue.get(all + e);
        require(result.size() == (shrinks[e] ? kRows / 2 : kRows), "a result has another size");
        const float element = shrinks[e] ? 2 : 1;
        require(std::ranges::all_of(result.data<float>(), [&](float x) { return x == element; }), "other elements");
      }
      queue.finish();
      require(sources == 0, "a source is kept");
    });
  }
}

TEST_CASE("exchange queue: sums to parts that follow each other need the memory of parts, and of one message") {
  constexpr std::size_t kSums = 16;
  testing::run_as_processes(2, [&](Communicator& processes) {
    const auto shared = exchanges_of(processes, std::vector<bool>(kSums, true));
    ExchangeQueue queue(shared, std::vector<int>(2 * kSums, 1));
    const Tensor ones = Tensor::from_reals(DataType::kFloat, {kRows}, std::vector<double>(kRows, 1.0));
    for (std::size_t e = 0; e < kSums; ++e) {
      TensorPool::Output source = shared->pool.take(DataType::kFloat, {kRows});
      std::ranges::copy(ones.bytes(), source.bytes);
      queue.put(e, std::move(source.tensor));
      // Parts until now, the source, and what comes from the other process; the pool keeps half as much more.
      const std::size_t most = (e + 1) * kBytes / 2 + 2 * kBytes;
      require(shared->pool.kept_bytes() <= most + most / 2, "sources or messages are kept");
    }
    queue.finish();
  });
}

}  // namespace rewright::runtime
