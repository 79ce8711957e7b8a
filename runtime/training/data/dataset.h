// Training examples: columns whose first axis counts examples.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "expressions/tensor.h"
#include "operators/operator.h"

namespace rewright::training {

// One input of the model, or the targets. Const functions are thread-safe.
class Column {
 public:
  virtual ~Column() = default;
  virtual std::int64_t size() const = 0;  // examples
  // These examples, concatenated. Throws Error(kBadInput) for a file that cannot be read.
  virtual Tensor rows(std::span<const std::int64_t> which) const = 0;
  // Where an example was read, for messages: "data.csv:17".
  virtual std::string place(std::int64_t example) const = 0;
  virtual const Tensor* tensor() const { return nullptr; }  // all examples if they are in memory (targets always are)
};

// Examples in memory or in a mapped file. Throws Error(kBadInput) if the tensor has no axis of examples. Without `place`,
// messages name examples by number.
std::shared_ptr<const Column> make_column(Tensor examples, std::string name,
                                          std::function<std::string(std::int64_t)> place = {});

class Dataset {
 public:
  using Columns = std::map<std::string, std::shared_ptr<const Column>>;
  // All columns must have the same number of examples. Throws Error(kBadInput) otherwise, or if there are none.
  explicit Dataset(Columns columns);
  explicit Dataset(const std::map<std::string, Tensor>& columns);

  std::int64_t size() const { return size_; }
  const Column& column(const std::string& name) const { return *columns_.at(name); }
  // These examples of a column, concatenated.
  Tensor rows(const std::string& name, std::span<const std::int64_t> which) const { return columns_.at(name)->rows(which); }
  // A tensor like one of `count` examples, with arbitrary elements.
  Tensor like_rows(const std::string& name, std::int64_t count) const;

 private:
  Columns columns_;
  std::int64_t size_ = 0;
};

// The data that a model needs, and how to get it from files of different kinds.
struct WantedData {
  std::vector<std::pair<std::string, TensorType>> inputs;  // sizes may be named; the first counts examples
  TensorType targets;
  std::string target_column = "target";  // in a CSV file
  std::vector<double> mean = {},
                      deviation = {};  // of images by channel, for numbers from 0 to 1: none, one, or one for each channel
};

// A permutation of 0 to size - 1: the order of one pass over the data. The same on every machine and for any number of
// processes.
std::vector<std::int64_t> shuffled(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

}  // namespace rewright::training
