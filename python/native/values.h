// rewright.OrtValue's part in C++.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

void bind_values(nanobind::module_& m);

}  // namespace rewright::python
