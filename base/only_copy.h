// Bytes that several parts of a process have alike, such as the weights of two sessions of one model: in memory once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace rewright {

// Bytes in use that equal these: found by a hash, and compared. Null: there are none, or they are too few to look.
std::shared_ptr<std::byte> known_copy(std::span<const std::byte> bytes);

// The one copy of the bytes of `piece` in the process: the piece, or equal bytes that are in use already. They must not change
// from here on. Nothing is kept that nobody has any more. Thread-safe.
std::shared_ptr<std::byte> only_copy(std::shared_ptr<std::byte> piece, std::size_t bytes);

}  // namespace rewright
