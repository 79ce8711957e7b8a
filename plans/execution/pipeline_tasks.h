// Tasks of each process of a pipeline in a step, in order, with the messages behind each: the actions of the schedule, and a
// beginning and an end for each of the process's stages.
//
// Sender and receiver read the same lists, so that a message needs no name: messages between two processes are received in the
// order in which they were sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plans/pipelines/stage_work.h"
#include "plans/pipelines/stages.h"

namespace rewright::plans {

enum class TaskKind : std::uint8_t {
  kBefore,    // twice: weights are sent to other stages, and what is computed once, of the weights as they are at first
  kForward,   // of a micro-batch
  kBackward,  // of a micro-batch; with gradients together those of the weights, too
  kWeights,   // of a micro-batch
  kUpdate,    // when sums are complete; in inference what is computed of all micro-batches
  kEnd,       // once for each update, when the schedule is done: what needs the sums of other stages
};
constexpr std::size_t kTaskKinds = 6;

struct StageTask {
  TaskKind kind = TaskKind::kForward;
  std::uint32_t stage = 0;
  std::uint32_t number = 0;  // of the micro-batch, or of the update, in this step; kBefore: 0 and 1
  int version = 0;           // of the weights: updates since the beginning of this step; negative ones are older
};

struct StageMessage {
  std::uint32_t to = 0;                  // the process; the sender itself: another stage of its own gets it
  TaskKind reader = TaskKind::kForward;  // what waits for it, in `stage`
  std::uint32_t stage = 0, number = 0;
  ValueId value = kNoValue;       // of the micro-batch's graph
  bool is_share = false;          // of a sum (or of what is put together) that processes with the same stage have
  std::uint32_t micro_batch = 0;  // of a share that is put together
};

struct ProcessTasks {
  std::vector<StageTask> tasks;
  std::vector<std::vector<StageMessage>> sends;  // behind each task
};

// The kind of task of each node: kAfter is kUpdate or kEnd.
struct TaskFacts {
  std::vector<TaskKind> nodes;                 // by position
  std::vector<std::vector<std::size_t>> sums;  // by stage: nodes that add up, or put together, micro-batches
};
// Throws Error(kUnsupported) with the node's place where micro-batches cannot be computed one after another.
TaskFacts task_facts(const Pipeline& pipeline, const GroupGraph& group, const MicroBatchRoles& roles);

struct PipelineTasks {
  std::vector<std::vector<ProcessTasks>> steps;       // by step of the schedule, by process
  std::vector<std::vector<std::uint32_t>> processes;  // by stage, in ascending order
  std::size_t updates = 1;                            // of a step
};
// The tasks of a schedule without a fault. Throws Error(kUnsupported) if the updates of stages are for different micro-batches.
PipelineTasks pipeline_tasks(const Pipeline& pipeline, const GroupGraph& group, const TaskFacts& facts);

}  // namespace rewright::plans
