// Memory for packed constants: large blocks in huge pages, since streams of weights would cross many small ones. Freed pieces
// are reused.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace rewright::cpu {

// Thread-safe. Pieces keep the blocks alive; a block without pieces goes back to the system.
class ConstantMemory : public std::enable_shared_from_this<ConstantMemory> {
 public:
  static std::shared_ptr<ConstantMemory> make() { return std::shared_ptr<ConstantMemory>(new ConstantMemory); }
  ~ConstantMemory();
  ConstantMemory(const ConstantMemory&) = delete;
  ConstantMemory& operator=(const ConstantMemory&) = delete;

  // `bytes` bytes, aligned to 64, freed with the last copy of the pointer.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

 private:
  ConstantMemory() = default;
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* at, std::size_t bytes);

  std::mutex mutex_;
  std::map<std::byte*, std::size_t> blocks_;
  std::size_t total_ = 0;                   // bytes of the blocks
  std::map<std::byte*, std::size_t> free_;  // ranges by address; neighbours in one block are merged
};

}  // namespace rewright::cpu
