// Do two graphs compute the same? Both are executed on random inputs and compared.
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

// By the interpreter. Refuses graphs with more arithmetic operations than this, and ends after so many seconds, and at this
// time, between nodes and in loops.
CheckExecutor reference_executor(double most_operations = 3e8, double most_seconds = 20,
                                 std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max());

// Looks whether what was computed for a graph is what the reference says, in some of the elements or in all. One line that says
// what is wrong; empty if nothing is, or if it cannot tell.
using ReferenceCheck =
    std::function<std::string(const Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> outputs)>;

// All elements of graphs that the interpreter is done with in a fraction of a second; of larger ones it cannot tell, nor of any
// for which the time ends before.
ReferenceCheck small_reference_check(double most_operations = 5e6,
                                     std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max());

// Largest relative error that is accepted for an element type: rounding differs between equivalent graphs.
double tolerated_relative_error(DataType type);

struct ResultComparison {
  enum class Verdict { kSame, kDiffers, kNotRun };
  Verdict verdict = Verdict::kNotRun;
  int runs = 0;
  double max_abs_error = 0;
  double max_rel_error = 0;  // of an output: largest difference / largest magnitude of the output
  std::string executor;      // which of them ran it
  std::string note;          // kNotRun: why; kDiffers: how, where that is not a number; kSame: what else was seen
  // kNotRun: inputs for which nothing says what integers the model accepts, where it accepted none of those that were drawn.
  std::vector<std::string> not_drawn{};
};

// Compares graphs with a given one, whose results are computed once. All sizes of the graphs are known.
class ResultCheck {
 public:
  // On the inputs of `runs` seeds, by the first of the executors that can execute the given graph: on the inputs that are
  // usual, or else on others (Draw). Throws Error(kMissing, kCancelled) of the first executor alone.
  ResultCheck(Graph given, std::vector<CheckExecutor> executors, std::uint64_t seed, int runs, ReferenceCheck reference = {});

  // Executes the given graph, if that was not done yet. False if nothing can.
  bool prepare();
  ResultComparison compare(const Graph& other);

 private:
  struct Run {
    std::vector<Tensor> inputs, expected;
    std::vector<bool> varies;      // per output: it is drawn at random
    std::vector<Tensor> shaken{};  // results for slightly changed inputs, computed when they are needed
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
  std::string reason_;  // why nothing could be run
  std::vector<std::string> not_drawn_;
};

}  // namespace rewright::optimizer
