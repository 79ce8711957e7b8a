// Sessions that read and write tensors in a device's memory where they stay from run to run: what training changes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/device_tensor.h"
#include "runtime/session.h"

namespace rewright::runtime {

// What of a session's inputs and outputs stays on the device, by number; nothing: it comes from the host and goes there. An
// output in the memory of an input takes its place.
struct Residence {
  std::vector<std::optional<DeviceTensor>> inputs, outputs;
  // Outputs that stay, in the order in which they are wanted, and what is called for each group as soon as the work that
  // computes and reads it lies in the device's stream. It may not use the session or the device's memory by this backend.
  std::vector<std::vector<std::size_t>> groups = {};
  std::function<void(std::size_t group)> announce = {};
};

// A backend whose sessions can do so.
class ResidentBackend {
 public:
  virtual ~ResidentBackend() = default;
  virtual const MemoryOfDevice& memory() const = 0;
  // For a graph of known sizes. run() gets an empty tensor for each input that stays, and gives one for each output that does.
  // Preparing overwrites the tensors that stay: they are to be written afterwards. Throws Error(kBadInput) where one does not
  // fit the graph.
  virtual std::unique_ptr<Session> prepare_resident(const Graph& graph, const SessionOptions& options,
                                                    const Residence& residence) const = 0;
  // The stream that work is started in, as the device's own interface knows it (a cudaStream_t).
  virtual void* stream() const = 0;
};

}  // namespace rewright::runtime
