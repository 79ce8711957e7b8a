// Finds by running them which operators' kernels have a layout of their own, and what it takes to change values to it.
#pragma once

#include <optional>
#include <span>
#include <stop_token>

#include "graph/graph.h"
#include "plans/machines/machine.h"
#include "runtime/session.h"

namespace rewright::runtime {

// Operators of these graphs are executed alone: operands and results whose layout a step changes there are changed ports, at
// the rate of these steps. Then operators that read such results are executed behind those that give them: if no step changes
// the operand, it is a kept one where a step changes the result, and a read one where the result is written plain. Where nodes
// differ, most bytes decide. nullopt: nothing was changed, or nothing that a machine file can say. Sizes are known.
// Backends that do not profile their steps change nothing. Throws Error(kCancelled) once `cancel` stops.
std::optional<plans::LayoutFacts> measure_layouts(const Backend& backend, SessionOptions session, std::span<const Graph> graphs,
                                                  std::stop_token cancel = {});

}  // namespace rewright::runtime
