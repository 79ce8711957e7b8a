// rewright.LanguageModel.
#pragma once

#include <nanobind/nanobind.h>

namespace rewright::python {

void bind_language(nanobind::module_& m);

}  // namespace rewright::python
