#include "python/native/language.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "api/language/language_model.h"
#include "python/native/interruptible.h"
#include "python/native/options.h"
#include "runtime/endable_run.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

LanguageModel opened(const std::string& folder, const std::string& device, int threads) {
  std::optional<LanguageModel> model;
  Stop stop;
  work_interruptibly(
      stop, [&] { model.emplace(folder, device, threads); }, [] {});
  return std::move(*model);
}

// Ctrl-C ends a step, also a long prompt's.
std::vector<std::optional<std::int64_t>> next_tokens(Generation& generation) {
  std::vector<std::optional<std::int64_t>> tokens;
  Stop stop;
  const auto work = [&] {
    const Checkpoint checkpoint = [&] {
      if (stop.source.stop_requested()) throw Error(ErrorCode::kCancelled, "stopped");
    };
    const EndableRun endable(checkpoint);
    tokens = generation.next();
  };
  work_interruptibly(stop, work, [] {});
  return tokens;
}

nb::dict config_facts(const LanguageConfig& config) {
  nb::dict facts;
  facts["context_length"] = config.context_length;
  facts["vocabulary"] = config.vocabulary;
  facts["ends"] = config.ends;
  return facts;
}

}  // namespace

void bind_language(nb::module_& m) {
  nb::class_<Generation>(m, "Generation")
      .def("next", &next_tokens)
      .def_prop_ro("sequences", [](const Generation& g) { return g.sequences(); })
      .def_prop_ro("prompt_seconds", [](const Generation& g) { return g.times().prompt_seconds; })
      .def_prop_ro("tokens_per_second", [](const Generation& g) { return g.times().tokens_per_second(); });
  nb::class_<LanguageModel>(m, "LanguageModel")
      .def("facts", [](const LanguageModel& model) { return config_facts(model.config()); })
      .def(
          "generate",
          [](const LanguageModel& model, std::vector<Tokens> prompts, const GivenOptions& options) {
            return model.generate(std::move(prompts), request_with(generation_options(), options));
          },
          nb::arg("prompts"), nb::arg("options"));
  m.def("open_language_model", &opened, nb::arg("folder"), nb::arg("device"), nb::arg("threads"));
  m.def(
      "generation_options", [] { return described(generation_options()); },
      "The options of `rewright complete`: name, kind (text, flag or list), type, initial, description.");
}

}  // namespace rewright::python
