// A file that keeps results of planning that depend on constants alone (packed weights, folded constants, measured choices)
// from process to process.
//
// The file is mapped into memory, so that its bytes are read when they are used. Little-endian:
//
//   magic (16 bytes), size of the file, size of the table, XXH3 of the table (8 bytes each)
//   table: size of the key and the key; number of entries; of each entry: name, offset, size, XXH3 of its bytes (8 bytes each)
//   the entries' bytes, each aligned to 64
//
// An entry's name is a hash of its origin and form, so that the order of a plan's requests does not matter.
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
  // Opens the file if it exists. `key`: everything else that its bytes depend on (instruction set, threads, versions of
  // libraries). A file that is damaged or has another key is ignored, and `problem` tells it. Throws Error(kBadInput) for a
  // file of another kind, which must not be overwritten.
  PlanCache(std::filesystem::path file, std::string key);

  // The bytes of this name, from the file or added before; an empty tensor if there are none.
  Tensor find(std::uint64_t name);
  // Adds bytes that find() did not return, unless it is closed.
  void add(std::uint64_t name, Tensor bytes);

  const std::string& problem() const { return problem_; }
  // From now on, only reads from the file, and adds nothing: plans for many sets of sizes would fill it.
  void close() { closed_ = true; }
  // Was anything requested that the file lacks?
  bool changed() const { return changed_; }
  // Writes everything requested so far as a new file. Throws Error(kMissing) if there is no space.
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
