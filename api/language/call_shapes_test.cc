#include "api/language/call_shapes.h"

#include <catch2/catch.hpp>

namespace rewright::api {

TEST_CASE("shapes of a language model are those of a prompt and of a step") {
  LanguageConfig config;
  config.input_ids = "ids", config.attention_mask = "mask";
  config.past_keys = "k.%d", config.past_values = "v.%d";
  config.layers = 2, config.cached_heads = 3, config.head_size = 16;
  config.cache_is_shared = true;
  CHECK(shapes_of_calls(config) == std::vector<std::string>{"ids=1x32,1x1*64", "mask=1x32,1x128*64",
                                                            "k.0=1x3x128x16,1x3x128x16*64", "v.0=1x3x128x16,1x3x128x16*64",
                                                            "k.1=1x3x128x16,1x3x128x16*64", "v.1=1x3x128x16,1x3x128x16*64"});
  LanguageConfig mixed = config;
  mixed.convolutions = {0};
  mixed.past_states = "s.%d", mixed.state_channels = 8, mixed.state_length = 2;
  CHECK(shapes_of_calls(mixed) == std::vector<std::string>{"ids=1x32,1x1*64", "mask=1x32,1x128*64", "s.0=1x8x2,1x8x2*64",
                                                           "k.1=1x3x128x16,1x3x128x16*64", "v.1=1x3x128x16,1x3x128x16*64"});
  config.cache_is_shared = false, config.position_ids = "at";
  const std::vector<std::string> grown = shapes_of_calls(config);
  REQUIRE(grown.size() == 7);
  CHECK(grown[1] == "at=1x32,1x1*64");
  CHECK(grown[2] == "mask=1x64,1x129*64");
  CHECK(grown[3] == "k.0=1x3x32x16,1x3x128x16*64");
}

}  // namespace rewright::api
