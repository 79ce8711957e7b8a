// Recognizes elementwise chains by their denotations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/cpu/planning/known_values.h"
#include "runtime/planning/facts.h"

namespace rewright::cpu {

using planning::Chain;
using planning::ChannelAffine;

// Is the element read at the position of the result (0 along axes of size 1)?
bool at_result_position(const ElementNode& read, const Indices& position, const Sizes& sizes);

// A name for the function of its start and of other tensors that a chain computes. Chains of equal names compute equal
// functions for any sizes, if they read non-constant tensors only at the result's position.
std::uint64_t function_name(std::string_view what, const KnownValues& known, const Chain& chain);

// The result of `compose` for these nodes (Facts::composed), cached for groups of equal nodes at equal sizes, and at any sizes
// where the elements are free of those that are open.
Chain::Expression recalled_expression(KnownValues& known, const std::vector<int>& nodes, ValueId start, bool shorten,
                                      const std::function<Chain::Expression()>& compose);

// start * scale[c] + shift[c] for constants by channel, along `axis` of the result. Found by evaluating the chain at sample
// points. Null: none. Plans share it.
std::shared_ptr<const ChannelAffine> match_channel_affine(const KnownValues& known, const Chain& chain, std::size_t axis);

// start + operand, both read at the result's position: returns the operand, which has the result's type and sizes.
std::optional<ValueId> match_addition(const KnownValues& known, const Chain& chain);

}  // namespace rewright::cpu
