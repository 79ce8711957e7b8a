// The letters between workers and servers. Process 0 is a server and the coordinator, which hands out the steps.
#pragma once

#include <cstdint>

namespace rewright::training {

enum LetterKind : std::uint32_t {
  // From a worker to the coordinator: a step that it has computed, and the bits of its loss.
  kLoss,
  // From a worker to the coordinator: whether it has something to send or a read to give up before it can wait. The answer: a
  // step, or kSendFirst.
  kNextStep,
  // From a worker to a server: does it still have something to send of its last read? The answer: the shard of the weights, as
  // soon as the bound of staleness allows.
  kFetch,
  kWeights,
  // From a worker to a server: whether its read goes on, whether it wants an answer, and the steps that this is the result of;
  // then gradients, changes or weights of the shard. The answer: may the read go on, and how far elastic weights move.
  kPush,
  kApplied,
  kGiveUpRead,  // from a worker to a server: it will not push for its read
  kFailed,      // from a worker to the coordinator: an error's code and text
  kEnd,         // from the coordinator, to all: nothing more is needed; from a server, the answer: its shard and counts
  // For Sandblaster, from the coordinator to a worker, an evaluation and a part of the batch; from the worker to a server the
  // gradient, which is acknowledged, then to the coordinator the loss. From the coordinator to a server: an operation on its
  // shards of vectors; the answer: a number.
  kPart,
  kPartGradient,
  kPartAdded,
  kPartDone,
  kOperate,
  kOperated,
};

// In place of a step's number: send what there is, then ask again.
constexpr std::int64_t kSendFirst = -2;

}  // namespace rewright::training
