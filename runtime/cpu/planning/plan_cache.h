// What planning made from constants alone - packed weights, folded constants, choices that were measured - kept in a file from
// one process to the next.
//
// The file is mapped into memory, so that its bytes are read when they are used. Little-endian:
//
//   magic (16 bytes), size of the file, size of the table, XXH3 of the table (8 bytes each)
//   table: size of the key and the key; number of entries; of each entry: name, offset, size, XXH3 of its bytes (8 bytes each)
//   the entries' bytes, each aligned to 64
//
// An entry's name is a hash of what it was made from and how, so that nothing depends on the order in which a plan asks.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "expressions/tensor.h"
#include "graph/graph.h"

namespace rewright::cpu {

class PlanCache {
 public:
  // Opens the file, if there is one. `key`: whatever else its bytes depend on (instruction set, threads, versions of
  // libraries). A damaged file, or one with another key, is as none; `problem` says so. Throws Error(kBadInput) for a file that
  // is something else and had better not be overwritten.
  PlanCache(std::filesystem::path file, std::string key);

  // The bytes of this name, from the file or taken in before; an empty tensor if there are none.
  Tensor find(std::uint64_t name);
  // Takes bytes in that find did not have, unless it is closed.
  void add(std::uint64_t name, Tensor bytes);

  const std::string& problem() const { return problem_; }
  // From here on only what the file has is taken from it, and nothing is added: the plans of many sets of sizes would fill it.
  void close() { closed_ = true; }
  // Was something asked for that the file does not have?
  bool changed() const { return changed_; }
  // Writes all that was asked for so far, as a whole. Throws Error(kMissing) if there is no space.
  void save() const;

 private:
  struct Entry {
    std::size_t offset, bytes;
    std::uint64_t hash;
  };
  void read(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes);

  std::filesystem::path file_;
  std::string key_, problem_;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> mapped_;
  std::map<std::uint64_t, Entry> entries_;  // of the file
  std::map<std::uint64_t, Tensor> used_;
  bool changed_ = false, closed_ = false;
};

// The hash of some words and a text.
std::uint64_t cache_name(std::uint64_t value, std::string_view how);

}  // namespace rewright::cpu
