// Options of generation: limits of length, and sampling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "api/language/config.h"
#include "api/language/sampling.h"
#include "api/request_options.h"

namespace rewright::api {

// The options of a caller. Those that are not set default to the model's configuration.
struct GenerationRequest {
  std::int64_t max_tokens = 0;  // new ones in each sequence; 0: as many as the model's context has room for
  std::int64_t min_tokens = 0;  // before these, no token ends a sequence
  std::optional<double> temperature = {}, top_p = {}, repetition_penalty = {};
  std::optional<std::int64_t> top_k = {};
  std::vector<std::int64_t> stop_tokens = {};  // end a sequence, as the configuration's do
  std::uint64_t seed = 0;
};

// The options of `rewright complete`, without the dashes.
using GenerationOption = RequestOption<GenerationRequest>;
std::span<const GenerationOption> generation_options();

// The options of one sequence, with all defaults filled in.
struct Choosing {
  Sampling sampling;
  double repetition_penalty = 1;
  std::vector<std::int64_t> ends;              // tokens that end it
  std::size_t min_length = 0, max_length = 0;  // tokens, those of the prompt included
};

// For a prompt of so many tokens. A request for top_k or top_p without a temperature samples, at the configuration's
// temperature. Throws Error(kBadInput) if the context has no room for another token.
Choosing choosing_for(const GenerationRequest& request, const LanguageConfig& config, std::size_t prompt_tokens);

}  // namespace rewright::api
