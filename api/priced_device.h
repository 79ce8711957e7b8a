// A device whose operators have prices instead of measured times.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "optimizer/devices/device.h"

namespace rewright::api {

// Seconds for one execution of a node of a graph whose sizes are all numbers; nullopt for a node that cannot be executed. Equal
// nodes have equal prices.
using NodePrice = std::function<std::optional<double>(const Graph& graph, const Node& node)>;

// Never times anything; prices are requested by one thread at a time. Graphs are executed on `here`.
std::unique_ptr<Device> make_priced_device(NodePrice price, std::unique_ptr<Device> here);

}  // namespace rewright::api
