// Graphs with nodes that a backend has no kernels for: the interpreter executes these, and the backend compiles the parts
// between them.
#pragma once

#include <memory>

#include "runtime/session.h"

namespace rewright::runtime {

// A session for any executable graph. A graph that the backend supports is passed on as a whole. Others are split at their
// opaque nodes, and so are the graphs inside these (bodies of loops and branches).
//
//   const Graph executed = executed_form(backend, graph);
//   auto session = prepare_session(backend, executed);
//   is_compiled(executed);  // does the backend execute all of it?
std::unique_ptr<Session> prepare_session(const Backend& backend, const Graph& graph, const SessionOptions& options = {});

// The graph that prepare_session prepares for this one: operators that are executed as graphs of others are written out where
// sizes are known. It has the same inputs and outputs.
Graph executed_form(const Backend& backend, const Graph& graph);

}  // namespace rewright::runtime
