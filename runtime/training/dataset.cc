#include "runtime/training/dataset.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "graph/onnx.h"
#include "operators/error.h"

namespace rewright {

Dataset::Dataset(std::map<std::string, Tensor> columns) : columns_(std::move(columns)) {
  bool first = true;
  for (const auto& [name, column] : columns_) {
    if (column.sizes().empty()) throw Error(ErrorCode::kBadInput, "is one number, not a list of examples", name);
    if (std::exchange(first, false)) size_ = column.sizes()[0];
    if (column.sizes()[0] != size_)
      throw Error(ErrorCode::kBadInput,
                  "holds " + std::to_string(column.sizes()[0]) + " examples, others hold " + std::to_string(size_), name);
  }
  if (size_ == 0) throw Error(ErrorCode::kBadInput, "the data holds no examples");
}

Dataset Dataset::read(const std::filesystem::path& folder, std::span<const std::string> names) {
  std::map<std::string, Tensor> columns;
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos || name.starts_with('.'))
      throw Error(ErrorCode::kBadInput, "an input called '" + name + "' cannot have a file of that name", folder.string());
    columns.emplace(name, read_npy(folder / (name + ".npy")));
  }
  return Dataset(std::move(columns));
}

Tensor Dataset::rows(const std::string& name, std::span<const std::int64_t> which) const {
  const Tensor& from = column(name);
  Sizes sizes = from.sizes();
  const std::size_t width = size_ == 0 ? 0 : from.byte_count() / static_cast<std::size_t>(size_);
  sizes[0] = static_cast<std::int64_t>(which.size());
  Tensor result(from.type(), sizes);
  for (std::size_t n = 0; n < which.size() && width > 0; ++n)
    std::memcpy(result.mutable_bytes().data() + n * width, from.bytes().data() + static_cast<std::size_t>(which[n]) * width,
                width);
  return result;
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

}  // namespace rewright
