// Language models.
#include "api/c/handles.h"

using rewright::Error;
using rewright::ErrorCode;
using rewright::c::guarded;
using rewright::c::required;

namespace {

rewright_generation& not_started(rewright_generation* generation) {
  rewright_generation& g = required(generation, "generation");
  if (g.started) throw Error(ErrorCode::kUsage, "the generation has begun");
  return g;
}

}  // namespace

extern "C" {

rewright_status rewright_language_model_open(const char* folder, const char* device, int threads,
                                             rewright_language_model** model) {
  return guarded([&] {
    required(model, "model") = nullptr;
    *model = new rewright_language_model{
        rewright::api::LanguageModel(&required(folder, "folder"), device ? device : "cpu", threads)};
  });
}

void rewright_language_model_free(rewright_language_model* model) { delete model; }

rewright_status rewright_generation_create(const rewright_language_model* model, rewright_generation** generation) {
  return guarded([&] {
    required(generation, "generation") = nullptr;
    *generation = new rewright_generation{required(model, "model").model, {}, {}, {}};
  });
}

rewright_status rewright_generation_set(rewright_generation* generation, const char* name, const char* value) {
  return guarded([&] {
    rewright::api::set_option(rewright::api::generation_options(), not_started(generation).request, &required(name, "name"),
                              &required(value, "value"));
  });
}

rewright_status rewright_generation_add_prompt(rewright_generation* generation, const int64_t* tokens, size_t count) {
  return guarded([&] {
    if (count > 0) required(tokens, "tokens");
    not_started(generation).prompts.emplace_back(tokens, tokens + count);
  });
}

rewright_status rewright_generation_next(rewright_generation* generation, int64_t* tokens, size_t count, int* running) {
  return guarded([&] {
    rewright_generation& g = required(generation, "generation");
    required(running, "running") = 0;
    const std::size_t sequences = g.started ? g.started->sequences().size() : g.prompts.size();
    if (count != sequences)
      throw Error(ErrorCode::kUsage,
                  "there are " + std::to_string(sequences) + " sequences, and room for " + std::to_string(count) + " tokens");
    if (count > 0) required(tokens, "tokens");
    if (!g.started) g.started.emplace(g.model.generate(g.prompts, g.request));
    const std::vector<std::optional<std::int64_t>> next = g.started->next();
    for (std::size_t s = 0; s < count; ++s) tokens[s] = next.empty() ? -1 : next[s].value_or(-1);
    *running = next.empty() ? 0 : 1;
  });
}

void rewright_generation_free(rewright_generation* generation) { delete generation; }

}  // extern "C"
