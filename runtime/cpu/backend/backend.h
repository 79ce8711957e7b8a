// The CPU backend: oneDNN, OpenBLAS, and tile programs compiled from denotations.
//
// Floats are IEEE: subnormal numbers are kept, as flushing them would change results.
#pragma once

#include "runtime/session.h"

namespace rewright::cpu {

const Backend& cpu_backend();

// A session of this backend that has the graph to itself: where all sizes are known and nothing else holds the graph's
// constants, they are given back as soon as they are packed, and are not there twice.
std::unique_ptr<Session> prepare_on_cpu(Graph graph, const SessionOptions& options = {});

}  // namespace rewright::cpu
