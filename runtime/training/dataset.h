// Examples to train on: tensors whose first axis counts them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "operators/tensor.h"

namespace rewright {

class Dataset {
 public:
  // All with the same number of examples. Throws Error(kBadInput) otherwise, or if there are none.
  explicit Dataset(std::map<std::string, Tensor> columns);
  // A folder with NAME.npy for each of `names`. The files are mapped, not read.
  static Dataset read(const std::filesystem::path& folder, std::span<const std::string> names);

  std::int64_t size() const { return size_; }
  const Tensor& column(const std::string& name) const { return columns_.at(name); }
  // These examples of a column, one after the other.
  Tensor rows(const std::string& name, std::span<const std::int64_t> which) const;

 private:
  std::map<std::string, Tensor> columns_;
  std::int64_t size_ = 0;
};

// The numbers from 0 to size - 1 in the order of one pass over the data: the same on every machine and for any number of
// processes.
std::vector<std::int64_t> shuffled(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

}  // namespace rewright
