// Constants in the form that kernels read, such as packed weights: made once for a plan, or taken from a plan cache.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/planning/plan_cache.h"

namespace rewright::cpu {

// The packed constants of a plan, in memory with huge pages: a stream of weights would cross many small ones. The kernels that
// read them keep them alive.
class PackedConstants {
 public:
  using Key = std::tuple<const void*, std::int64_t, std::int64_t, std::int64_t>;  // source, row stride, column stride, vectors
  // What was packed under the key; null: nothing.
  const float* find(const Key& key) const;
  // So many floats, written by `fill`, aligned to 64 bytes.
  const float* add(std::optional<Key> key, std::int64_t floats, const std::function<void(float*)>& fill);
  // Forgets the keys of what was packed from these bytes, whose memory may be used again; what was packed stays.
  void forget(std::span<const std::byte> source);

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
  std::size_t used_ = 0, size_ = 0;  // of the last block
  std::size_t total_ = 0;            // bytes of all blocks
  std::map<Key, const float*> known_;
};

class PreparedConstants {
 public:
  // `cache` may be null. The graph must still hold its constants: their hashes name the entries of the cache.
  PreparedConstants(const Graph& graph, PlanCache* cache);

  // Bytes computed from constants for the group that computes `result`: from the cache, or written by `make` into memory
  // aligned to 64. `how` tells apart what is made for one result, as far as the plan's configuration does not.
  Tensor get(ValueId result, std::string_view how, std::size_t bytes, const std::function<void(std::byte*)>& make);
  const std::shared_ptr<PackedConstants>& packed();
  void forget(std::span<const std::byte> source);

 private:
  PlanCache* cache_;
  std::vector<std::uint64_t> hashes_;  // by value; empty without a cache
  std::shared_ptr<PackedConstants> packed_;
};

}  // namespace rewright::cpu
