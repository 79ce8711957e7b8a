// The stages of a model: which stage computes which node of a micro-batch's graph, and what stages send each other.
//
// Nodes of the forward pass are divided in their order. A node of the backward pass is computed in the highest stage whose
// weights' gradients need it, or higher, where the forward pass's values are that it reads; so gradients go from stage to stage
// downwards alone. Weights are at the first stage that reads them, and so are their states and update; another stage that reads
// them (tied weights) gets them at the beginning of a step, and sends its sum of gradients back at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plans/groups/group_graph.h"
#include "plans/pipelines/micro_batches.h"
#include "plans/pipelines/pipeline_schedule.h"

namespace rewright::plans {

enum class SendTime : std::uint8_t {
  kBefore,    // once, before the micro-batches
  kForward,   // of each micro-batch, behind its forward pass
  kBackward,  // of each micro-batch, behind its backward pass
  kAfter,     // once, when sums are complete
};
std::string_view name(SendTime time);

struct StageSend {
  ValueId value = kNoValue;  // of the micro-batch's graph
  std::uint32_t from = 0, to = 0;
  SendTime time = SendTime::kForward;
  friend auto operator<=>(const StageSend&, const StageSend&) = default;
};

// A node of a micro-batch's graph, for messages.
std::string described_node(const Graph& graph, std::size_t n);

// A pipeline of a plan whose groups are micro-batches.
struct Pipeline {
  PipelineSchedule schedule;
  std::vector<std::uint32_t> nodes;  // the stage of each node of a micro-batch's graph, by position
  std::vector<std::uint32_t> given;  // that of weights and states, by value; of others without meaning
  std::vector<StageSend> sends;      // all of them, in order
};

// A place between the first node of the forward pass (0) and the last, for each node and given value: a division of these
// places into stages is one of all nodes.
struct Anchors {
  std::vector<std::uint32_t> nodes, given;  // by position, by value
  std::size_t places = 0;
};
Anchors anchors_of(const GroupGraph& group, const MicroBatchRoles& roles);

// The stage of each place: `first` are the places where stages begin, the first of them 0.
Pipeline with_stages(PipelineSchedule schedule, const GroupGraph& group, const MicroBatchRoles& roles, const Anchors& anchors,
                     const std::vector<std::size_t>& first);

// The messages between stages. Throws Error(kBadInput) in one line if a stage needs something that another one makes
// later than that.
std::vector<StageSend> sends_of(const GroupGraph& group, const MicroBatchRoles& roles, const std::vector<std::uint32_t>& nodes,
                                const std::vector<std::uint32_t>& given);

// Why a pipeline does not compute what one process computes of micro-batches; empty if it does, but for stale weights that its
// schedule may read (why_asynchronous). `group`: proved.
std::string fault_of_pipeline(const Pipeline& pipeline, const GroupGraph& group, const MicroBatchRoles& roles,
                              std::size_t micro_batches);

// The division into stages minimizes the longest of the stages' times and of the messages between them, then the bytes sent, by
// dynamic programming over the places.
struct StageCosts {
  std::vector<double> seconds;                        // of a micro-batch in each place, all passes
  std::vector<double> crossing;                       // bytes of a micro-batch between a place and the one before it
  std::vector<double> given_bytes, activation_bytes;  // by place: held all the time, and for each micro-batch that is held
  double latency = 0, seconds_per_byte = 0;           // of a message
  std::vector<double> memory;                         // of each stage
  std::vector<double> held;                           // micro-batches whose activations each stage holds
};
// Where stages begin; empty if there are fewer places than stages, or nothing fits. `slack`: the longest time may be so much
// longer (0.05: a twentieth) where less is sent then.
std::vector<std::size_t> divide_into_stages(const StageCosts& costs, std::size_t stages, double slack);

}  // namespace rewright::plans
