#include "python/native/training.h"

#include "api/training.h"

#include <deque>
#include <mutex>
#include <utility>

#include "python/native/graph.h"
#include "python/native/interruptible.h"
#include "python/native/options.h"
#include "python/native/tensors.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

struct Trained {
  NamedGraph graph;
  double loss;
  std::string facts;
};

// Completed steps, passed from the training thread to the one that calls Python.
class Steps {
 public:
  void put(const StepReport& step) {
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
  }
  std::deque<StepReport> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(steps_, {});
  }

 private:
  std::mutex mutex_;
  std::deque<StepReport> steps_;
};

// The arrays as tensors, which read them in place.
std::map<std::string, Tensor> tensors_of(const nb::dict& arrays) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [key, array] : arrays) {
    const std::string name = nb::cast<std::string>(key);
    try {
      Declaration declared;
      declared.name = name;
      const Datum datum = to_datum(array, declared);
      tensors.emplace(name, datum.tensor());
    } catch (const Error& error) {
      throw error.within("data");
    }
  }
  return tensors;
}

Trained train_graph(const NamedGraph& given, const GivenOptions& options, const nb::dict& data, const nb::dict& held_out,
                    const nb::object& progress, Stop& stop) {
  TrainingRequest request = request_with(training_options(), options);
  request.data.tensors = tensors_of(data);
  request.validation.tensors = tensors_of(held_out);
  const NamedGraph graph = given;
  Steps steps;
  FinishedTraining done;
  const auto tell = [&] {
    for (const StepReport& s : steps.take()) {
      if (progress.is_none()) continue;
      const nb::object answer = progress(s.step, s.steps, s.epoch, s.loss, s.rate, s.examples_per_second, s.skipped);
      if (answer.is(nb::handle(Py_False))) stop.source.request_stop();
    }
  };
  work_interruptibly(
      stop,
      [&] {
        done = train_in_program(graph.graph, request, graph.name, stop.source.get_token(),
                                {.step = [&](const StepReport& s) { steps.put(s); }});
      },
      tell);
  tell();  // the last ones
  return {{std::move(done.graph).value(), graph.name}, done.loss, std::move(done.facts)};
}

}  // namespace

void bind_training(nb::module_& m) {
  nb::class_<Trained>(m, "Trained")
      .def_ro("graph", &Trained::graph)
      .def_ro("loss", &Trained::loss)
      .def_ro("facts", &Trained::facts);
  m.def("train", &train_graph, nb::arg("graph"), nb::arg("options"), nb::arg("data"), nb::arg("held_out"),
        nb::arg("progress").none(), nb::arg("stop"));
  m.def("is_first_process", [] { return started_as().rank == 0; });
  m.def(
      "training_options", [] { return described(training_options()); },
      "The options of `rewright train`: name, kind (text, flag or list), type, initial, description.");
}

}  // namespace rewright::python
