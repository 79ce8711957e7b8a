#include "api/language/config.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "graph/file.h"

namespace rewright::api {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;  // of a context or a vocabulary
constexpr std::string_view kLayer = "%d";

// An object of the file, with its place for messages.
class ConfigObject {
 public:
  ConfigObject(const Json& object, std::string file, std::string place)
      : object_(object), file_(std::move(file)), place_(std::move(place)) {
    if (!object_.is_object()) fail("", "must be an object");
  }

  // The member of this name; null if it is absent, which JSON's null counts as.
  const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  ConfigObject object(const char* name) const { return {required(name), file_, path(name)}; }
  std::optional<ConfigObject> optional_object(const char* name) const {
    if (!find(name)) return std::nullopt;
    return object(name);
  }
  std::string text(const char* name) const {
    const Json& value = required(name);
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) fail(name, "must be a text");
    return value.get<std::string>();
  }
  std::string optional_text(const char* name) const { return find(name) ? text(name) : std::string(); }
  std::string layer_pattern(const char* name) const {
    const std::string pattern = text(name);
    const std::size_t at = pattern.find(kLayer);
    if (at == std::string::npos || pattern.find('%', at + 1) != std::string::npos || pattern.find('%') != at)
      fail(name, "must have %d once, for the number of the layer, and no other %");
    return pattern;
  }
  std::int64_t integer(const char* name, std::int64_t least, std::int64_t most) const {
    return integer_of(required(name), name, least, most);
  }
  std::int64_t integer_or(const char* name, std::int64_t least, std::int64_t most, std::int64_t otherwise) const {
    return find(name) ? integer(name, least, most) : otherwise;
  }
  // One number or a list of them.
  std::vector<std::int64_t> integers(const char* name, std::int64_t least, std::int64_t most) const {
    std::vector<std::int64_t> result;
    const Json* value = find(name);
    if (value && value->is_array()) {
      for (const Json& element : *value) result.push_back(integer_of(element, name, least, most));
    } else if (value) {
      result.push_back(integer_of(*value, name, least, most));
    }
    return result;
  }
  double real_or(const char* name, double least, double most, double otherwise) const {
    const Json* value = find(name);
    if (!value) return otherwise;
    const double real = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(real >= least && real <= most))
      fail(name, "must be a number from " + Json(least).dump() + " to " + Json(most).dump());
    return real;
  }
  bool truth_or(const char* name, bool otherwise) const {
    const Json* value = find(name);
    if (!value) return otherwise;
    if (!value->is_boolean()) fail(name, "must be true or false");
    return value->get<bool>();
  }
  [[noreturn]] void fail(const char* name, const std::string& what, ErrorCode code = ErrorCode::kBadInput) const {
    throw Error(code, what, file_ + ": " + path(name));
  }

 private:
  std::string path(const char* name) const { return place_.empty() || *name == 0 ? place_ + name : place_ + "." + name; }
  const Json& required(const char* name) const {
    const Json* value = find(name);
    if (!value) fail(name, "is missing");
    return *value;
  }
  std::int64_t integer_of(const Json& value, const char* name, std::int64_t least, std::int64_t most) const {
    const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                                 : value.is_number_integer() && value.get<std::int64_t>() <= most;
    if (!fits || value.get<std::int64_t>() < least)
      fail(name, "must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return value.get<std::int64_t>();
  }

  const Json& object_;
  std::string file_, place_;
};

// The file that a name in the configuration means. It must be below the folder.
std::filesystem::path file_below(const std::filesystem::path& folder, const ConfigObject& object, const char* name) {
  const std::filesystem::path given(object.text(name));
  const std::filesystem::path inside = given.lexically_normal();
  if (given.is_absolute() || inside.empty() || *inside.begin() == ".." || inside == ".")
    object.fail(name, "names a file outside of the folder: " + given.string());
  return folder / inside;
}

void read_inputs_and_outputs(const ConfigObject& decoder, LanguageConfig& config) {
  const ConfigObject inputs = decoder.object("inputs"), outputs = decoder.object("outputs");
  for (const char* name : {"past_names", "inputs_embeds", "cross_past_key_names", "rnn_prev_states"})
    if (inputs.find(name)) inputs.fail(name, "such an input is not supported", ErrorCode::kUnsupported);
  config.input_ids = inputs.text("input_ids");
  config.attention_mask = inputs.optional_text("attention_mask");
  config.position_ids = inputs.optional_text("position_ids");
  config.past_keys = inputs.layer_pattern("past_key_names");
  config.past_values = inputs.layer_pattern("past_value_names");
  config.logits = outputs.text("logits");
  config.present_keys = outputs.layer_pattern("present_key_names");
  config.present_values = outputs.layer_pattern("present_value_names");
}

void read_layer_types(const ConfigObject& decoder, LanguageConfig& config) {
  const ConfigObject inputs = decoder.object("inputs");
  if (!inputs.find("past_conv_names")) return;
  config.past_states = inputs.layer_pattern("past_conv_names");
  config.present_states = decoder.object("outputs").layer_pattern("present_conv_names");
  constexpr std::int64_t kMost = 1 << 20;
  config.state_channels = decoder.integer("hidden_size", 1, kMost);
  config.state_length = decoder.integer("conv_cache_size", 1, kMost);
  const Json* const types = decoder.find("layer_types");
  if (types == nullptr || !types->is_array() || types->size() != static_cast<std::size_t>(config.layers))
    decoder.fail("layer_types", "must say what each of the " + std::to_string(config.layers) + " layers is");
  for (std::size_t layer = 0; layer < types->size(); ++layer) {
    const Json& type = (*types)[layer];
    if (type == "conv")
      config.convolutions.push_back(static_cast<std::int64_t>(layer));
    else if (type != "full_attention")
      decoder.fail("layer_types", "has a layer that is neither conv nor full_attention: " + type.dump(),
                   ErrorCode::kUnsupported);
  }
}

SearchDefaults read_search(const ConfigObject& search) {
  for (const char* name : {"num_beams", "num_return_sequences"})
    if (search.integer_or(name, 1, kMostTokens, 1) != 1)
      search.fail(name, "more than one is not supported", ErrorCode::kUnsupported);
  if (search.integer_or("no_repeat_ngram_size", 0, kMostTokens, 0) != 0)
    search.fail("no_repeat_ngram_size", "is not supported, must be 0", ErrorCode::kUnsupported);
  SearchDefaults result;
  result.samples = search.truth_or("do_sample", false);
  result.temperature = search.real_or("temperature", 0, 1e6, 1);
  result.top_p = search.real_or("top_p", 0, 1, 1);
  result.top_k = search.integer_or("top_k", 0, kMostTokens, 0);
  result.repetition_penalty = search.real_or("repetition_penalty", 1e-6, 1e6, 1);
  result.min_length = search.integer_or("min_length", 0, kMostTokens, 0);
  result.max_length = search.integer_or("max_length", 0, kMostTokens, 0);
  return result;
}

Json parsed(const std::filesystem::path& file) {
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  if (!std::filesystem::is_regular_file(file))
    throw Error(ErrorCode::kBadInput, "there is no such file", file.string(),
                "a language model's folder has a genai_config.json, its model and its tokenizer, as onnxruntime-genai's "
                "builder writes them");
  const FileBytes bytes = map_file(file);
  if (bytes.bytes.size() > kMostBytes) throw Error(ErrorCode::kBadInput, "has more than 16 MB", file.string());
  Json json = Json::parse(bytes.text(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw Error(ErrorCode::kBadInput, "is not JSON", file.string());
  return json;
}

}  // namespace

LanguageConfig read_language_config(const std::filesystem::path& folder) {
  LanguageConfig config;
  config.file = folder / "genai_config.json";
  const Json json = parsed(config.file);
  const ConfigObject all(json, config.file.string(), ""), model = all.object("model");
  for (const char* name : {"encoder", "vision", "speech", "embedding"})
    if (model.find(name)) model.fail(name, "a second model is not supported", ErrorCode::kUnsupported);
  const ConfigObject decoder = model.object("decoder");
  if (decoder.find("pipeline")) decoder.fail("pipeline", "a model in several files is not supported", ErrorCode::kUnsupported);
  config.model = file_below(folder, decoder, "filename");
  read_inputs_and_outputs(decoder, config);
  constexpr std::int64_t kMost = 1 << 20;  // layers, heads, and elements of one
  config.layers = decoder.integer("num_hidden_layers", 1, kMost);
  const std::int64_t heads = decoder.integer("num_attention_heads", 1, kMost);
  config.cached_heads = decoder.integer_or("num_key_value_heads", 1, kMost, heads);
  config.head_size = decoder.integer("head_size", 1, kMost);
  read_layer_types(decoder, config);
  config.context_length = model.integer("context_length", 1, kMostTokens);
  config.vocabulary = model.integer("vocab_size", 1, kMostTokens);
  config.ends = model.integers("eos_token_id", 0, kMostTokens);
  const std::int64_t pad = model.integer_or("pad_token_id", -1, kMostTokens, 0);
  config.pad = pad >= 0 && pad < config.vocabulary ? pad : 0;
  if (const auto search = all.optional_object("search")) {
    config.search = read_search(*search);
    config.cache_is_shared = search->truth_or("past_present_share_buffer", false);
  }
  return config;
}

bool has_keys(const LanguageConfig& config, std::int64_t layer) {
  return !std::binary_search(config.convolutions.begin(), config.convolutions.end(), layer);
}

std::string layer_name(const std::string& pattern, std::int64_t layer) {
  std::string name = pattern;
  return name.replace(name.find(kLayer), kLayer.size(), std::to_string(layer));
}

}  // namespace rewright::api
