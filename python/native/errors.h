// What goes wrong in C++, as exceptions of Python.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

// Error becomes rewright.Error, or the one of its subclasses that its code names.
void register_errors(nanobind::module_& m);

}  // namespace rewright::python
