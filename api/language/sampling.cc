#include "api/language/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <unordered_set>

#include "base/error.h"

namespace rewright::api {

namespace {

// Orders a heap by likelihood, the most likely token on top.
struct LessLikely {
  std::span<const float> logits;
  bool operator()(std::int64_t a, std::int64_t b) const {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x < y : a > b;
  }
};

}  // namespace

std::int64_t most_likely(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t t = 0; t < logits.size(); ++t) {
    if (std::isnan(logits[t])) throw Error(ErrorCode::kBadInput, "the model's logits are not numbers");
    if (logits[t] > logits[best]) best = t;
  }
  if (logits.empty() || logits[best] == -std::numeric_limits<float>::infinity())
    throw Error(ErrorCode::kBadInput, "the model's logits allow no token");
  return static_cast<std::int64_t>(best);
}

std::vector<TokenShare> candidates(std::span<const float> logits, const Sampling& sampling) {
  const double most = logits[static_cast<std::size_t>(most_likely(logits))];
  // Infinite logits share the probability among themselves.
  const auto share = [&](std::size_t t) {
    return logits[t] == most ? 1.0 : std::exp((static_cast<double>(logits[t]) - most) / sampling.temperature);
  };
  std::vector<TokenShare> result;
  const auto count = static_cast<std::int64_t>(logits.size());
  const std::int64_t at_most = sampling.top_k > 0 ? std::min(sampling.top_k, count) : count;
  if (at_most == count && sampling.top_p >= 1) {
    result.reserve(logits.size());
    for (std::size_t t = 0; t < logits.size(); ++t) result.push_back({static_cast<std::int64_t>(t), share(t)});
    return result;
  }
  std::vector<std::int64_t> heap(logits.size());
  for (std::size_t t = 0; t < heap.size(); ++t) heap[t] = static_cast<std::int64_t>(t);
  const LessLikely less{logits};
  double total = 0;  // of the k most likely
  if (at_most < count) {
    // nth_element orders descending here: the most likely ones come first.
    std::nth_element(heap.begin(), heap.begin() + at_most, heap.end(), [&](auto a, auto b) { return less(b, a); });
    heap.resize(static_cast<std::size_t>(at_most));
  }
  for (const std::int64_t t : heap) total += share(static_cast<std::size_t>(t));
  std::make_heap(heap.begin(), heap.end(), less);
  double sum = 0;
  while (!heap.empty() && (result.empty() || sampling.top_p >= 1 || sum < sampling.top_p * total)) {
    std::pop_heap(heap.begin(), heap.end(), less);
    result.push_back({heap.back(), share(static_cast<std::size_t>(heap.back()))});
    sum += result.back().share;
    heap.pop_back();
  }
  return result;
}

void penalize_repetition(std::span<float> logits, std::span<const std::int64_t> text, double penalty) {
  if (penalty == 1) return;
  const std::unordered_set<std::int64_t> tokens(text.begin(), text.end());
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= static_cast<std::int64_t>(logits.size())) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = static_cast<float>(logit > 0 ? logit / penalty : logit * penalty);
  }
}

Sampler::Sampler(const Sampling& sampling, std::uint64_t seed, std::uint32_t sequence) : sampling_(sampling) {
  std::seed_seq seeds{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), sequence};
  random_.seed(seeds);
}

std::int64_t Sampler::choose(std::span<const float> logits) {
  if (sampling_.temperature <= 0) return most_likely(logits);
  const std::vector<TokenShare> all = candidates(logits, sampling_);
  double total = 0;
  for (const TokenShare& c : all) total += c.share;
  // 53 random bits: a double in [0, 1). Distributions of the standard library differ between its implementations.
  double left = std::ldexp(static_cast<double>(random_() >> 11), -53) * total;
  for (const TokenShare& c : all) {
    left -= c.share;
    if (left < 0) return c.token;
  }
  // Rounding: the last one that can be chosen.
  return std::find_if(all.rbegin(), all.rend(), [](const TokenShare& c) { return c.share > 0; })->token;
}

}  // namespace rewright::api
