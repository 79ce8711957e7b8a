#include "api/language/generation_options.h"

#include <algorithm>
#include <string>

#include "api/define_options.h"

namespace rewright::api {

namespace {

// A value that may be left to the model's configuration.
template <class T>
define::Written<std::optional<T>> left_open(const define::Written<T>& written) {
  return {written.type, [written](const std::optional<T>& v) { return v ? written.text(*v) : std::string(); },
          [written](define::Text v) { return std::optional<T>(written.read(v)); }};
}

#define MEMBER(path) \
  [](GenerationRequest & r) -> auto& { return r.path; }

std::vector<GenerationOption> make_generation_options() {
  using define::count, define::number, define::option, define::positive;
  constexpr double kHottest = 1e6;
  GenerationOption options[] = {
      option<GenerationRequest>("max-tokens", count<std::int64_t>(), MEMBER(max_tokens),
                                "tokens to add at most; 0: as many as the model's context has room for"),
      option<GenerationRequest>("min-tokens", count<std::int64_t>(), MEMBER(min_tokens),
                                "tokens to add before one may end the text"),
      option<GenerationRequest>("temperature", left_open(number(0, kHottest)), MEMBER(temperature),
                                "0: always the most likely token; else probabilities are softmax(logits / T)"),
      option<GenerationRequest>("top-k", left_open(count<std::int64_t>()), MEMBER(top_k),
                                "choose among the K most likely tokens; 0: all"),
      option<GenerationRequest>("top-p", left_open(number(0, 1)), MEMBER(top_p),
                                "choose among the fewest most likely tokens whose probabilities add up to P"),
      option<GenerationRequest>("repetition-penalty", left_open(positive()), MEMBER(repetition_penalty),
                                "above 1: tokens that are in the text already become less likely"),
      {"stop-token",
       OptionKind::kList,
       "TOKEN",
       {},
       "a token that ends the text, beside the model's own",
       [](GenerationRequest& r, define::Text v) { r.stop_tokens.push_back(define::whole_number(v, 0)); }},
      option<GenerationRequest>("seed", count<std::uint64_t>(), MEMBER(seed), "of the random choices"),
  };
  return define::all_of(std::move(options));
}

#undef MEMBER

}  // namespace

std::span<const GenerationOption> generation_options() {
  static const std::vector<GenerationOption> kAll = make_generation_options();
  return kAll;
}

Choosing choosing_for(const GenerationRequest& request, const LanguageConfig& config, std::size_t prompt_tokens) {
  const SearchDefaults& search = config.search;
  std::int64_t most = config.context_length;
  if (search.max_length > 0) most = std::min(most, search.max_length);
  const auto prompt = static_cast<std::int64_t>(prompt_tokens);
  if (prompt >= most)
    throw Error(ErrorCode::kBadInput, "has " + std::to_string(prompt) + " tokens, the model's context " + std::to_string(most) +
                                          ": there is no room for another one");
  Choosing result;
  const bool asks_to_sample = request.top_k || request.top_p;
  const double usual = search.samples || asks_to_sample ? search.temperature : 0;
  result.sampling.temperature = request.temperature.value_or(usual);
  result.sampling.top_k = request.top_k.value_or(search.top_k);
  result.sampling.top_p = request.top_p.value_or(search.top_p);
  result.repetition_penalty = request.repetition_penalty.value_or(search.repetition_penalty);
  result.ends = config.ends;
  result.ends.insert(result.ends.end(), request.stop_tokens.begin(), request.stop_tokens.end());
  if (request.max_tokens > 0) most = std::min(most, prompt + request.max_tokens);
  result.max_length = static_cast<std::size_t>(most);
  result.min_length = static_cast<std::size_t>(std::max(search.min_length, prompt + request.min_tokens));
  return result;
}

}  // namespace rewright::api
