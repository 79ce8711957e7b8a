// A language model that continues texts, on numbers of tokens. Its folder is one of onnxruntime-genai's: genai_config.json and
// an ONNX model.
//
//   const LanguageModel model("smollm2");
//   Generation text = model.generate({{504, 3575, 282, 4649, 314}}, {.max_tokens = 20});
//   while (const auto tokens = text.next(); !tokens.empty()) std::cout << *tokens[0] << " ";
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/language/config.h"
#include "api/language/generation_options.h"

namespace rewright::api {

using Tokens = std::vector<std::int64_t>;

class Decoder;  // api/language/decoder.h

// Wall-clock times of a generation so far.
struct GenerationTimes {
  double prompt_seconds = 0;  // until the logits behind the prompts were there
  double step_seconds = 0;    // for all steps after it
  std::size_t steps = 0;
  // Per sequence, without the prompt; 0 before the second token.
  double tokens_per_second() const { return step_seconds > 0 ? static_cast<double>(steps) / step_seconds : 0; }
};

// Sequences that go on, a token each at a time. By one thread at a time.
class Generation {
 public:
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  ~Generation();

  // The next token of each sequence that has not ended; empty once all have. A token that ends its sequence is the sequence's
  // last. Throws Error as Session::run does, and afterwards again; Error(kBadInput) if the model's outputs do not fit.
  std::vector<std::optional<std::int64_t>> next();
  // Prompts and new tokens.
  const std::vector<Tokens>& sequences() const;
  const GenerationTimes& times() const;

 private:
  friend class LanguageModel;
  struct State;
  explicit Generation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Copies share one model, and several threads may use it at once.
class LanguageModel {
 public:
  // `device` as find_backend, `threads` as usable_threads. Throws Error as read_language_config and import_onnx do, and if the
  // model's inputs and outputs are not those of the configuration.
  explicit LanguageModel(const std::filesystem::path& folder, const std::string& device = "cpu", int threads = 0);

  const LanguageConfig& config() const;
  // Nothing is computed before next(). Throws Error(kUsage) for no prompt and for an empty one, Error(kBadInput) for tokens
  // that the model does not have and for prompts that its context has no room for.
  Generation generate(std::vector<Tokens> prompts, const GenerationRequest& request = {}) const;

 private:
  std::shared_ptr<const Decoder> decoder_;
};

}  // namespace rewright::api
