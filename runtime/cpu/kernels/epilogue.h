// Operators that a convolution or product applies to its result before it is stored: oneDNN's post-operations, found in the
// denotations of the elementwise operators behind it.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "runtime/cpu/loops/rows.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/matching.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

// An elementwise function of oneDNN.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha = 0, beta = 0;
};

// oneDNN's Softplus and Mish are off by 1e-7 however small the result is, which is all of it below -16.
bool only_in_loops_of_ours(const Eltwise& function);

// The function of oneDNN that a chain applies to each element of its start, where it stands; compared at sample points.
std::optional<Eltwise> match_eltwise(const Planner& planner, const Chain& chain);

class Epilogue {
 public:
  using Accepts = bool (*)(const Eltwise&);
  // `accepts`: the functions that the kernel has; null: all.
  explicit Epilogue(std::size_t channel_axis, Accepts accepts = nullptr) : axis_(channel_axis), accepts_(accepts) {}

  // The addition of a value that the node itself asks for, before what follows it.
  void begin_with_addition(ValueId value);
  // False if the chain is none of the above, or scaling would come after a function.
  bool absorb(const Planner& planner, const Chain& chain);

  // To be applied to weights and bias: exact up to rounding. Empty: none.
  const std::optional<ChannelAffine>& affine() const { return affine_; }
  const std::vector<ValueId>& additions() const { return additions_; }
  // Without the addition of a value.
  Epilogue without(ValueId addition) const;
  // The rest, in the order in which it is done.
  struct Operation {
    std::optional<Eltwise> eltwise;  // nothing: the next addition
  };
  const std::vector<Operation>& operations() const { return operations_; }
  // `layouts` are those the operands of additions come in, as described for the result.
  dnnl::post_ops post_ops(const std::vector<dnnl::memory::desc>& additions) const;
  // The last function, where a loop of ours is faster or more precise than oneDNN's: to be applied to the stored result. It is
  // no post-operation from then on. Null: none.
  RowLoops::Unary take_last_function(Isa isa);
  // For kernels of our own: at most one addition, then bounds, then a function of ours, in this order. nullopt if it is
  // anything else.
  struct Simple {
    bool addition = false;
    float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
    RowLoops::Unary function = nullptr;
  };
  std::optional<Simple> simple(Isa isa) const;
  // The number of oneDNN's argument for each addition.
  std::vector<int> argument_numbers() const;

 private:
  std::size_t axis_;
  Accepts accepts_;
  std::optional<ChannelAffine> affine_;
  std::vector<Operation> operations_;
  std::vector<ValueId> additions_;
};

}  // namespace rewright::cpu
