// Kernels of a backend's own for opaque nodes.
#pragma once

#include <memory>

#include "operators/procedure.h"
#include "runtime/session.h"

namespace rewright::runtime {

// Implemented by backends that have such kernels.
class OpaqueKernels {
 public:
  virtual ~OpaqueKernels() = default;
  // Executes an opaque node of the graph, one thread at a time; null: there is no kernel for it. Neither the graph nor the node
  // need outlive it.
  virtual std::unique_ptr<Executable> prepare_node(const Graph& graph, const Node& node,
                                                   const SessionOptions& options) const = 0;
};

// Null if the backend has none for the node.
inline std::unique_ptr<Executable> prepare_node(const Backend& backend, const Graph& graph, const Node& node,
                                                const SessionOptions& options) {
  const auto* const kernels = node.op == nullptr ? dynamic_cast<const OpaqueKernels*>(&backend) : nullptr;
  return kernels == nullptr ? nullptr : kernels->prepare_node(graph, node, options);
}

}  // namespace rewright::runtime
