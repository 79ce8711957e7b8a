// Independent work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace rewright {

// Calls work(begin, end, thread) for consecutive ranges that cover 0 to count, each of `piece` items (the last may be shorter),
// on up to `threads` threads: the calling one, number 0, and new ones. An exception of `work` ends the loop and is thrown here.
//
//   parallel(8, rows, 64, [&](std::size_t begin, std::size_t end, std::size_t) { sum_rows(begin, end); });
void parallel(int threads, std::size_t count, std::size_t piece,
              const std::function<void(std::size_t begin, std::size_t end, std::size_t thread)>& work);

}  // namespace rewright
