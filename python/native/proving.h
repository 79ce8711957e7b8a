// Proving models equal, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

void bind_proving(nanobind::module_& m);

}  // namespace rewright::python
