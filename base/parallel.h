// Work that is independent, done by several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace rewright {

// work(begin, end, thread) for pieces of 0 to count; the calling thread is number 0. What it throws is thrown here.
void parallel(int threads, std::size_t count, std::size_t piece,
              const std::function<void(std::size_t begin, std::size_t end, std::size_t thread)>& work);

}  // namespace rewright
