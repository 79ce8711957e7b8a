// rewright.optimize.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

void bind_optimization(nanobind::module_& m);

}  // namespace rewright::python
