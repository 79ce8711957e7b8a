#include "python/native/proving.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "api/proving.h"
#include "python/native/interruptible.h"
#include "runtime/session.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

std::string prove(ProvingRequest& request, const nb::object& progress, Stop& stop) {
  nlohmann::json facts;
  std::mutex mutex;
  double fraction = 0, told = 0;
  std::string note;
  request.cancel = stop.source.get_token();
  request.progress = [&](double done, const std::string& what) {
    const std::lock_guard lock(mutex);
    fraction = done, note = what;
  };
  work_interruptibly(
      stop, [&] { facts = prove_models(request); },
      [&] {
        std::unique_lock lock(mutex);
        if (progress.is_none() || fraction == told) return;
        told = fraction;
        const std::string text = note;
        lock.unlock();
        if (progress(text, told).is(nb::handle(Py_False))) stop.source.request_stop();
      });
  return facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void bind_proving(nb::module_& m) {
  m.def(
      "prove",
      [](const std::string& first, const std::string& second, const std::map<std::string, std::string>& names, double tolerance,
         const std::string& certificate, const std::string& reduce, const std::string& counterexample, std::uint64_t seed,
         int runs, int threads, double seconds, const nb::object& progress, Stop& stop) {
        ProvingRequest request;
        request.first = first, request.second = second;
        request.names = names, request.tolerance = tolerance;
        request.certificate = certificate, request.reduce = reduce, request.counterexample = counterexample;
        request.seed = seed, request.samples = runs, request.threads = usable_threads(threads), request.seconds = seconds;
        return prove(request, progress, stop);
      },
      nb::arg("first"), nb::arg("second"), nb::arg("names"), nb::arg("tolerance"), nb::arg("certificate"), nb::arg("reduce"),
      nb::arg("counterexample"), nb::arg("seed"), nb::arg("runs"), nb::arg("threads"), nb::arg("seconds"),
      nb::arg("progress").none(), nb::arg("stop"));
  m.def(
      "check_equality",
      [](const std::string& first, const std::string& second, const std::string& certificate, const std::string& solver,
         double tolerance, Stop& stop) {
        nlohmann::json facts;
        work_interruptibly(
            stop,
            [&] {
              facts = check_equality({first, second, certificate, solver, tolerance}, {});
            },
            [] {});
        return facts.dump();
      },
      nb::arg("first"), nb::arg("second"), nb::arg("certificate"), nb::arg("solver"), nb::arg("tolerance"), nb::arg("stop"));
}

}  // namespace rewright::python
