// Compares some elements of each step's result with the reference, so that wrong kernels are found at the sizes they run on,
// however large. Shared by the checks of all devices.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "graph/element_sampler.h"
#include "runtime/checked_kernels.h"

namespace rewright::runtime {

// The replacement for a node's kernel: code generated from its denotation, or the interpreter.
enum class Instead { kGenerated, kReference };
using InsteadOf = std::map<int, Instead>;  // by position in the planned graph's nodes; equal for all plans of a graph

// The source of kernels generated from denotations.
inline constexpr const char* kGeneratedCode = "generated code";

// A step whose result is wrong.
struct KernelFault {
  std::vector<int> nodes;  // of the planned graph; empty: a layout conversion
  bool generated = false;  // computed by generated code, not by a kernel
  bool replaceable = false;
  std::string message;
};

// A step of a plan, as needed for messages and tolerances.
struct CheckedStep {
  std::string node, operators;
  std::string source;   // the library with its version, or kGeneratedCode
  double rounding = 1;  // rounding error relative to plain sums
  double flops = 0;
  std::vector<int> nodes;  // of the planned graph
};

// A result of the step that just ran.
struct CheckedResult {
  ValueId value = kNoValue;
  std::unique_ptr<StoredElements> elements;
  bool copy = false;  // another layout of the value
  // The stored value is clamped to these bounds.
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

// Maps row-major places of a tensor [images, channels, spatial...] to channels-last places, with pixels `pixel_stride` elements
// apart (0: the number of channels).
std::function<std::int64_t(std::int64_t)> channels_last_places(const Sizes& sizes, std::int64_t pixel_stride = 0);

// For one run of a plan.
class KernelComparison {
 public:
  // The elements of a value if they are in memory now, else null.
  using Load = std::function<std::unique_ptr<StoredElements>(ValueId)>;
  // Checks `extent.elements` of each result, within `extent.seconds` in total. The graph must outlive this object.
  KernelComparison(const Graph& graph, const CheckExtent& extent, std::uint64_t seed, Load load);

  // Called after each step with results, in execution order. `steps_left`: steps of the plan from this one on.
  void after(const CheckedStep& step, std::span<const CheckedResult> results, std::size_t steps_left);

  const std::vector<KernelFault>& faults() const { return faults_; }
  const CheckedKernels& counts() const { return counts_; }

 private:
  const StoredElements* find(ValueId value);
  std::vector<std::int64_t> positions(std::int64_t count);
  bool check(const CheckedResult& result, const CheckedStep& step, double deadline);
  std::string message(const CheckedResult& result, const CheckedStep& step, std::int64_t at, const std::string& found,
                      const std::string& expected) const;
  std::string sizes_of(ValueId value) const;

  const Graph& graph_;
  CheckExtent extent_;
  std::mt19937_64 random_;
  Load load_;
  ElementSampler sampler_;
  // Elements that the step being checked has found.
  std::vector<std::unique_ptr<StoredElements>> found_;  // by value
  std::vector<ValueId> looked_up_;
  double spent_ = 0;
  std::vector<KernelFault> faults_;
  CheckedKernels counts_;
};

// One run of a plan with its check.
struct ObservedRun {
  std::vector<Tensor> outputs;
  std::vector<KernelFault> faults;
  CheckedKernels counts;
};

// Runs plans of a graph until no wrong kernel can be replaced. Adds replacements to `instead` and one line for each to
// `warnings`. `run` executes a plan with the replacements in `instead`; its seed selects the compared elements.
std::vector<Tensor> run_until_right(const std::function<ObservedRun(std::uint64_t seed)>& run, InsteadOf& instead,
                                    CheckedKernels& checked, std::vector<std::string>& warnings);

}  // namespace rewright::runtime
