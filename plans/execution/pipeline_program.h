// A pipeline's plan as the program of one process: for each of its stages a graph for each kind of task, and what goes from one
// to the other. What executes it is runtime/planned/pipeline_run.h.
//
// A micro-batch's graph has values of five kinds: given ones, those computed once of them (in kBefore), those of a micro-batch
// (in its passes), those computed of all micro-batches, and parts of given ones that are a micro-batch's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plans/execution/pipeline_tasks.h"
#include "plans/plan.h"

namespace rewright::plans {

struct StagePiece {
  Graph graph;                           // without nodes: there is nothing to compute
  std::vector<ValueId> inputs, outputs;  // values of the micro-batch's graph, in the order of the graph's
};

// A value of all micro-batches: their sum, or their parts put together. Added in the order of the micro-batches.
struct StageSum {
  ValueId from = kNoValue, to = kNoValue;
  TaskKind made = TaskKind::kForward;  // behind which the addend is there
  bool is_added = true;                // false: put together
  Reduction reduction = Reduction::kSum;
  Sizes whole;
  TensorParts parts;  // of what is put together, by micro-batch
};

// A micro-batch's part of a value that all have.
struct StageSlice {
  ValueId from = kNoValue, to = kNoValue;
  TensorParts parts;
};

struct StageCode {
  std::array<StagePiece, kTaskKinds> pieces;
  std::array<std::vector<StageSlice>, kTaskKinds> slices;
  std::vector<StageSum> sums;
  // Values of a micro-batch, or of an update, that nothing reads behind such a task.
  std::array<std::vector<ValueId>, kTaskKinds> done;
};

enum class ValueKind : std::uint8_t { kGiven, kKept, kData, kVarying, kOnce, kMicroBatch, kAll };

struct PipelineValue {
  ValueKind kind = ValueKind::kGiven;
  std::string name;
  DataType type = DataType::kUndefined;
  Sizes sizes;            // of a micro-batch's graph
  std::size_t input = 0;  // of given ones: its number
  std::uint32_t stage = 0;
};

struct PipelineInput {
  ValueId value = kNoValue;
  Division division;                // into micro-batches; without rows all have it
  std::vector<std::uint32_t> used;  // processes that need it
  bool is_kept = false;             // the processes in `used` keep it from step to step
};

struct PipelineOutput {
  std::string name;
  ValueId value = kNoValue;
  std::uint32_t stage = 0;           // that has it in the end
  std::uint32_t process = 0;         // the first one with that stage
  std::optional<std::size_t> input;  // that it replaces
};

struct PipelineProgram {
  std::size_t rank = 0, micro_batches = 1;
  PipelineTasks tasks;
  std::map<std::uint32_t, StageCode> stages;       // this process's
  std::vector<PipelineValue> values;               // by value of the micro-batch's graph
  std::map<ValueId, std::vector<Tensor>> varying;  // constants that each micro-batch has other elements of
  std::vector<PipelineInput> inputs;
  std::vector<PipelineOutput> outputs;
};

// The program of process `rank` of a plan whose cuts, stages and messages are proved. Throws Error(kBadInput) for a plan of
// another graph, and Error(kUnsupported) with the node's place where it cannot be executed.
PipelineProgram pipeline_program(const Plan& plan, const Graph& graph,
                                 const std::vector<std::pair<std::size_t, ValueId>>& replaced, std::size_t rank);

}  // namespace rewright::plans
