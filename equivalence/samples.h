// Both models on the same random inputs: values that agree are candidates for equality, and outputs that differ refute it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "equivalence/checker/joint.h"
#include "equivalence/rounding.h"
#include "optimizer/checking/check.h"

namespace rewright::equivalence {

struct Counterexample {
  std::vector<Tensor> inputs;  // in the order of the first model's
  std::string output;          // of the first model, that differs
  double max_abs_error = 0, max_rel_error = 0;
};

class Samples {
 public:
  // `executors`: each is asked for what those before cannot execute. With `in_double` they compute in double whatever the
  // types are: values then agree to a millionth, and outputs differ by more than a change of all inputs and weights by a
  // rounding makes of them.
  Samples(const Graph& a, const Graph& b, const Joint& joint, std::vector<CheckExecutor> executors, bool in_double = false);

  // Runs both at these sizes. False if the first one cannot be executed there; `note()` says why.
  bool add(const std::map<std::string, std::int64_t>& sizes, std::uint64_t seed);
  const std::string& note() const { return note_; }
  std::size_t count() const { return values_.size(); }

  // Do two values agree, up to rounding, in all samples?
  bool agree(ValueId a, ValueId b) const;
  // The largest difference of elements and of sums, of the largest element and the sum of magnitudes.
  double distance(ValueId a, ValueId b) const;
  // May `b` be `a` with zeros behind the elements of an axis, `a` with the same elements in other sizes, or `a` with its
  // axes in another order, in all samples?
  bool agree_filled_up(ValueId a, ValueId b) const;
  bool agree_reshaped(ValueId a, ValueId b) const;
  // May `b` be `a` with the other sign, but not zero?
  bool agree_negated(ValueId a, ValueId b) const;
  // May `b` be `a` plus a number, as integers of another type?
  bool agree_shifted(ValueId a, ValueId b, int number) const;
  bool agree_transposed(ValueId a, ValueId b, const std::vector<std::size_t>& perm) const;
  // May both have the same elements in another order, but for zeros?
  bool agree_moved(ValueId a, ValueId b) const;
  bool has(ValueId id) const;
  bool is_zero(ValueId id) const;                       // in all samples
  std::optional<double> only_number(ValueId id) const;  // that all elements are in all samples
  // Equal for values that agree: of the type and sizes in the first sample.
  std::uint64_t key(ValueId id) const;
  // The largest difference of each output, in the order of the first model's, for random inputs within the ranges. Throws Error
  // if the models cannot be run.
  std::vector<double> differences(const std::map<std::string, std::int64_t>& sizes,
                                  const std::map<std::string, ValueRange>& ranges, std::uint64_t seed) const;

  // Inputs on which outputs differ by more than rounding.
  const std::optional<Counterexample>& counterexample() const { return counterexample_; }

 private:
  struct Summary {
    DataType type = DataType::kUndefined;
    Sizes sizes;
    double largest = 0, sum = 0, weighted = 0, magnitude = 0;
    std::vector<double> elements;  // some of them
    std::vector<double> by_axis;   // sums with weights that follow from the place on one axis
  };
  using Summaries = std::map<ValueId, Summary>;
  static Summary summary_of(const Tensor& tensor);
  bool agree(const Summary& a, const Summary& b) const;
  template <class Agrees>
  bool in_all_samples(ValueId a, ValueId b, const Agrees& agrees) const;
  struct Executed {
    std::vector<Tensor> outputs;
    Summaries values;
  };
  Executed execute(const Graph& graph, const std::vector<Tensor>& inputs, bool is_second) const;
  std::vector<Tensor> outputs_only(const Graph& graph, const std::vector<Tensor>& inputs) const;
  std::vector<Tensor> for_second(const std::vector<Tensor>& inputs) const;
  std::vector<Tensor> in_order_of_first(std::vector<Tensor> outputs) const;
  void compare(const std::vector<Tensor>& inputs, const Graph& sized, const std::vector<Tensor>& x,
               const std::vector<Tensor>& y);

  const Graph &a_, &b_;
  const Joint& joint_;
  std::vector<CheckExecutor> executors_;
  bool in_double_;
  std::vector<Summaries> values_;  // by sample
  std::optional<Counterexample> counterexample_;
  std::string note_;
};

}  // namespace rewright::equivalence
