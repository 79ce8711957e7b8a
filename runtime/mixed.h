// Graphs with nodes that a backend has no kernels for: the interpreter executes these, and the backend compiles the parts
// between them.
#pragma once

#include <memory>

#include "runtime/session.h"

namespace rewright::runtime {

// A session for any graph that can be executed at all. The backend gets a graph that it executes as a whole; any other is cut
// at its opaque nodes, and so are the graphs inside of these, the bodies of loops and branches.
std::unique_ptr<Session> prepare_session(const Backend& backend, const Graph& graph, const SessionOptions& options = {});

}  // namespace rewright::runtime
