#include "api/language/config.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "api/language/generation_options.h"
#include "base/error.h"
#include "base/temporary_folder.h"

namespace rewright::api {

namespace {

using Json = nlohmann::json;

Json usual() {
  return Json::parse(
      R"({"model": {"bos_token_id": 1, "context_length": 256, "vocab_size": 300, "eos_token_id": [2, 3], "pad_token_id": 0,
    "decoder": {"filename": "model.onnx", "head_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
      "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                 "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
      "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}}},
    "search": {"do_sample": false, "temperature": 0.6, "top_k": 50, "top_p": 0.9, "repetition_penalty": 1.1, "max_length": 200,
      "min_length": 0, "num_beams": 1, "past_present_share_buffer": true}})");
}

// With a convolution in place of the first layer's attention.
Json with_convolution() {
  Json json = usual();
  Json& decoder = json["model"]["decoder"];
  decoder["inputs"]["past_conv_names"] = "past.%d.conv";
  decoder["outputs"]["present_conv_names"] = "present.%d.conv";
  decoder["layer_types"] = {"conv", "full_attention"};
  decoder["hidden_size"] = 64;
  decoder["conv_cache_size"] = 2;
  return json;
}

LanguageConfig read(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "genai_config.json") << text;
  return read_language_config(folder.path());
}

}  // namespace

TEST_CASE("a configuration of the builder is read") {
  const LanguageConfig c = read(usual().dump());
  CHECK(c.model.filename() == "model.onnx");
  CHECK(layer_name(c.past_keys, 12) == "past_key_values.12.key");
  CHECK(c.ends == std::vector<std::int64_t>{2, 3});
  CHECK((c.layers == 2 && c.cached_heads == 2 && c.head_size == 16 && c.context_length == 256 && c.vocabulary == 300));
  CHECK((c.cache_is_shared && c.search.temperature == 0.6 && c.search.top_k == 50));
  Json one = usual();
  one["model"]["eos_token_id"] = 7;
  one["model"]["pad_token_id"] = -1;
  one["model"]["decoder"].erase("num_key_value_heads");
  one.erase("search");
  const LanguageConfig d = read(one.dump());
  CHECK(d.ends == std::vector<std::int64_t>{7});
  CHECK((d.pad == 0 && d.cached_heads == 4 && !d.search.samples && !d.cache_is_shared));
}

TEST_CASE("layers that are convolutions are read with their states") {
  const LanguageConfig c = read(with_convolution().dump());
  CHECK(c.convolutions == std::vector<std::int64_t>{0});
  CHECK((!has_keys(c, 0) && has_keys(c, 1) && has_keys(read(usual().dump()), 0)));
  CHECK((c.past_states == "past.%d.conv" && c.present_states == "present.%d.conv"));
  CHECK((c.state_channels == 64 && c.state_length == 2));
  const auto refused = [](const char* pointer, const Json& value, const std::string& says) {
    Json json = with_convolution();
    json[Json::json_pointer(pointer)] = value;
    INFO(pointer);
    CHECK_THROWS_WITH(read(json.dump()), Catch::Contains(says));
  };
  refused("/model/decoder/layer_types", Json::array({"conv"}),
          "model.decoder.layer_types: must say what each of the 2 layers is");
  refused("/model/decoder/layer_types", nullptr, "must say what each");
  refused("/model/decoder/layer_types/1", "linear_attention", "neither conv nor full_attention");
  refused("/model/decoder/layer_types/1", 3, "neither conv nor full_attention");
  refused("/model/decoder/conv_cache_size", 0, "must be an integer from 1");
  refused("/model/decoder/hidden_size", nullptr, "hidden_size: is missing");
  refused("/model/decoder/outputs/present_conv_names", nullptr, "present_conv_names: is missing");
}

TEST_CASE("what is wrong with a configuration is said with its place") {
  const auto refused = [](const char* pointer, const Json& value, const std::string& says) {
    Json json = usual();
    json[Json::json_pointer(pointer)] = value;
    INFO(pointer);
    CHECK_THROWS_WITH(read(json.dump()), Catch::Contains(says));
  };
  for (const char* outside : {"../model.onnx", "/etc/passwd", "a/../../b.onnx", ".", ""})
    refused("/model/decoder/filename", outside, "model.decoder.filename: ");
  refused("/model/decoder/filename", "../model.onnx", "outside of the folder");
  refused("/model/decoder/num_hidden_layers", 0, "model.decoder.num_hidden_layers: must be an integer from 1");
  refused("/model/decoder/num_hidden_layers", 1e30, "must be an integer");
  refused("/model/decoder/num_hidden_layers", std::uint64_t{1} << 63, "must be an integer");
  refused("/model/decoder/head_size", "16", "must be an integer");
  refused("/model/decoder/inputs/past_key_names", "past", "%d once");
  refused("/model/decoder/inputs/past_key_names", "%d.%d", "%d once");
  refused("/model/decoder/inputs/past_key_names", "%s.%d", "%d once");
  refused("/model/decoder/outputs/logits", nullptr, "model.decoder.outputs.logits: is missing");
  refused("/model/decoder/outputs", 3, "must be an object");
  refused("/model/eos_token_id", Json::array({1, "x"}), "model.eos_token_id: must be an integer");
  refused("/model/vision", Json::object(), "second model");
  refused("/search/num_beams", 4, "search.num_beams: more than one");
  refused("/search/temperature", -1, "search.temperature: must be a number");
  refused("/search/do_sample", 1, "true or false");
  CHECK_THROWS_WITH(read("{"), Catch::Contains("is not JSON"));
  CHECK_THROWS_WITH(read("[]"), Catch::Contains("must be an object"));
  CHECK_THROWS_WITH(read(std::string(100000, '[')), Catch::Contains("is not JSON"));
  const TemporaryFolder empty;
  CHECK_THROWS_WITH(read_language_config(empty.path()), Catch::Contains("there is no such file"));
}

TEST_CASE("damaged configurations are read or refused") {
  std::mt19937 random(1);
  const std::string whole = with_convolution().dump();
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      const std::size_t at = random() % text.size();
      if (random() % 2)
        text[at] = static_cast<char>(random() % 256);
      else
        text.erase(at, 1 + random() % 5);
    }
    try {
      const LanguageConfig config = read(text);
      CHECK(config.layers >= 1);
    } catch (const Error& error) {
      ++refused;
      CHECK((error.code() == ErrorCode::kBadInput || error.code() == ErrorCode::kUnsupported));
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("what a request leaves open follows from the configuration") {
  const LanguageConfig config = read(usual().dump());
  GenerationRequest request;
  Choosing c = choosing_for(request, config, 10);
  CHECK((c.sampling.temperature == 0 && c.max_length == 200 && c.repetition_penalty == 1.1));
  set_option(generation_options(), request, "top-k", "5");
  set_option(generation_options(), request, "max-tokens", "20");
  set_option(generation_options(), request, "min-tokens", "4");
  set_option(generation_options(), request, "stop-token", "9");
  c = choosing_for(request, config, 10);
  CHECK((c.sampling.temperature == 0.6 && c.sampling.top_k == 5 && c.sampling.top_p == 0.9));
  CHECK((c.max_length == 30 && c.min_length == 14 && c.ends == std::vector<std::int64_t>{2, 3, 9}));
  set_option(generation_options(), request, "temperature", "0");
  CHECK(choosing_for(request, config, 10).sampling.temperature == 0);
  CHECK_THROWS_WITH(choosing_for(request, config, 200), Catch::Contains("no room"));
  CHECK_THROWS_WITH(set_option(generation_options(), request, "top-p", "1.5"), Catch::Contains("top-p"));
  CHECK_THROWS_AS(set_option(generation_options(), request, "temperature", "-1"), Error);
}

}  // namespace rewright::api
