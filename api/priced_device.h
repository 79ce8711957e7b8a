// A device whose operators cost what someone says.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "optimizer/devices/device.h"

namespace rewright::api {

// Seconds for one execution of a node of the graph, where all sizes are numbers; nullopt for what cannot be executed. The same
// node always costs the same.
using NodePrice = std::function<std::optional<double>(const Graph& graph, const Node& node)>;

// Nothing is timed: whole graphs cannot be, and prices are asked for by one thread at a time. Graphs are executed on `here`.
std::unique_ptr<Device> make_priced_device(NodePrice price, std::unique_ptr<Device> here);

}  // namespace rewright::api
