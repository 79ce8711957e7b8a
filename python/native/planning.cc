#include "python/native/planning.h"

#include "api/planning.h"
#include "python/native/graph.h"
#include "python/native/options.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

struct Planned {
  std::string text, facts;
};

Planned plan_graph(const NamedGraph& given, const GivenOptions& options, const std::string& output) {
  const PlanRequest request = request_with(plan_options(), options);
  const NamedGraph graph = given;
  const nb::gil_scoped_release release;
  MadePlan made = make_plan(graph.graph, graph.name, request, output);
  return {std::move(made.text), std::move(made.facts)};
}

nb::tuple check_graph(const NamedGraph& given, const std::string& file) {
  const NamedGraph graph = given;
  plans::PlanCheck check;
  {
    const nb::gil_scoped_release release;
    check = check_plan(graph.graph, graph.name, file).check;
  }
  return nb::make_tuple(check.proved, check.reason);
}

}  // namespace

void bind_planning(nb::module_& m) {
  nb::class_<Planned>(m, "Planned").def_ro("text", &Planned::text).def_ro("facts", &Planned::facts);
  m.def("plan", &plan_graph, nb::arg("graph"), nb::arg("options"), nb::arg("output"));
  m.def("check_plan", &check_graph, nb::arg("graph"), nb::arg("file"), "Whether the plan is proved of the model, and why not.");
  m.def(
      "plan_options", [] { return described(plan_options()); },
      "The options of `rewright plan`: name, kind (text, flag or list), type, initial, description.");
}

}  // namespace rewright::python
