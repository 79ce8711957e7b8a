#include "api/language/call_shapes.h"

#include <cstdint>

namespace rewright::api {

namespace {

constexpr std::int64_t kPrompt = 32, kRoom = 128;  // tokens of a prompt; entries of the cache
constexpr std::int64_t kSteps = 64;                // for each prompt

std::string times(std::initializer_list<std::int64_t> sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

}  // namespace

std::vector<std::string> shapes_of_calls(const LanguageConfig& config) {
  std::vector<std::string> shapes;
  const auto add = [&](const std::string& name, const std::string& prompt, const std::string& step) {
    if (!name.empty()) shapes.push_back(name + "=" + prompt + "," + step + "*" + std::to_string(kSteps));
  };
  // As Decoder calls it: of a shared cache, the mask of a first call is as long as the prompt. Of another one, a prompt is read
  // behind an earlier one here, as kernels are not measured without elements.
  const std::int64_t past = config.cache_is_shared ? kRoom : kPrompt;
  const std::int64_t behind_prompt = config.cache_is_shared ? kPrompt : past + kPrompt;
  const std::int64_t behind_step = config.cache_is_shared ? kRoom : kRoom + 1;
  add(config.input_ids, times({1, kPrompt}), times({1, 1}));
  add(config.position_ids, times({1, kPrompt}), times({1, 1}));
  add(config.attention_mask, times({1, behind_prompt}), times({1, behind_step}));
  const std::string state = times({1, config.state_channels, config.state_length});
  for (const std::int64_t layer : config.convolutions) add(layer_name(config.past_states, layer), state, state);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    if (!has_keys(config, layer)) continue;
    for (const std::string* pattern : {&config.past_keys, &config.past_values})
      add(layer_name(*pattern, layer), times({1, config.cached_heads, past, config.head_size}),
          times({1, config.cached_heads, kRoom, config.head_size}));
  }
  return shapes;
}

}  // namespace rewright::api
