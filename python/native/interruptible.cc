#include "python/native/interruptible.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace nb = nanobind;

namespace rewright::python {

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);

}  // namespace

void work_interruptibly(Stop& stop, const std::function<void()>& work, const std::function<void()>& tell) {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::exception_ptr failure;
  std::optional<nb::python_error> raised;
  {
    const nb::gil_scoped_release release;
    const std::jthread worker([&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      done = true;
      ended.notify_all();
    });
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, kBetweenLooks, [&] { return done; })) {
      if (raised) continue;
      lock.unlock();
      {
        const nb::gil_scoped_acquire gil;
        try {
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
          tell();
        } catch (nb::python_error& error) {
          raised.emplace(std::move(error));
          stop.source.request_stop();
        }
      }
      lock.lock();
    }
  }
  if (raised) throw nb::python_error(std::move(*raised));
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rewright::python
