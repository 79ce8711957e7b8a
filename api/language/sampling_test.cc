#include "api/language/sampling.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"

namespace rewright::api {

namespace {

// Few different values, so that many are equal.
std::vector<float> random_logits(std::mt19937& random) {
  std::vector<float> logits(1 + random() % 60);
  for (float& x : logits) x = static_cast<float>(static_cast<int>(random() % 41)) / 8.0f - 2.5f;
  if (logits.size() > 1 && random() % 4 == 0) logits[0] = -std::numeric_limits<float>::infinity();
  return logits;
}

// The definition: all tokens sorted, softmax, the k first ones, of these the fewest that reach p.
std::map<std::int64_t, double> plain_probabilities(const std::vector<float>& logits, const Sampling& s) {
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
  if (s.top_k > 0 && s.top_k < static_cast<std::int64_t>(order.size())) order.resize(s.top_k);
  std::vector<double> shares;
  for (const std::int64_t t : order) shares.push_back(std::exp((logits[t] - logits[order[0]]) / s.temperature));
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::size_t kept = shares.size();
  if (s.top_p < 1)
    for (double sum = kept = 0; kept == 0 || (kept < shares.size() && sum < s.top_p * total); ++kept) sum += shares[kept];
  const double kept_total = std::accumulate(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
  std::map<std::int64_t, double> result;
  for (std::size_t i = 0; i < kept; ++i) result[order[i]] = shares[i] / kept_total;
  return result;
}

}  // namespace

TEST_CASE("candidates have the probabilities of softmax, the k most likely ones, and the fewest that reach p") {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::vector<float> logits = random_logits(random);
    Sampling s{.temperature = 0.1 + static_cast<double>(random() % 30) / 10};
    if (random() % 2) s.top_k = static_cast<std::int64_t>(random() % 70);
    if (random() % 2) s.top_p = static_cast<double>(random() % 1001) / 1000;
    const std::map<std::int64_t, double> expected = plain_probabilities(logits, s);
    const std::vector<TokenShare> found = candidates(logits, s);
    REQUIRE(found.size() == expected.size());
    double total = 0;
    for (const TokenShare& c : found) total += c.share;
    for (const TokenShare& c : found) {
      REQUIRE(expected.contains(c.token));
      CHECK(c.share / total == Approx(expected.at(c.token)).margin(1e-12));
    }
  }
}

TEST_CASE("tokens are chosen as often as their probabilities say") {
  std::mt19937 random(2);
  for (int i = 0; i < 10; ++i) {
    const std::vector<float> logits = random_logits(random);
    const Sampling s{.temperature = 1.5, .top_k = 12, .top_p = 0.95};
    const std::map<std::int64_t, double> expected = plain_probabilities(logits, s);
    Sampler sampler(s, 7, static_cast<std::uint32_t>(i));
    constexpr int kDraws = 20000;
    std::map<std::int64_t, int> counts;
    for (int n = 0; n < kDraws; ++n) ++counts[sampler.choose(logits)];
    for (const auto& [token, count] : counts) REQUIRE(expected.contains(token));
    for (const auto& [token, probability] : expected) {
      const double deviation = std::sqrt(kDraws * probability * (1 - probability));
      CHECK(std::abs(counts[token] - kDraws * probability) <= 5 * deviation + 1);
    }
  }
}

TEST_CASE("choices depend on the seed and on the sequence, and on nothing else") {
  const std::vector<float> logits(1000, 0.0f);
  const auto draw = [&](std::uint64_t seed, std::uint32_t sequence) {
    Sampler sampler({.temperature = 1}, seed, sequence);
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < 20; ++i) tokens.push_back(sampler.choose(logits));
    return tokens;
  };
  CHECK(draw(1, 0) == draw(1, 0));
  CHECK(draw(1, 0) != draw(2, 0));
  CHECK(draw(1, 0) != draw(1, 1));
  CHECK(draw(1, 0) != draw(1 + (std::uint64_t{1} << 32), 0));
  // Fixed numbers: the C++ standard defines MT19937-64 and its seeding exactly.
  Sampler sampler({.temperature = 1}, 0, 0);
  std::seed_seq seeds{0u, 0u, 0u};
  std::mt19937_64 generator(seeds);
  CHECK(sampler.choose(logits) ==
        static_cast<std::int64_t>(std::floor(1000 * std::ldexp(static_cast<double>(generator() >> 11), -53))));
}

TEST_CASE("without temperature the first of the most likely tokens is chosen") {
  Sampler sampler({}, 5, 0);
  CHECK(sampler.choose(std::vector<float>{1, 3, 2, 3}) == 1);
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    const std::vector<float> logits = random_logits(random);
    CHECK(sampler.choose(logits) == std::max_element(logits.begin(), logits.end()) - logits.begin());
    // A very low temperature chooses among the most likely ones.
    Sampler cold({.temperature = 1e-300}, 5, 0);
    CHECK(logits[cold.choose(logits)] == *std::max_element(logits.begin(), logits.end()));
  }
}

TEST_CASE("repetition makes tokens less likely, once however often they occur") {
  std::vector<float> logits{2, -2, 2, -2, 0};
  penalize_repetition(logits, std::vector<std::int64_t>{0, 1, 0, 0, 4, 17, -1}, 2);
  CHECK(logits == std::vector<float>{1, -4, 2, -2, 0});
  penalize_repetition(logits, std::vector<std::int64_t>{0, 1, 2, 3, 4}, 1);
  CHECK(logits == std::vector<float>{1, -4, 2, -2, 0});
}

TEST_CASE("logits that are no numbers, or allow no token, are errors") {
  constexpr float kNone = -std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature}, 0, 0);
    CHECK_THROWS_WITH(sampler.choose(std::vector<float>{1, kNan, 2}), Catch::Contains("not numbers"));
    CHECK_THROWS_WITH(sampler.choose(std::vector<float>{kNone, kNone}), Catch::Contains("no token"));
    CHECK_THROWS_WITH(sampler.choose({}), Catch::Contains("no token"));
    CHECK(sampler.choose(std::vector<float>{kNone, 0, kNone}) == 1);
    CHECK(sampler.choose(std::vector<float>{0, -kNone, 5}) == 1);
  }
}

}  // namespace rewright::api
