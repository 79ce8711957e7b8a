// The order of a value's elements in memory.
#pragma once

#include <cstdint>

#include "expressions/tensor.h"

namespace rewright::cpu {

struct Layout {
  // 0: row-major as in Tensor. b > 0: axis 1 (channels) is split into blocks of b, which are innermost (oneDNN's nChw8c,
  // nChw16c); the last block is padded with zeros. -1: channels last (nhwc).
  std::int64_t channels = 0;

  bool plain() const { return channels == 0; }
  bool blocked() const { return channels > 0; }
  bool channels_last() const { return channels < 0; }
  friend bool operator==(const Layout&, const Layout&) = default;
};
inline constexpr Layout kPlain{0};
inline constexpr Layout kChannelsLast{-1};

// Elements in memory, including the padding of the last block.
inline std::int64_t stored_elements(std::span<const std::int64_t> sizes, Layout layout) {
  const std::int64_t count = element_count(sizes);
  if (!layout.blocked() || sizes[1] == 0) return count;
  const std::int64_t b = layout.channels;
  return count / sizes[1] * ((sizes[1] + b - 1) / b * b);
}

}  // namespace rewright::cpu
