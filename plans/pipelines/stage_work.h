// Times and memory of a pipeline's stages, from the prices of the nodes of a micro-batch's graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plans/machines/machine.h"
#include "plans/partition/choices.h"
#include "plans/pipelines/stages.h"

namespace rewright::plans {

// When a stage computes a node: in a pass of a micro-batch, or once. Of the backward pass, kBackward is what other stages wait
// for, and kWeights the rest.
enum class StagePart : std::uint8_t { kBefore, kForward, kBackward, kWeights, kAfter };
constexpr std::size_t kStageParts = 5;
// By position of the node.
std::vector<StagePart> parts_of_stages(const Pipeline& pipeline, const Graph& graph, const MicroBatchRoles& roles);

// Seconds and bytes of one micro-batch in a stage, and of what is done or held once.
struct StageWork {
  double before = 0, after = 0;                        // seconds, once in a step
  double forward = 0, backward = 0, weights = 0;       // seconds; the backward pass apart as gradients of inputs and of weights
  double given_bytes = 0, read_bytes = 0;              // weights and states; those of them that have versions
  double data_bytes = 0;                               // of a micro-batch: inputs and targets that the stage reads
  double sum_bytes = 0;                                // of gradients, added up over the micro-batches
  double held_for_backward = 0, held_for_weights = 0;  // activations, until the gradients of inputs, or of weights, are there
  double gradient_bytes = 0;                           // made for the inputs' gradients, and read for those of weights
  double forward_peak = 0, backward_peak = 0, weights_peak = 0, after_peak = 0;  // beside all these
  double received_bytes = 0;                                                     // for the forward pass
};

// `pipeline.schedule` may have other actions, and is read for its number of stages alone. Times are those of `seconds`, and
// sums of gradients take those of the machine.
std::vector<StageWork> stage_work(const Machine& machine, const Pipeline& pipeline, const GroupGraph& group,
                                  const MicroBatchRoles& roles, const OperatorSeconds& seconds);

// For divide_into_stages: all but what depends on the schedule (memory and held).
StageCosts place_costs(const Machine& machine, const GroupGraph& group, const MicroBatchRoles& roles, const Anchors& anchors,
                       const OperatorSeconds& seconds);

}  // namespace rewright::plans
