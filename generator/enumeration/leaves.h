// The tensors that graphs of a configuration start from.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "operators/operator.h"

namespace rewright::generator {

// A tensor that graphs start from: a variable, or a constant (then `op` makes it).
struct Leaf {
  std::string name;
  TensorType type;      // sizes are symbols
  int group = -1;       // variables of one group are interchangeable: they have equal types and roles
  bool weight = false;  // not data: operators that require data do not accept it
  const Operator* op = nullptr;
  Attributes attributes{};
  std::int64_t divisor = 1;  // for a constant: its elements are divided by this
  bool parameter = false;    // it only occurs as a parameter of a choice
  bool constant() const { return op != nullptr; }
};

struct KernelSize {
  std::int64_t height, width;
  friend auto operator<=>(const KernelSize&, const KernelSize&) = default;
};

// Adds the leaves that a configuration's operators need. First every operator notes its needs, then add_needed() is called.
class Leaves {
 public:
  // The leaves that operators need.
  std::set<KernelSize> kernels, averages;  // kernels of convolutions; of average pools
  std::set<KernelSize> transposed;         // kernels of transposed convolutions
  std::set<std::int64_t> numbers;          // scalars other than 0 and 1
  bool matrices = false, biases = false;   // of products
  bool images = false, channel_biases = false, batch_norms = false;
  bool adds = false, multiplies = false;  // then 0 and 1 are added as neutral elements
  bool other_channels = false;            // convolutions have K output channels instead of the C of their inputs
  std::size_t weight_variables = 3;       // the most of each kind
  bool one_even_image = false;            // images: one, of even sizes other than its channels
  bool grouped = false;                   // images, and results of convolutions, have the channels of 2 G groups
  std::vector<Indices> shapes;            // variables of these shapes instead of matrices
  std::size_t variables_of_shape = 3;     // how many of each of them

  // The number of output channels of convolutions.
  Index output_channels() const { return groups() * Index::symbol(other_channels ? "K" : "C"); }
  Index groups() const { return grouped ? Index::symbol("G") * 2 : Index(1); }

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
