// Networks that are given as a list of cables.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "plans/machines/network.h"

namespace rewright::plans {

// As make_network does for the shape "edges". Routes from a member are found when they are first asked for, from any thread.
std::unique_ptr<const Network> make_edge_network(std::span<const Link> edges, std::size_t count, const std::string& member);

// The first member that no cables join to member 0, whichever way they are listed; nullopt if all are joined.
std::optional<std::size_t> unreached_member(std::span<const Link> edges, std::size_t count);

}  // namespace rewright::plans
