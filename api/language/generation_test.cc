// Generations in C++ and through C, on a model that counts: behind token t, token t + 1 is the most likely one.
#include <catch2/catch.hpp>
#include <fstream>

#include "api/language/language_model.h"
#include "api/rewright_c.h"
#include "base/error.h"
#include "base/temporary_folder.h"
#include "graph/testing.h"

namespace rewright::api {

namespace {

// Its cache has the tokens so far; `entries` are what a step adds to it.
void write_counter(const TemporaryFolder& folder, const std::string& entries = "entry") {
  export_onnx(testing::import_text(R"(agraph (int64[b, s] ids, float[b, 1, p, 1] past_key_0, float[b, 1, p, 1] past_value_0)
      => (float[b, s, 10] logits, float[b, 1, q, 1] present_key_0, float[b, 1, q, 1] present_value_0) {
        real = Cast <to = 1> (ids)
        last = Constant <value_ints = [2]> ()
        column = Unsqueeze(real, last)
        before = Constant <value_floats = [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> ()
        difference = Sub(column, before)
        square = Mul(difference, difference)
        logits = Neg(square)
        second = Constant <value_ints = [1]> ()
        entry = Unsqueeze(column, second)
        two = Concat <axis = 2> (entry, entry)
        present_key_0 = Concat <axis = 2> (past_key_0, )" +
                                   entries + R"()
        present_value_0 = Concat <axis = 2> (past_value_0, entry)
      })"),
              folder / "model.onnx");
  std::ofstream(folder / "genai_config.json") << R"({"model": {"context_length": 20, "vocab_size": 10, "eos_token_id": 8,
    "decoder": {"filename": "model.onnx", "head_size": 1, "num_attention_heads": 1, "num_hidden_layers": 1,
      "inputs": {"input_ids": "ids", "past_key_names": "past_key_%d", "past_value_names": "past_value_%d"},
      "outputs": {"logits": "logits", "present_key_names": "present_key_%d", "present_value_names": "present_value_%d"}}}})";
}

std::vector<Tokens> said(Generation generation) {
  while (!generation.next().empty()) {
  }
  return generation.sequences();
}

}  // namespace

TEST_CASE("sequences go on until a token ends them, or there is no more room") {
  const TemporaryFolder folder;
  write_counter(folder);
  const LanguageModel model(folder.path(), "cpu", 1);
  CHECK(said(model.generate({{3}, {1, 5}})) == std::vector<Tokens>{{3, 4, 5, 6, 7, 8}, {1, 5, 6, 7, 8}});
  CHECK(said(model.generate({{3}, {1, 6}}, {.max_tokens = 3})) == std::vector<Tokens>{{3, 4, 5, 6}, {1, 6, 7, 8}});
  CHECK(said(model.generate({{3}}, {.stop_tokens = {5}})) == std::vector<Tokens>{{3, 4, 5}});
  // Without an end, the best token but it: 7 and 9 are equally far from 8.
  CHECK(said(model.generate({{6}}, {.max_tokens = 4, .min_tokens = 4})) == std::vector<Tokens>{{6, 7, 7, 7, 7}});
  CHECK(said(model.generate({Tokens(19, 1)})).front().size() == 20);
  Generation generation = model.generate({{7}, {6}});
  CHECK(generation.next() == std::vector<std::optional<std::int64_t>>{8, 7});
  CHECK(generation.next() == std::vector<std::optional<std::int64_t>>{std::nullopt, 8});
  CHECK(generation.next().empty());
  CHECK(generation.times().steps == 1);
}

TEST_CASE("a model whose cache grows otherwise than by its tokens is refused") {
  const TemporaryFolder folder;
  write_counter(folder, "two");
  CHECK_THROWS_WITH(LanguageModel(folder.path()), Catch::Contains("present_key_0") && Catch::Contains("1x1x2x1"));
}

TEST_CASE("a generation through C") {
  const TemporaryFolder folder;
  rewright_language_model* model = nullptr;
  CHECK(rewright_language_model_open(folder.path().c_str(), nullptr, 1, &model) == REWRIGHT_BAD_INPUT);
  CHECK(rewright_language_model_open(nullptr, nullptr, 1, &model) == REWRIGHT_USAGE);
  CHECK(model == nullptr);
  write_counter(folder);
  CHECK(rewright_language_model_open(folder.path().c_str(), "abacus", 1, &model) == REWRIGHT_USAGE);
  REQUIRE(rewright_language_model_open(folder.path().c_str(), nullptr, 1, &model) == REWRIGHT_OK);
  rewright_generation* generation = nullptr;
  REQUIRE(rewright_generation_create(model, &generation) == REWRIGHT_OK);
  rewright_language_model_free(model);  // the generation goes on
  CHECK(rewright_generation_set(generation, "max-token", "3") == REWRIGHT_USAGE);
  CHECK(rewright_generation_set(generation, "max-tokens", "3") == REWRIGHT_OK);
  const std::int64_t first[] = {3}, second[] = {1, 6};
  CHECK(rewright_generation_add_prompt(generation, first, 1) == REWRIGHT_OK);
  CHECK(rewright_generation_add_prompt(generation, second, 2) == REWRIGHT_OK);
  std::int64_t tokens[2] = {};
  int running = 0;
  CHECK(rewright_generation_next(generation, tokens, 1, &running) == REWRIGHT_USAGE);
  std::vector<Tokens> columns(2);
  while (rewright_generation_next(generation, tokens, 2, &running) == REWRIGHT_OK && running != 0)
    for (std::size_t s = 0; s < 2; ++s) columns[s].push_back(tokens[s]);
  CHECK(columns == std::vector<Tokens>{{4, 5, 6}, {7, 8, -1}});
  CHECK(rewright_generation_add_prompt(generation, first, 1) == REWRIGHT_USAGE);
  rewright_generation_free(generation);
  rewright_generation_free(nullptr);
  rewright_language_model_free(nullptr);
}

}  // namespace rewright::api
