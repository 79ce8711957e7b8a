// The runs of both models that prove() makes: in the models' own types, for candidates and counterexamples, and in double,
// where differences are seen that the rounding of float hides.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "equivalence/prove.h"
#include "optimizer/inputs/sizes.h"

namespace rewright::equivalence {

class SampleRuns {
 public:
  // `is_over`: no run is to begin if the proof has ended at this time.
  SampleRuns(const Graph& a, const Graph& b, const Joint& joint, const ProveOptions& options,
             std::function<bool(std::chrono::steady_clock::time_point)> is_over);

  // In the models' own types, until this time or the first counterexample. Afterwards there are candidates.
  void run(std::chrono::steady_clock::time_point end);
  void run_in_double();
  // For a short time only: in double convolutions have no kernels of their own, and may take a hundred times as long.
  void run_in_double_shortly();
  bool has_run_in_double() const { return precise_.has_value(); }

  const std::optional<Counterexample>& counterexample() const;
  // The runs in which a first difference is looked for: in double, where even a small one stands out, if those differ, too.
  const Samples& telling() const;
  // Do two graphs of the same inputs differ on random inputs, as the models did in telling()?
  bool differ(const Graph& x, const Graph& y) const;

  // Values of the first model that the value of the second one may equal: those with equal elements, the one of its name first.
  std::vector<ValueId> candidates(ValueId b) const;
  // Do no runs tell two values apart?
  bool may_be_equal(ValueId a, ValueId b) const { return !samples_.has(a) || !samples_.has(b) || samples_.agree(a, b); }
  // The value of the first model with the same name, else the value itself.
  ValueId namesake(ValueId b) const;

  // Sizes of the named axes for the runs, several times.
  std::vector<NamedSizes> sizes() const;
  const Samples& samples() const { return samples_; }

 private:
  std::vector<ValueId> nearest(std::vector<ValueId> found, ValueId b) const;
  bool is_filled_with_zeros(ValueId b) const;
  bool tells_in_double() const { return precise_ && precise_->count() > 0 && precise_->counterexample(); }

  const Graph &a_, &b_;
  const Joint& joint_;
  const ProveOptions& options_;
  std::function<bool(std::chrono::steady_clock::time_point)> is_over_;
  Samples samples_;
  std::optional<Samples> precise_;
  std::multimap<std::uint64_t, ValueId> by_key_;
  std::map<std::string, ValueId> by_name_;
};

}  // namespace rewright::equivalence
