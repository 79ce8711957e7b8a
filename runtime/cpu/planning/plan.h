// A plan: the steps that execute a graph of known sizes, and where every value lies in memory.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/base/isa.h"
#include "runtime/cpu/planning/kernel.h"
#include "runtime/cpu/planning/plan_cache.h"
#include "runtime/kernel_check.h"

namespace rewright::cpu {

class MeasuredChoices;
enum class ConvolutionMethod;

struct PlanOptions {
  int threads = 1;
  Isa isa = Isa::kBaseline;
  bool fold_constants = true;
  bool transformed_convolutions = true;
  double piece_nanoseconds = Workers::kPieceNanoseconds;  // see Workers
  PlanCache* cache = nullptr;                             // may be used until the plan is made
  // How kernels are chosen among those that compute the same; null: by estimate. May be used until the plan is made.
  MeasuredChoices* choices = nullptr;
  std::optional<ConvolutionMethod> convolution = {};  // of all convolutions that have it: to time it
  std::vector<Replacement> replacements = {};         // see SessionOptions
  // The plan is made to be checked: all values stay in memory, as far as that is bounded, and it says where they lie.
  bool checked = false;
  InsteadOf instead = {};
};

// Bytes that one or more values lie in.
struct Storage {
  enum class Kind { kArena, kInput, kConstant, kOutput };
  Kind kind = Kind::kArena;
  std::size_t bytes = 0;
  int number = -1;    // of the input or output
  int replaces = -1;  // of an output: the input whose memory it lies in
  Tensor constant;    // kConstant; keeps its bytes alive
  const std::byte* fixed = nullptr;
  std::shared_ptr<const void> owner;
  int part_of = -1;           // lies inside of another storage ...
  std::size_t part_at = 0;    // ... from here on
  int first = -1, last = -1;  // steps, of an arena storage that is part of no other
  std::size_t offset = 0;
};

struct Step {
  std::string node, operators;
  std::unique_ptr<Kernel> kernel;
  std::vector<int> inputs, outputs;  // storages
  std::vector<int> read_in_place;    // inputs of which each element is read only to compute the one that stands there
  int scratch = -1;
  double flops = 0, bytes = 0;
  bool changes_layout = false;  // between operators
  std::vector<int> nodes;       // what it computes, in a plan to be checked; of the planned graph
};

// Where a value lies once its last step has run, in a plan to be checked.
struct PlannedValue {
  ValueId value = kNoValue;
  int storage = -1;
  Layout layout;
  bool copy = false;              // in another layout than the one it was computed in
  std::int64_t pixel_stride = 0;  // in elements, where it lies among the channels of another; 0: by itself
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();  // stored within these
};

struct Plan {
  PlanOptions options;
  std::vector<Storage> storages;
  std::vector<Step> steps;
  std::vector<int> outputs;  // storage of each output of the graph
  std::vector<TensorType> output_types;
  std::size_t arena_bytes = 0;
  std::optional<Graph> graph;        // as it was planned, where the plan is to be checked ...
  std::vector<PlannedValue> values;  // ... and its values
};

// Plans a graph whose sizes are all known. Throws Error(kUnsupported) at a node that cannot be executed. Constants of a graph
// that is moved here are given back as soon as they are packed.
Plan make_plan(Graph graph, const PlanOptions& options);

// Assigns offsets in the arena to storages whose lifetimes are known.
void assign_memory(Plan& plan);

// Tensors of the values that depend on constants alone and are needed by others (by number; empty elsewhere, and for those that
// `left_out` says, if it says anything).
std::vector<Tensor> evaluate_constants(const Graph& graph, const PlanOptions& options, const std::vector<bool>& left_out = {});

}  // namespace rewright::cpu
