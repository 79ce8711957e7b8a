// Do two graphs compute the same? Executes both on random inputs and compares the results.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/inputs/inputs.h"

namespace rewright::optimizer {

// Executes graphs for a comparison. Throws Error.
struct CheckExecutor {
  std::string name;  // "onnxruntime", "cpu", "reference"
  std::function<std::vector<Tensor>(const Graph& graph, std::span<const Tensor> inputs)> run;
};

// Executes with the interpreter. Refuses graphs with more operations than this. Ends after this many seconds, or at this time,
// between nodes and in loops.
CheckExecutor reference_executor(double most_operations = 3e8, double most_seconds = 20,
                                 std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max());

// Compares a graph's results with the reference, in some elements or in all. Returns one line about a difference; empty if
// there is none, or if it cannot decide.
using ReferenceCheck =
    std::function<std::string(const Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> outputs)>;

// Compares all elements, for graphs that the interpreter executes in a fraction of a second. For larger ones, or if time runs
// out, it cannot decide.
ReferenceCheck small_reference_check(double most_operations = 5e6,
                                     std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max());

// The largest accepted relative error for an element type, since equivalent graphs round differently.
double tolerated_relative_error(DataType type);

struct ResultComparison {
  enum class Verdict { kSame, kDiffers, kNotRun };
  Verdict verdict = Verdict::kNotRun;
  int runs = 0;
  double max_abs_error = 0;
  double max_rel_error = 0;  // of an output: largest difference / largest magnitude of the output
  std::string executor;      // the one that executed the graphs
  std::string note;          // kNotRun: why; kDiffers: how, if not by a number; kSame: other findings
  // kNotRun: integer inputs whose valid range is unknown, if the model accepted none of the drawn values.
  std::vector<std::string> not_drawn{};
};

// Compares graphs with a given one, whose results are computed once. All sizes must be known.
class ResultCheck {
 public:
  // Uses the inputs of `runs` seeds and the first executor that can execute the given graph: on usual inputs, or else on others
  // (Draw). Only the first executor's Error(kMissing, kCancelled) is thrown.
  ResultCheck(Graph given, std::vector<CheckExecutor> executors, std::uint64_t seed, int runs, ReferenceCheck reference = {});

  // Executes the given graph unless that was done. False if no executor can.
  bool prepare();
  ResultComparison compare(const Graph& other);

 private:
  struct Run {
    std::vector<Tensor> inputs, expected;
    std::vector<bool> varies;      // by output: is it random?
    std::vector<Tensor> shaken{};  // results for slightly changed inputs, computed on demand
  };
  std::optional<Run> prepare_run(const CheckExecutor& executor, std::uint64_t seed, bool first);
  bool same_output(Run& run, std::size_t output, const Tensor& found, ResultComparison& total);
  void look_at_reference(const Graph& other, const Run& run, const std::vector<Tensor>& found, ResultComparison& total);

  Graph given_;
  std::vector<CheckExecutor> executors_;
  std::uint64_t seed_;
  int runs_wanted_;
  ReferenceCheck reference_;
  const CheckExecutor* executor_ = nullptr;
  std::vector<Run> runs_;
  bool prepared_ = false;
  std::string reason_;  // why nothing could be executed
  std::vector<std::string> not_drawn_;
};

}  // namespace rewright::optimizer
