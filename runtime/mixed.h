// Graphs with nodes that a backend has no kernels for: the backend compiles what lies between them, and these go to the
// interpreter.
#pragma once

#include <memory>

#include "runtime/session.h"

namespace rewright::runtime {

// A session for any graph that can be executed at all. A graph that the backend executes as a whole is given to it; any other
// is cut where opaque nodes stand, and so are the graphs inside of these, the bodies of loops and branches.
std::unique_ptr<Session> prepare_session(const Backend& backend, const Graph& graph, const SessionOptions& options = {});

}  // namespace rewright::runtime
