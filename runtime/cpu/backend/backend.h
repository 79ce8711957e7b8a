// The CPU backend: oneDNN, OpenBLAS, and tile programs compiled from denotations.
//
// Floats are IEEE: subnormal numbers are kept, as flushing them would change results.
#pragma once

#include "runtime/session.h"

namespace rewright::cpu {

const Backend& cpu_backend();

// A session that owns its graph. If all sizes are known and nothing else holds the graph's constants, they are freed once
// packed, so that they are not in memory twice.
std::unique_ptr<Session> prepare_on_cpu(Graph graph, const SessionOptions& options = {});

}  // namespace rewright::cpu
