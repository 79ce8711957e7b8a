// rewright.plan.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

void bind_planning(nanobind::module_& m);

}  // namespace rewright::python
