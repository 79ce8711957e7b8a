// Sessions that read and write tensors that stay in a device's memory from run to run, such as weights in training.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/device_tensor.h"
#include "runtime/session.h"

namespace rewright::runtime {

// The inputs and outputs of a session that stay on the device, by number; nullopt: it is copied from or to the host. An output
// in the memory of an input replaces it.
struct Residence {
  std::vector<std::optional<DeviceTensor>> inputs, outputs;
  // Groups of outputs that stay, in the order in which they are wanted. `announce` is called for each group as soon as the work
  // that computes and reads it is in the device's stream. It must not use the session, or the device's memory by this backend.
  std::vector<std::vector<std::size_t>> groups = {};
  std::function<void(std::size_t group)> announce = {};
};

// A backend with such sessions.
class ResidentBackend {
 public:
  virtual ~ResidentBackend() = default;
  virtual const MemoryOfDevice& memory() const = 0;
  // A session for a graph of known sizes. run() takes an empty tensor for each input that stays, and returns one for each
  // output that does. Preparing overwrites the tensors that stay: write them afterwards. Throws Error(kBadInput) where one does
  // not fit the graph.
  virtual std::unique_ptr<Session> prepare_resident(const Graph& graph, const SessionOptions& options,
                                                    const Residence& residence) const = 0;
  // The stream that work is started in, as the device's own interface knows it (a cudaStream_t).
  virtual void* stream() const = 0;
};

}  // namespace rewright::runtime
