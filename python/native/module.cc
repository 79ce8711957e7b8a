// rewright._native._core: the extension module behind the Python package.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "api/versions.h"
#include "python/native/errors.h"
#include "python/native/graph.h"
#include "python/native/language.h"
#include "python/native/optimization.h"
#include "python/native/planning.h"
#include "python/native/proving.h"
#include "python/native/rules.h"
#include "python/native/session.h"
#include "python/native/training.h"
#include "python/native/values.h"

namespace nb = nanobind;

NB_MODULE(_core, m) {
  m.doc() = "Rewright's library, as far as its Python package needs it.";
  m.attr("__version__") = REWRIGHT_VERSION;
  // Another interpreter of the process may have loaded the extension module already; each interpreter asks.
  m.def(
      "is_main_interpreter", [] { return PyInterpreterState_Get() == PyInterpreterState_Main(); },
      "Does this interpreter own the process? Others share what must not be shared.");
  m.def(
      "library_versions",
      [] {
        const nb::gil_scoped_release release;
        return rewright::api::library_versions() + "\nnanobind " + std::to_string(NB_VERSION_MAJOR) + "." +
               std::to_string(NB_VERSION_MINOR) + "." + std::to_string(NB_VERSION_PATCH);
      },
      "A line for each library that this module is made with or finds here: \"ONNX 1.23.2\".");
  rewright::python::register_errors(m);
  rewright::python::bind_values(m);
  rewright::python::bind_graph(m);
  rewright::python::bind_language(m);
  rewright::python::bind_optimization(m);
  rewright::python::bind_proving(m);
  rewright::python::bind_rules(m);
  rewright::python::bind_session(m);
  rewright::python::bind_training(m);
  rewright::python::bind_planning(m);
}
