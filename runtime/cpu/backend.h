// The CPU backend: oneDNN, OpenBLAS, and tile programs compiled from denotations.
//
// Floats are IEEE: subnormal numbers are kept, as flushing them would change results.
#pragma once

#include <optional>

#include "runtime/checked_kernels.h"
#include "runtime/session.h"

namespace rewright {

const Backend& cpu_backend();

// A session of this backend that has the graph to itself: where all sizes are known and nothing else holds the graph's
// constants, they are given back as soon as they are packed, and are not there twice.
//
// With `check`, some elements of each step's result are computed by the reference as well, in the first run with each set of
// sizes. Where a kernel differs by more than rounding, code generated from the operators' definitions takes its place, in that
// run already, and Session::warnings says so: library, version, sizes.
std::unique_ptr<Session> prepare_on_cpu(Graph graph, const SessionOptions& options = {},
                                        const std::optional<CheckExtent>& check = {});

// The CPU backend whose sessions all do so.
class CheckingCpuBackend final : public Backend {
 public:
  explicit CheckingCpuBackend(const CheckExtent& extent = {}) : extent_(extent) {}
  std::string name() const override { return "cpu"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    return prepare_on_cpu(graph, options, extent_);
  }

 private:
  CheckExtent extent_;
};
const Backend& checking_cpu_backend();

}  // namespace rewright
