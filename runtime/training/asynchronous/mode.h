// The ways in which processes or threads of a run work on the same weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace rewright::training {

enum class Mode {
  kSynchronous,      // every step is one gradient of all processes (steps/trainer.h)
  kHogwild,          // threads on shared weights without locks (Niu et al., NeurIPS 2011)
  kDownpour,         // gradients to parameter servers, as each worker has them (Dean et al., NIPS 2012)
  kSandblaster,      // L-BFGS whose vectors lie in shards on servers (Dean et al., NIPS 2012)
  kAdamDifferences,  // changes of weights to parameter servers (Chilimbi et al., OSDI 2014)
  kElastic,          // workers' own weights, held to a common center (Zhang et al., NIPS 2015)
};

struct AsynchronousOptions {
  Mode mode = Mode::kSynchronous;
  std::size_t servers = 1;  // processes that hold the weights, each a shard of them; the others compute
  // The most updates that a gradient may miss: those applied between the read of its weights and its own. Who would make
  // another's miss more waits, as in stale synchronous parallel (Ho et al., NIPS 2013). Empty: any number, and nobody waits.
  std::optional<std::int64_t> max_staleness = {};
  // A worker's steps from one read of the weights to the next, and from one message to the servers to the next.
  std::int64_t fetch = 1, push = 1;
};

}  // namespace rewright::training
