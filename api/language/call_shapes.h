// The sizes at which a language model is called.
#pragma once

#include <string>
#include <vector>

#include "api/language/config.h"

namespace rewright::api {

// For each input a shape of a prompt and one of a step of decoding, a single token behind others, as `--shape` takes them: a
// graph that is faster for prompts may be slower in steps, which are most of the calls.
std::vector<std::string> shapes_of_calls(const LanguageConfig& config);

}  // namespace rewright::api
