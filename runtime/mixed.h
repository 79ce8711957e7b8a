// Graphs with nodes that a backend has no kernels for: the interpreter executes these, and the backend compiles the parts
// between them.
#pragma once

#include <memory>

#include "runtime/session.h"

namespace rewright::runtime {

// A session for any executable graph. A graph that the backend supports is passed on as a whole. Others are split at their
// opaque nodes, and so are the graphs inside these (bodies of loops and branches).
std::unique_ptr<Session> prepare_session(const Backend& backend, const Graph& graph, const SessionOptions& options = {});

}  // namespace rewright::runtime
