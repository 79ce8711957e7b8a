// Hashes for tables and for telling structures apart. Not cryptographic: whoever relies on equality must compare.
#pragma once

#include <cstdint>
#include <string_view>

namespace rewright {

// The hash of a sequence of parts: h is the hash of the parts before v. Graph hashes in certificates depend on it
// (Index::hash), so its numbers never change.
//
//   std::uint64_t h = hash_mix(kind, count);
//   for (const std::uint64_t part : parts) h = hash_mix(h, part);
inline std::uint64_t hash_mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdULL;
  return h ^ (h >> 32);
}

// FNV-1a of 64 bits (datatracker.ietf.org/doc/draft-eastlake-fnv). Files and names of kernels hold its numbers.
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

}  // namespace rewright
