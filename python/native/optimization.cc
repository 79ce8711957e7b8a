#include "python/native/optimization.h"

#include "api/optimization.h"

#include <mutex>
#include <optional>

#include "python/native/graph.h"
#include "python/native/interruptible.h"
#include "python/native/options.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

struct Optimized {
  NamedGraph graph;
  double speedup;
  std::string facts, certificate, page;
};

// The optimizer's last progress report, passed from its thread to the one that calls Python.
class LatestProgress {
 public:
  void put(const OptimizeProgress& progress) {
    const std::lock_guard lock(mutex_);
    latest_ = progress;
  }
  std::optional<OptimizeProgress> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(latest_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<OptimizeProgress> latest_;
};

Optimized optimize_graph(const NamedGraph& given, const GivenOptions& options, const std::string& output, bool with_page,
                         const nb::object& progress, Stop& stop, const std::string& program) {
  OptimizationRequest request = request_with(optimization_options(), options);
  request.program = program;
  if (!output.empty()) request.differs = std::filesystem::path(output).replace_extension(".differs.onnx").string();
  const NamedGraph graph = given;
  LatestProgress latest;
  std::optional<Optimization> done;
  work_interruptibly(
      stop,
      [&] {
        done = run_optimization(graph.graph, request, graph.name, output, with_page, stop.source.get_token(),
                                [&](const OptimizeProgress& p) { latest.put(p); });
      },
      [&] {
        const std::optional<OptimizeProgress> p = latest.take();
        if (!p || progress.is_none()) return;
        const nb::object answer = progress(p->stage, p->fraction, p->predicted_gain);
        if (answer.is(nb::handle(Py_False))) stop.source.request_stop();
      });
  return {{std::move(done->result.graph), graph.name},
          done->result.report.speedup,
          std::move(done->facts),
          to_json(done->result.certificate),
          std::move(done->page)};
}

}  // namespace

void bind_optimization(nb::module_& m) {
  nb::class_<Stop>(m, "Stop", "Asks work in another thread to end.").def(nb::init<>()).def("request", [](Stop& stop) {
    stop.source.request_stop();
  });
  nb::class_<Optimized>(m, "Optimized")
      .def_ro("graph", &Optimized::graph)
      .def_ro("speedup", &Optimized::speedup)
      .def_ro("facts", &Optimized::facts)
      .def_ro("certificate", &Optimized::certificate)
      .def_ro("page", &Optimized::page);
  m.def("optimize", &optimize_graph, nb::arg("graph"), nb::arg("options"), nb::arg("output"), nb::arg("with_page"),
        nb::arg("progress").none(), nb::arg("stop"), nb::arg("program") = "");
  m.def(
      "optimization_options", [] { return described(optimization_options()); },
      "The options of `rewright optimize`: name, kind (text, flag or list), type, initial, description.");
}

}  // namespace rewright::python
