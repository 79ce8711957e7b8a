// rewright.InferenceSession.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

void bind_session(nanobind::module_& m);

}  // namespace rewright::python
