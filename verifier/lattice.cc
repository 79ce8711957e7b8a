// Maxima of minima and minima of maxima: a lattice is distributive, and a value absorbs what is between it and another one.
#include <algorithm>

#include "verifier/normal_form.h"

namespace rewright::proof {

namespace {

constexpr std::size_t kMostSets = 12, kMostInSet = 6;

using Minimum = std::vector<Sum>;     // of these values; not empty
using Minima = std::vector<Minimum>;  // their maximum

bool includes_value(const Minimum& set, const Sum& value) {
  return std::any_of(set.begin(), set.end(), [&](const Sum& other) { return same_value(value, other); });
}

bool is_within(const Minimum& a, const Minimum& b) {
  return std::all_of(a.begin(), a.end(), [&](const Sum& value) { return includes_value(b, value); });
}

// min(a, b) is not above min(a), so that it does not count beside it.
Minima absorbed(const Minima& sets) {
  Minima result;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto is_below = [&](std::size_t k) {
      return k != i && is_within(sets[k], sets[i]) && (k < i || !is_within(sets[i], sets[k]));
    };
    bool absorbs = false;
    for (std::size_t k = 0; k < sets.size(); ++k) absorbs = absorbs || is_below(k);
    if (!absorbs) result.push_back(sets[i]);
  }
  return result;
}

std::size_t leaves_of(const Sum& sum) {
  bool is_maximum = false;
  std::size_t count = 0;
  for (const Sum& value : alternatives(sum, is_maximum)) count += leaves_of(value);
  return std::max<std::size_t>(count, 1);
}

// The value as a maximum of minima; nullopt if these are too many.
std::optional<Minima> minima_of(const Sum& value);

std::optional<Minima> minima_of_all(const std::vector<Sum>& values, bool is_maximum) {
  Minima result;
  if (!is_maximum) result.push_back({});
  for (const Sum& value : values) {
    const std::optional<Minima> of_value = minima_of(value);
    if (!of_value) return std::nullopt;
    if (is_maximum) {
      result.insert(result.end(), of_value->begin(), of_value->end());
    } else {
      Minima both;
      for (const Minimum& a : result)
        for (const Minimum& b : *of_value) {
          Minimum& joined = both.emplace_back(a);
          for (const Sum& one : b)
            if (!includes_value(joined, one)) joined.push_back(one);
          if (joined.size() > kMostInSet) return std::nullopt;
        }
      result = std::move(both);
    }
    result = absorbed(result);
    if (result.size() > kMostSets) return std::nullopt;
  }
  return result;
}

std::optional<Minima> minima_of(const Sum& value) {
  bool is_maximum = false;
  const std::vector<Sum> values = alternatives(value, is_maximum);
  if (values.empty()) return Minima{{value}};
  return minima_of_all(values, is_maximum);
}

std::size_t size_of(const Minima& sets) {
  std::size_t size = 0;
  for (const Minimum& set : sets) size += set.size();
  return size;
}

}  // namespace

// A maximum of values that are minima, or the other way round, in fewer values: as a maximum of minima, or as a minimum of
// maxima. nullopt if that has as many.
std::optional<Sum> Normalizer::of_lattice(const std::vector<MaximumElement>& elements) {
  std::vector<Sum> values, negated;
  std::size_t given = 0;
  for (const MaximumElement& e : elements) {
    if (!e.bound.empty() || !e.guards.empty()) return std::nullopt;
    values.push_back(e.value), negated.push_back(scaled(e.value, -1));
    given += leaves_of(e.value);
  }
  if (given <= elements.size()) return std::nullopt;  // none is a maximum or minimum
  const std::optional<Minima> minima = minima_of_all(values, true), maxima = minima_of_all(negated, false);
  const std::size_t most = given + 1;
  const std::size_t by_minima = minima ? size_of(*minima) : most, by_maxima = maxima ? size_of(*maxima) : most;
  if (std::min(by_minima, by_maxima) >= given) return std::nullopt;
  const bool is_dual = by_maxima < by_minima;
  std::vector<MaximumElement> outer;
  for (const Minimum& set : is_dual ? *maxima : *minima) {
    std::vector<MaximumElement> inner;
    for (const Sum& value : set) inner.push_back({{}, {}, scaled(value, -1)});
    add_elements({}, {}, set.size() == 1 ? set[0] : scaled(maximum(std::move(inner)), -1), outer);
  }
  return scaled(maximum(std::move(outer)), is_dual ? -1 : 1);
}

}  // namespace rewright::proof
