// Hashes of what consists of parts.
#pragma once

#include <cstdint>

namespace rewright {

// The hash h of the parts before, and v of the next one.
inline std::uint64_t hash_mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdULL;
  return h ^ (h >> 32);
}

}  // namespace rewright
