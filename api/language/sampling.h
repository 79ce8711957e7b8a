// Choosing the next token of a text from a model's logits.
//
//   Sampler sampler({.temperature = 0.7, .top_k = 40}, seed, 0);
//   penalize_repetition(logits, text, 1.1);
//   text.push_back(sampler.choose(logits));
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace rewright::api {

struct Sampling {
  double temperature = 0;  // 0: the most likely token. Else probabilities are softmax(logits / temperature)
  std::int64_t top_k = 0;  // only the k most likely tokens; 0: all
  double top_p = 1;        // of these the fewest most likely ones whose probabilities add up to p
};

struct TokenShare {
  std::int64_t token;
  double share;  // a probability up to a factor that all shares of a list have in common
};

// The tokens that may be chosen, and their probabilities up to a common factor. Of equal logits, that of the smaller token
// counts as more likely. With a limit (top_k, top_p) the most likely token stands first, without one the tokens are in order.
// The temperature must be positive. Throws Error(kBadInput) if a logit is not a number, or all are minus infinity.
std::vector<TokenShare> candidates(std::span<const float> logits, const Sampling& sampling);

// The first of the most likely tokens. Throws as candidates().
std::int64_t most_likely(std::span<const float> logits);

// For each token that occurs in the text, a positive logit is divided by the penalty and a negative one multiplied by it
// (CTRL, arXiv 1909.05858). A penalty above 1 discourages repetition. Tokens without a logit are skipped.
void penalize_repetition(std::span<float> logits, std::span<const std::int64_t> text, double penalty);

// Chooses tokens of one sequence. The same seed and number of the sequence give the same choices, on every machine.
class Sampler {
 public:
  Sampler(const Sampling& sampling, std::uint64_t seed, std::uint32_t sequence);
  std::int64_t choose(std::span<const float> logits);

 private:
  Sampling sampling_;
  std::mt19937_64 random_;
};

}  // namespace rewright::api
