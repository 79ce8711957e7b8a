// Long work that Python can watch and end.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <stop_token>

namespace rewright::python {

// Ends work from another thread.
struct Stop {
  std::stop_source source;
};

// Runs `work` in a thread of its own. The calling thread, which holds the GIL, releases it and takes it now and then: to check
// for signals (in the main thread), and to call `tell`, if that has something to report. If either raises an exception, the
// work is asked to stop, and the exception is thrown when it has ended. Exceptions of the work are thrown as well.
void work_interruptibly(Stop& stop, const std::function<void()>& work, const std::function<void()>& tell);

}  // namespace rewright::python
