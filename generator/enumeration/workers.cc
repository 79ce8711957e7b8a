#include "generator/enumeration/workers.h"

#include <cstring>

#include "base/parallel.h"

namespace rewright::generator {

Workers::Workers(Communicator& communicator, int threads, const Forms& forms)
    : communicator_(communicator), forms_(static_cast<std::size_t>(std::max(threads, 1)), forms) {}

std::vector<std::string> Workers::map(std::size_t count, const std::function<std::string(Forms&, std::size_t)>& work) {
  const std::size_t rank = communicator_.rank(), size = communicator_.size();
  std::vector<std::string> results(count);
  const std::size_t mine = count > rank ? (count - rank - 1) / size + 1 : 0;
  parallel(static_cast<int>(forms_.size()), mine, 1, [&](std::size_t begin, std::size_t end, std::size_t thread) {
    for (std::size_t n = begin; n < end; ++n) results[rank + n * size] = work(forms_[thread], rank + n * size);
  });
  if (size == 1) return results;
  std::string message;
  for (std::size_t i = rank; i < count; i += size) {
    const std::uint64_t bytes = results[i].size();
    message.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes)).append(results[i]);
  }
  const std::vector<std::string> all = communicator_.all_gather(message);
  for (std::size_t p = 0; p < size; ++p) {
    const char* at = all[p].data();
    for (std::size_t i = p; i < count; i += size) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, at, sizeof(bytes));
      results[i].assign(at + sizeof(bytes), bytes);
      at += sizeof(bytes) + bytes;
    }
  }
  return results;
}

}  // namespace rewright::generator
