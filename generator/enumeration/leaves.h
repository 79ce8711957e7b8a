// The tensors that the graphs of a configuration begin with.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "operators/operator.h"

namespace rewright::generator {

// A tensor that graphs begin with: a variable, or a constant (then `op` makes it).
struct Leaf {
  std::string name;
  TensorType type;      // sizes are symbols
  int group = -1;       // variables of one group may be exchanged for each other: they have equal types and roles
  bool weight = false;  // it is no data: operators that tell the two apart do not take it for such
  const Operator* op = nullptr;
  Attributes attributes{};
  std::int64_t divisor = 1;  // of a constant: what its elements are divided by
  bool parameter = false;    // it stands only where a choice has it for a parameter
  bool constant() const { return op != nullptr; }
};

struct KernelSize {
  std::int64_t height, width;
  friend auto operator<=>(const KernelSize&, const KernelSize&) = default;
};

// Adds leaves as the operators of a configuration need them: first all operators note what they need, then add_needed().
class Leaves {
 public:
  // The leaves that operators need.
  std::set<KernelSize> kernels, averages;  // of convolutions; of average pools
  std::set<std::int64_t> numbers;          // scalars beside 0 and 1
  bool matrices = false, biases = false;   // of products
  bool images = false, channel_biases = false, batch_norms = false;
  bool adds = false, multiplies = false;  // so that 0 and 1 are neutral
  bool other_channels = false;            // convolutions give K channels, not the C of their inputs
  std::size_t weight_variables = 3;       // of each kind, at most

  // The channels that convolutions give.
  Index output_channels() const { return Index::symbol(other_channels ? "K" : "C"); }

  // Positions of the parameters of batch normalization, which are added at once.
  struct BatchNormParameters {
    std::array<std::uint32_t, 4> own;  // scale, shift, mean and variance
    std::uint32_t zeros;
  };
  BatchNormParameters add_batch_norm();
  void add_needed();
  std::vector<Leaf> take() { return std::move(leaves_); }

 private:
  void add_variables(const std::string& name, std::size_t count, const Indices& shape, bool weight);
  void add_constant(const std::string& name, const std::string& op, Attributes attributes, bool weight);

  std::vector<Leaf> leaves_;
  int groups_ = 0;
};

}  // namespace rewright::generator
