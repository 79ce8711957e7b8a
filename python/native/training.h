// rewright.train.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

void bind_training(nanobind::module_& m);

}  // namespace rewright::python
