// Sessions with tensors that stay in a device's memory between runs, such as weights in training.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/device_tensor.h"
#include "runtime/session.h"

namespace rewright::runtime {

// The resident inputs and outputs of a session, by number; nullopt: copied from or to the host. An output in an input's memory
// replaces it.
struct Residence {
  std::vector<std::optional<DeviceTensor>> inputs, outputs;
  // Groups of resident outputs, in the order in which they are wanted. `announce` is called for each group once the work that
  // computes and reads it is in the device's stream. It must not use the session, nor the device's memory through this backend.
  std::vector<std::vector<std::size_t>> groups = {};
  std::function<void(std::size_t group)> announce = {};
};

// A backend with such sessions.
class ResidentBackend {
 public:
  virtual ~ResidentBackend() = default;
  virtual const MemoryOfDevice& memory() const = 0;
  // A session for a graph of known sizes. run() takes an empty tensor for each resident input and returns one for each resident
  // output. Preparing overwrites resident tensors, so write them afterwards. Throws Error(kBadInput) if one does not fit the
  // graph.
  virtual std::unique_ptr<Session> prepare_resident(const Graph& graph, const SessionOptions& options,
                                                    const Residence& residence) const = 0;
  // The stream that work is started in, as a cudaStream_t.
  virtual void* stream() const = 0;
};

}  // namespace rewright::runtime
