// rewright.rules and rewright.verify.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

void bind_rules(nanobind::module_& m);

}  // namespace rewright::python
