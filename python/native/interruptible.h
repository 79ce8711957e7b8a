// Long work that Python can look at and end.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <stop_token>

namespace rewright::python {

// What ends work from another thread.
struct Stop {
  std::stop_source source;
};

// Runs `work` in a thread of its own, while the calling one, which holds the GIL, lets it go and only takes it now and then: to
// see whether a signal has come (in the main thread), and to call `tell`, if it has work to do. Where either raises an
// exception the work is asked to stop, and the exception is thrown when it has ended. So is what the work throws.
void work_interruptibly(Stop& stop, const std::function<void()>& work, const std::function<void()>& tell);

}  // namespace rewright::python
