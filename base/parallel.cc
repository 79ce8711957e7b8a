#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace rewright {

void parallel(int threads, std::size_t count, std::size_t piece,
              const std::function<void(std::size_t, std::size_t, std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&](std::size_t thread) {
    try {
      for (std::size_t begin = next.fetch_add(piece); begin < count; begin = next.fetch_add(piece))
        work(begin, std::min(count, begin + piece), thread);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < threads && static_cast<std::size_t>(t) * piece < count; ++t)
      others.emplace_back(run, static_cast<std::size_t>(t));
    run(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rewright
