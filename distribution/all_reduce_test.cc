#include "distribution/all_reduce.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <random>

#include "base/error.h"
#include "distribution/elements.h"
#include "distribution/testing.h"
#include "expressions/tensor.h"

namespace rewright::distribution {
namespace {

using testing::run_as_processes;

const std::vector<DataType> kTypes{DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16};

// The vector that a process starts with; every process can compute it.
Tensor vector_of(std::size_t process, std::size_t count, DataType type) {
  std::mt19937 random(static_cast<unsigned>(17 * process + count));
  std::vector<double> values(count);
  for (double& v : values) v = std::uniform_real_distribution<double>(-1, 1)(random);
  return Tensor::from_reals(type, {static_cast<std::int64_t>(count)}, values);
}

std::vector<double> exact_sum(std::size_t processes, std::size_t count, DataType type) {
  std::vector<double> sum(count);
  for (std::size_t p = 0; p < processes; ++p) {
    const std::vector<double> values = vector_of(p, count, type).reals();
    for (std::size_t n = 0; n < count; ++n) sum[n] += values[n];
  }
  return sum;
}

double rounding(DataType type) {
  if (type == DataType::kDouble) return 1e-15;
  if (type == DataType::kFloat) return 1e-6;
  return type == DataType::kHalf ? 1e-3 : 1e-2;
}

bool close(const Tensor& sum, std::size_t processes) {
  const std::vector<double> wanted = exact_sum(processes, static_cast<std::size_t>(sum.size()), sum.type()), have = sum.reals();
  const double tolerance = rounding(sum.type()) * static_cast<double>(processes * processes);
  return std::equal(wanted.begin(), wanted.end(), have.begin(),
                    [&](double a, double b) { return std::abs(a - b) <= tolerance; });
}

std::vector<AllReduce> strategies() {
  std::vector<AllReduce> all;
  for (const std::string_view name : all_reduce_names()) all.push_back(all_reduce_from_name(name));
  for (const char* name : {"hierarchical:1", "hierarchical:2", "hierarchical:3"}) all.push_back(all_reduce_from_name(name));
  return all;
}

// Sums one vector by one strategy, in each process; returns what is wrong with the result, or an empty string.
std::string check_strategy(Communicator& processes, const AllReduce& how, std::size_t count, DataType type) {
  const std::size_t n = processes.size();
  const std::string what = std::string(all_reduce_names()[static_cast<std::size_t>(how.strategy)]) + " of " +
                           std::to_string(count) + " " + std::string(name(type)) + " by " + std::to_string(n);
  Tensor values = vector_of(processes.rank(), count, type);
  const std::uint64_t before = processes.bytes_sent();
  all_reduce(processes, how, values.mutable_bytes(), type);
  const double sent[] = {static_cast<double>(processes.bytes_sent() - before)};
  if (!close(values, n)) return what + ": not the sum";
  const std::string bits(reinterpret_cast<const char*>(values.bytes().data()), values.byte_count());
  for (const std::string& other : processes.all_gather(bits))
    if (other != bits) return what + ": other bits elsewhere";
  double all_sent[] = {sent[0]};
  processes.sum(std::span<double>(all_sent));
  if (how.strategy != AllReduceStrategy::kEngine &&
      all_sent[0] != static_cast<double>(all_reduce_bytes(how, n, values.byte_count())))
    return what + ": sent " + std::to_string(all_sent[0]) + " bytes";
  return {};
}

std::vector<std::size_t> lengths(std::size_t processes) {
  std::mt19937 random(static_cast<unsigned>(processes));
  std::vector<std::size_t> result{0, 1, processes - 1, processes, processes + 1};
  if (processes == 2) result.push_back(300000);  // floats that are sent in several pieces
  for (int n = 0; n < 4; ++n) result.push_back(random() % 3000);
  return result;
}

TEST_CASE("each strategy adds up, with the same bits everywhere, and sends what its formula says") {
  for (const std::size_t count : {1, 2, 3, 4, 5, 7, 8, 11}) {
    std::mutex mutex;
    std::vector<std::string> complaints;
    run_as_processes(count, [&](Communicator& processes) {
      for (const AllReduce& how : strategies())
        for (const DataType type : kTypes)
          for (const std::size_t length : lengths(count)) {
            if (type != DataType::kFloat && (length > 4000 || count % 5 != 3)) continue;
            const std::string complaint = check_strategy(processes, how, length, type);
            const std::lock_guard lock(mutex);
            if (!complaint.empty()) complaints.push_back(complaint);
          }
    });
    CHECK(complaints == std::vector<std::string>{});
  }
}

TEST_CASE("the processes that mpirun started add up by each strategy as by the engine", "[distribution]") {
  Communicator& processes = testing::started_processes();
  for (const AllReduce& how : strategies())
    for (const DataType type : kTypes)
      for (const std::size_t length : lengths(processes.size()))
        if (type == DataType::kFloat || length < 4000) CHECK(check_strategy(processes, how, length, type).empty());
}

TEST_CASE("sums in one order have the same bits for any number of processes") {
  constexpr std::size_t kVectors = 12;
  for (const DataType type : kTypes)
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{1000}}) {
      std::vector<std::byte> expected;
      for (const std::size_t count : {1, 2, 3, 4, 6, 12}) {
        std::mutex mutex;
        run_as_processes(count, [&](Communicator& processes) {
          const std::size_t here = kVectors / count;
          std::vector<Tensor> mine;
          std::vector<std::span<std::byte>> vectors;
          for (std::size_t k = 0; k < here; ++k) mine.push_back(vector_of(processes.rank() * here + k, length, type));
          for (Tensor& t : mine) vectors.push_back(t.mutable_bytes());
          Bounds bounds = even_bounds(length, count);
          if (count == 3) bounds[1] = bounds[2];  // a process with nothing to add
          reduce_scatter_in_order(processes, vectors, type, bounds);
          all_gather_parts(processes, vectors[0], byte_size(type), bounds);
          const std::lock_guard lock(mutex);
          CHECK(close(mine[0], kVectors));
          if (expected.empty()) expected.assign(vectors[0].begin(), vectors[0].end());
          CHECK(std::ranges::equal(expected, vectors[0]));
        });
      }
    }
}

TEST_CASE("a process gets the sum of its part") {
  for (const std::size_t count : {1, 2, 3, 5})
    run_as_processes(count, [&](Communicator& processes) {
      Tensor values = vector_of(processes.rank(), 100, DataType::kFloat);
      Bounds bounds = even_bounds(100, count);
      if (count == 5) bounds = {0, 0, 7, 90, 90, 100};
      reduce_scatter(processes, values.mutable_bytes(), DataType::kFloat, bounds);
      const std::vector<double> wanted = exact_sum(count, 100, DataType::kFloat), have = values.reals();
      for (std::size_t n = bounds[processes.rank()]; n < bounds[processes.rank() + 1]; ++n)
        if (std::abs(wanted[n] - have[n]) > 1e-5) throw Error(ErrorCode::kBadInput, "not the sum");
    });
}

TEST_CASE("names of strategies") {
  CHECK(all_reduce_from_name("ring").strategy == AllReduceStrategy::kRing);
  CHECK(all_reduce_from_name("hierarchical:4").node == 4);
  for (const char* wrong : {"", "rings", "ring:2", "hierarchical:", "hierarchical:0", "hierarchical:x", "hierarchical:2x"})
    CHECK_THROWS_AS(all_reduce_from_name(wrong), Error);
}

TEST_CASE("the longest chain of the model") {
  const auto chain = [](const char* name, std::size_t processes) {
    return longest_chain(all_reduce_from_name(name), processes, 1);
  };
  CHECK(chain("ring", 8).bytes == Approx(1.75));
  CHECK(chain("ring", 8).messages == 14);
  CHECK(chain("butterfly", 8).bytes == Approx(1.75));
  CHECK(chain("butterfly", 8).messages == 6);
  CHECK(chain("recursive-doubling", 8).bytes == 3);
  CHECK(chain("tree", 5).messages == 6);
  CHECK(chain("hierarchical:4", 8).messages == 6);
}

}  // namespace
}  // namespace rewright::distribution
