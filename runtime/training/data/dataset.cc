#include "runtime/training/data/dataset.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace rewright::training {

namespace {

class TensorColumn final : public Column {
 public:
  TensorColumn(Tensor examples, std::string name, std::function<std::string(std::int64_t)> place)
      : examples_(std::move(examples)), name_(std::move(name)), place_(std::move(place)) {}
  std::int64_t size() const override { return examples_.sizes()[0]; }
  Tensor rows(std::span<const std::int64_t> which) const override {
    Sizes sizes = examples_.sizes();
    const std::size_t width = size() == 0 ? 0 : examples_.byte_count() / static_cast<std::size_t>(size());
    sizes[0] = static_cast<std::int64_t>(which.size());
    Tensor result(examples_.type(), sizes);
    for (std::size_t n = 0; n < which.size() && width > 0; ++n)
      std::memcpy(result.mutable_bytes().data() + n * width,
                  examples_.bytes().data() + static_cast<std::size_t>(which[n]) * width, width);
    return result;
  }
  std::string place(std::int64_t example) const override {
    return place_ ? place_(example) : name_ + ": example " + std::to_string(example);
  }
  const Tensor* tensor() const override { return &examples_; }

 private:
  Tensor examples_;
  std::string name_;
  std::function<std::string(std::int64_t)> place_;
};

Dataset::Columns in_memory(const std::map<std::string, Tensor>& tensors) {
  Dataset::Columns columns;
  for (const auto& [name, tensor] : tensors) columns.emplace(name, make_column(tensor, name));
  return columns;
}

}  // namespace

std::shared_ptr<const Column> make_column(Tensor examples, std::string name, std::function<std::string(std::int64_t)> place) {
  if (examples.sizes().empty()) throw Error(ErrorCode::kBadInput, "is one number, not a list of examples", name);
  return std::make_shared<TensorColumn>(std::move(examples), std::move(name), std::move(place));
}

Dataset::Dataset(Columns columns) : columns_(std::move(columns)) {
  bool first = true;
  for (const auto& [name, column] : columns_) {
    if (std::exchange(first, false)) size_ = column->size();
    if (column->size() != size_)
      throw Error(ErrorCode::kBadInput,
                  "holds " + std::to_string(column->size()) + " examples, others hold " + std::to_string(size_), name);
  }
  if (size_ == 0) throw Error(ErrorCode::kBadInput, "the data holds no examples");
}

Dataset::Dataset(const std::map<std::string, Tensor>& columns) : Dataset(in_memory(columns)) {}

Tensor Dataset::like_rows(const std::string& name, std::int64_t count) const {
  const std::int64_t first = 0;
  const Tensor one = rows(name, {&first, 1});
  Sizes sizes = one.sizes();
  sizes[0] = count;
  return {one.type(), std::move(sizes)};
}

namespace {

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: a number for each counter.
std::uint64_t mixed(std::uint64_t counter) {
  std::uint64_t z = counter + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<std::int64_t> shuffled(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const std::uint64_t key = mixed(mixed(seed) + static_cast<std::uint64_t>(epoch));
  for (std::size_t n = order.size(); n > 1; --n)  // Fisher and Yates; the remainder's bias is below size / 2^64
    std::swap(order[n - 1], order[mixed(key + n) % n]);
  return order;
}

}  // namespace rewright::training
