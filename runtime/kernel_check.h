// Compares what the steps of a plan compute with the reference, at some elements of each result: a wrong kernel is found on the
// sizes it runs on, however large they are. What all devices' checks share.
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
using InsteadOf = std::map<int, Instead>;  // by position among the planned graph's nodes: the same for each plan of a graph

// The source of kernels that are generated from denotations.
inline constexpr const char* kGeneratedCode = "generated code";

// A step whose result is wrong.
struct KernelFault {
  std::vector<int> nodes;  // of the planned graph; none: a change of layout
  bool generated = false;  // by generated code, not a kernel
  bool replaceable = false;
  std::string message;
};

// A step of a plan, as messages and tolerances need it.
struct CheckedStep {
  std::string node, operators;
  std::string source;   // whose kernel it is, with its version; or kGeneratedCode
  double rounding = 1;  // how many times the rounding of plain sums it may have
  double flops = 0;
  std::vector<int> nodes;  // of the planned graph
};

// A result of the step that has just run.
struct CheckedResult {
  ValueId value = kNoValue;
  std::unique_ptr<StoredElements> elements;
  bool copy = false;  // of the value in another layout
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();  // stored within these
};

// Maps row-major places of a tensor [images, channels, spatial...] to those with channels last, pixels `pixel_stride` elements
// apart (0: as many as there are channels).
std::function<std::int64_t(std::int64_t)> channels_last_places(const Sizes& sizes, std::int64_t pixel_stride = 0);

// Made for one run of a plan.
class KernelComparison {
 public:
  // The elements of a value, if they are in memory now; else null.
  using Load = std::function<std::unique_ptr<StoredElements>(ValueId)>;
  // `extent.elements` of each result, as far as `extent.seconds` are enough for all of them together. The graph has to stay.
  KernelComparison(const Graph& graph, const CheckExtent& extent, std::uint64_t seed, Load load);

  // Once for each step that has results, in the order in which they run; `steps_left` of the plan, this one among them.
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
  // Of the step that is being checked.
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

// Runs plans of a graph until no kernel is wrong that something else can take the place of: `instead` gets what does, and
// `warnings` a line for each, once. `run` executes a plan with what stands in `instead`, with this seed for the elements.
std::vector<Tensor> run_until_right(const std::function<ObservedRun(std::uint64_t seed)>& run, InsteadOf& instead,
                                    CheckedKernels& checked, std::vector<std::string>& warnings);

}  // namespace rewright::runtime
