#include "runtime/training/data/batches.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <random>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "runtime/training/data/data_files.h"

namespace rewright::training {
namespace {

// Example n is the number n.
Dataset numbers(std::int64_t size) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), 0);
  const Tensor x = Tensor::from_integers(DataType::kInt64, {size}, values);
  return Dataset(std::map<std::string, Tensor>{{"x", x}, {"targets", x}});
}

std::vector<std::int64_t> examples(const Batch& batch) {
  std::vector<std::int64_t> result;
  for (const auto& shard : batch.shards) {
    const std::vector<std::int64_t> values = shard.at(0).integers();
    CHECK(shard.at(1).integers() == values);
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

TEST_CASE("processes take the batches apart, and a pass sees each example once") {
  std::mt19937 random(1);
  for (int n = 0; n < 40; ++n) {
    const std::int64_t count = 1 + random() % 3, each = 1 + random() % 3, rows = 1 + random() % 4;
    const std::int64_t batch = count * each * rows, size = batch * (1 + random() % 5) + random() % batch, passes = 2;
    const Dataset data = numbers(size);
    const std::int64_t in_pass = size / batch, steps = in_pass * passes;
    std::vector<std::vector<std::int64_t>> whole(static_cast<std::size_t>(steps));
    for (std::int64_t process = 0; process < count; ++process) {
      Batches batches(data, {"x", "targets"}, {batch, rows, process * each, each}, 5, steps);
      for (std::int64_t step = 0; step < steps; ++step) {
        const std::vector<std::int64_t> mine = examples(batches.take(step));
        CHECK(mine.size() == static_cast<std::size_t>(each * rows));
        whole[static_cast<std::size_t>(step)].insert(whole[static_cast<std::size_t>(step)].end(), mine.begin(), mine.end());
      }
    }
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::vector<std::int64_t> order = shuffled(size, 5, step / in_pass);
      const auto from = order.begin() + step % in_pass * batch;
      CHECK(whole[static_cast<std::size_t>(step)] == std::vector<std::int64_t>(from, from + batch));
    }
  }
}

TEST_CASE("steps may be asked for in any order") {
  const Dataset data = numbers(64);
  std::mt19937 random(2);
  Batches batches(data, {"x", "targets"}, {4, 2, 0, 2}, 9, 48);
  for (int n = 0; n < 300; ++n) {
    const std::int64_t step = random() % 48;
    const std::vector<std::int64_t> order = shuffled(64, 9, step / 16);
    const auto from = order.begin() + step % 16 * 4;
    CHECK(examples(batches.take(step)) == std::vector<std::int64_t>(from, from + 4));
  }
}

class Failing final : public Column {
 public:
  std::int64_t size() const override { return 8; }
  Tensor rows(std::span<const std::int64_t> which) const override {
    if (++calls_ > 2) throw Error(ErrorCode::kBadInput, "cannot be read", place(which[0]));
    return {DataType::kFloat, {static_cast<std::int64_t>(which.size())}};
  }
  std::string place(std::int64_t) const override { return "the file"; }

 private:
  mutable std::atomic<int> calls_ = 0;
};

TEST_CASE("what reading throws reaches the one who asks for the batch") {
  const Dataset data(Dataset::Columns{{"x", std::make_shared<Failing>()}});
  Batches batches(data, {"x"}, {2, 2, 0, 1}, 1, 4);
  CHECK_NOTHROW(batches.take(0));
  CHECK_NOTHROW(batches.take(1));
  CHECK_THROWS_WITH(batches.take(2), "the file: cannot be read");
  CHECK_THROWS_WITH(batches.take(2), "the file: cannot be read");
}

TEST_CASE("numbers that are not finite are named") {
  for (const DataType type : {DataType::kFloat, DataType::kHalf}) {
    std::vector<double> values(30, 1.0);
    const Dataset good(std::map<std::string, Tensor>{{"x", Tensor::from_reals(type, {10, 3}, values)}});
    Batches clean(good, {"x"}, {10, 10, 0, 1}, 1, 1);
    CHECK(clean.take(0).complaint.empty());
    for (const double number : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      values[3 * 7 + 2] = number;
      const Dataset data(std::map<std::string, Tensor>{{"x", Tensor::from_reals(type, {10, 3}, values)}});
      Batches batches(data, {"x"}, {10, 5, 0, 2}, 1, 1);
      CHECK(batches.take(0).complaint == "x: example 7: holds a number that is not finite");
    }
  }
}

TEST_CASE("a folder of .npy files is read by the names of inputs") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "data");
  const Tensor x = Tensor::from_reals(DataType::kFloat, {3, 1}, std::vector<double>{1, 2, 3});
  const Tensor classes = Tensor::from_integers(DataType::kInt64, {3}, std::vector<std::int64_t>{0, 1, 0});
  write_npy(x, folder / "data/x.npy");
  WantedData wanted{{{"x", {DataType::kFloat, {Index::symbol("N"), 1}}}}, {DataType::kInt64, {Index::symbol("N")}}};
  CHECK_THROWS_WITH(read_dataset(folder / "data", wanted), Catch::Contains("targets.npy"));
  write_npy(classes, folder / "data/targets.npy");
  const Dataset data = read_dataset(folder / "data", wanted);
  CHECK(data.size() == 3);
  const std::vector<std::int64_t> which{2, 0};
  CHECK(data.rows("x", which).reals() == std::vector<double>{3, 1});
  wanted.inputs[0].first = "../x";
  CHECK_THROWS_WITH(read_dataset(folder / "data", wanted), Catch::Contains("cannot have a file"));
}

}  // namespace
}  // namespace rewright::training
