// Operators that a convolution or product applies to its result before it is stored: oneDNN's post-operations, recognized in
// the denotations of following elementwise operators.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cpu/kernels/result_function.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/matching.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

// An elementwise function of oneDNN.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha = 0, beta = 0;
};

// Its form in loops over results (ProductLoops::apply); nullopt: none.
std::optional<RowFunction> row_function(const Eltwise& function);
// oneDNN's Softplus and Mish have an absolute error of 1e-7, which exceeds the result below -16.
bool only_in_loops_of_ours(const Eltwise& function);

// oneDNN's function that a chain applies to each element of its start, recognized at sample points.
std::optional<Eltwise> match_eltwise(const Planner& planner, const Chain& chain);

class Epilogue {
 public:
  using Accepts = bool (*)(const Eltwise&);
  // `accepts`: the kernel's functions; null: all.
  explicit Epilogue(std::size_t channel_axis, Accepts accepts = nullptr) : axis_(channel_axis), accepts_(accepts) {}

  // Adds a value that the node itself requires, before everything else.
  void begin_with_addition(ValueId value);
  // False if the chain is none of the above, or scaling would come after a function.
  bool absorb(const Planner& planner, const Chain& chain);

  // Applied to weights and bias; exact up to rounding. Null: none.
  const std::shared_ptr<const ChannelAffine>& affine() const { return affine_; }
  const std::vector<ValueId>& additions() const { return additions_; }
  // Without the addition of a value.
  Epilogue without(ValueId addition) const;
  // The other operations, in order.
  struct Operation {
    std::optional<Eltwise> eltwise;  // nullopt: the next addition
  };
  const std::vector<Operation>& operations() const { return operations_; }
  // `layouts`: of the addends, described for the result.
  dnnl::post_ops post_ops(const std::vector<dnnl::memory::desc>& additions) const;
  // Removes and returns the last function if one of our loops is faster or more precise than oneDNN's; it must be applied to
  // the stored result.
  ResultFunction take_last_function(Isa isa);
  // For our own kernels: at most one addition, then bounds, then one of our functions, in this order; otherwise nullopt.
  struct Simple {
    bool addition = false;
    float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
    ResultFunction function;
  };
  std::optional<Simple> simple(Isa isa) const;
  // The number of oneDNN's argument for each addition.
  std::vector<int> argument_numbers() const;

 private:
  std::size_t axis_;
  Accepts accepts_;
  std::shared_ptr<const ChannelAffine> affine_;  // shared by plans, so it is replaced, never changed
  std::vector<Operation> operations_;
  std::vector<ValueId> additions_;
};

}  // namespace rewright::cpu
