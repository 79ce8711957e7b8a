// A plan: the steps that execute a graph of known sizes, and the memory of each value.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/base/isa.h"
#include "runtime/cpu/base/layout.h"
#include "runtime/cpu/planning/kernel.h"
#include "runtime/cpu/planning/plan_cache.h"
#include "runtime/kernel_check.h"

namespace rewright::cpu {

struct LoopProblem;
class MeasuredChoices;
class PreparedConstants;
struct Recognitions;
enum class ConvolutionMethod;

struct PlanOptions {
  int threads = 1;
  Isa isa = Isa::kBaseline;
  bool fold_constants = true;
  bool transformed_convolutions = true;                   // Winograd's and Fourier's methods: see SessionOptions
  double piece_nanoseconds = Workers::kPieceNanoseconds;  // see Workers
  PlanCache* cache = nullptr;                             // used until the plan is made; may be null
  // Packed weights and folded constants shared by all plans of a graph; null: by none.
  std::shared_ptr<PreparedConstants> constants = {};
  std::shared_ptr<Recognitions> recognitions = {};  // likewise
  bool counts_operations = true;                    // for profiles
  // Chooses among equivalent kernels by measured times; null: by estimate. Only used while planning.
  MeasuredChoices* choices = nullptr;
  bool searches_loops = false;  // and searches loops of generated code that no choices are known for
  // Filled with the groups of expressions that are planned (planning/loop_choices.h); null: not asked for.
  std::vector<LoopProblem>* loop_problems = nullptr;
  std::optional<ConvolutionMethod> convolution = {};  // for all convolutions that support it: for timing it
  bool open_sizes = false;  // there are plans for other sizes: prefers kernels whose packed weights serve them all
  // By value: does it differ between the plans for several sizes (OpenGraph::open_values)? Null: not known. Only used while
  // planning.
  const std::vector<bool>* open_values = nullptr;
  const Graph* open_graph = nullptr;           // with open sizes, whose numbers are planned for; null: not known. Likewise
  std::vector<Replacement> replacements = {};  // see SessionOptions
  // For checking kernels (runtime/kernel_check.h): records where values are stored, and keeps them to the end unless that needs
  // too much memory.
  bool checked = false;
  InsteadOf instead = {};  // replacements of kernels that failed their check
};

// A piece of memory that holds one or more values.
struct Storage {
  enum class Kind { kArena, kInput, kConstant, kOutput };
  Kind kind = Kind::kArena;
  std::size_t bytes = 0;
  int number = -1;    // of the input or output
  int replaces = -1;  // of an output: the input whose memory it reuses
  Tensor constant;    // kConstant; keeps its bytes alive
  const std::byte* fixed = nullptr;
  std::shared_ptr<const void> owner;
  int part_of = -1;           // another storage that this one is a part of ...
  std::size_t part_at = 0;    // ... from this byte on
  int first = -1, last = -1;  // of an arena storage that is not a part of another
  std::size_t offset = 0;
};

struct Step {
  std::string node, operators;
  std::unique_ptr<Kernel> kernel;
  std::vector<int> inputs, outputs;  // storages
  std::vector<int> read_in_place;    // inputs whose element n is only read for the output's element n
  int scratch = -1;
  double flops = 0, bytes = 0;
  bool changes_layout = false;  // only converts a layout
  std::vector<int> nodes;       // of the planned graph, computed here; only in a plan to be checked
};

// The storage of a value after the last step that writes it, in a plan to be checked.
struct PlannedValue {
  ValueId value = kNoValue;
  int storage = -1;
  Layout layout;
  bool copy = false;              // in another layout than it was computed in
  std::int64_t pixel_stride = 0;  // in elements, if it is stored among the channels of another value; otherwise 0
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();  // stored within these
};

struct Plan {
  PlanOptions options;
  std::vector<Storage> storages;
  std::vector<Step> steps;
  std::vector<int> outputs;  // storage of each output of the graph
  std::vector<TensorType> output_types;
  std::vector<bool> caches;  // by output: is it a cache, whose length (axis 2) may be another one in a call?
  std::size_t arena_bytes = 0;
  std::size_t folded_bytes = 0;  // of constants in memory that were computed when the plan was made: they may depend on sizes
  std::optional<Graph> graph;    // after all passes; only in a plan to be checked ...
  std::vector<PlannedValue> values;  // ... and its values
};

// Plans a graph of known sizes. Throws Error(kUnsupported) at a node that cannot be executed. Constants of a graph that is
// moved in are freed once packed.
//
//   PlanRunner runner(make_plan(std::move(graph), options));  // runtime/cpu/running/runner.h
//   std::vector<Tensor> outputs = runner.run(inputs);
Plan make_plan(Graph graph, const PlanOptions& options);

}  // namespace rewright::cpu
