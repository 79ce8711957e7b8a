// The description of a language model in a folder: genai_config.json, as onnxruntime-genai's model builder writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rewright::api {

// Default parameters of sampling, from the file's "search".
struct SearchDefaults {
  bool samples = false;  // false: the most likely token
  double temperature = 1, top_p = 1, repetition_penalty = 1;
  std::int64_t top_k = 0;       // 0: all
  std::int64_t min_length = 0;  // tokens, those of the prompt included
  std::int64_t max_length = 0;  // the same; 0: as long as the context
};

struct LanguageConfig {
  std::filesystem::path file;   // genai_config.json
  std::filesystem::path model;  // the ONNX model
  // Names of inputs and outputs; empty: the model has none. In those of the cache, %d stands for the layer.
  std::string input_ids, attention_mask, position_ids, past_keys, past_values;
  std::string logits, present_keys, present_values;
  std::int64_t layers = 0, cached_heads = 0, head_size = 0;
  // Layers that are convolutions, in order. In place of keys and values they keep the last positions of each channel.
  std::vector<std::int64_t> convolutions;
  std::string past_states, present_states;  // of those; %d stands for the layer
  std::int64_t state_channels = 0, state_length = 0;
  std::int64_t context_length = 0;  // tokens
  std::int64_t vocabulary = 0;      // tokens are below this number
  std::vector<std::int64_t> ends;   // tokens that end a text
  std::int64_t pad = 0;             // the token for places that do not count
  // The cache may have room for more positions than are filled: the model writes new entries behind those.
  bool cache_is_shared = false;
  SearchDefaults search;
};

// Reads FOLDER/genai_config.json. Throws Error(kBadInput) if something in it is missing, of another type or out of range, or if
// it names a file outside of the folder; Error(kUnsupported) if it asks for what is not there (beams, several models).
LanguageConfig read_language_config(const std::filesystem::path& folder);

// Does the layer have keys and values?
bool has_keys(const LanguageConfig& config, std::int64_t layer);

// The name of a layer's input or output: "past_key_values.3.key" of "past_key_values.%d.key".
std::string layer_name(const std::string& pattern, std::int64_t layer);

}  // namespace rewright::api
