#include "examples/quantum/circuit.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"

namespace rewright::quantum {

namespace {

constexpr int kPhases = 8;
constexpr std::size_t kMostAmplitudes = std::size_t{1} << 16;
constexpr std::int64_t kLargest = std::int64_t{1} << 60;  // of a coefficient, so that a sum of two has room

Amplitude times_phase(const Amplitude& a, int power) {
  Amplitude result{};
  for (int j = 0; j < 4; ++j) {
    const int at = (j + power) % kPhases;
    result[static_cast<std::size_t>(at % 4)] = at < 4 ? a[static_cast<std::size_t>(j)] : -a[static_cast<std::size_t>(j)];
  }
  return result;
}

Amplitude sum(const Amplitude& a, const Amplitude& b, int sign) {
  Amplitude result{};
  for (std::size_t j = 0; j < 4; ++j) {
    result[j] = a[j] + sign * b[j];
    if (result[j] > kLargest || result[j] < -kLargest)
      throw Error(ErrorCode::kUnsupported, "its amplitudes are too large to be known exactly", "a circuit");
  }
  return result;
}

// sqrt(2) = w - w^3
Amplitude times_root(const Amplitude& a) { return sum(times_phase(a, 1), times_phase(a, 3), -1); }

std::uint64_t bit(int qubit) { return std::uint64_t{1} << qubit; }

// Drops zeros and common factors of 2.
void reduce(State& state) {
  std::erase_if(state.amplitudes, [](const auto& entry) { return entry.second == Amplitude{}; });
  const auto even = [](const auto& entry) {
    return std::all_of(entry.second.begin(), entry.second.end(), [](std::int64_t c) { return c % 2 == 0; });
  };
  while (state.root >= 2 && std::all_of(state.amplitudes.begin(), state.amplitudes.end(), even)) {
    for (auto& [basis, amplitude] : state.amplitudes)
      for (std::int64_t& c : amplitude) c /= 2;
    state.root -= 2;
  }
}

void apply(const Gate& gate, State& state) {
  if (state.amplitudes.size() > kMostAmplitudes)
    throw Error(ErrorCode::kUnsupported, "its states have more than " + std::to_string(kMostAmplitudes) + " amplitudes",
                "a circuit");
  std::map<std::uint64_t, Amplitude> next;
  const std::uint64_t target = bit(gate.qubit);
  for (const auto& [basis, amplitude] : state.amplitudes) {
    const bool one = (basis & target) != 0;
    switch (gate.kind) {
      case Gate::Kind::kHadamard: {
        Amplitude &zeros = next[basis & ~target], &ones = next[basis | target];
        zeros = sum(zeros, amplitude, 1);
        ones = sum(ones, amplitude, one ? -1 : 1);
        break;
      }
      case Gate::Kind::kNot:
        next[basis ^ target] = amplitude;
        break;
      case Gate::Kind::kRotation:
        next[basis] = one ? times_phase(amplitude, gate.power) : amplitude;
        break;
      case Gate::Kind::kControlledNot:
        next[(basis & bit(gate.control)) != 0 ? basis ^ target : basis] = amplitude;
        break;
    }
  }
  state.amplitudes = std::move(next);
  if (gate.kind != Gate::Kind::kHadamard) return;
  ++state.root;
  reduce(state);
}

// a = w^phase b?
bool equal(const State& a, const State& b, int phase) {
  return a.amplitudes.size() == b.amplitudes.size() &&
         std::equal(a.amplitudes.begin(), a.amplitudes.end(), b.amplitudes.begin(), [&](const auto& x, const auto& y) {
           return x.first == y.first && x.second == times_phase(y.second, phase);
         });
}

}  // namespace

State simulate(std::span<const Gate> gates, std::uint64_t basis) {
  State state{{{basis, {1, 0, 0, 0}}}, 0};
  for (const Gate& gate : gates) apply(gate, state);
  return state;
}

bool equal_on(std::span<const Gate> a, std::span<const Gate> b, std::span<const std::uint64_t> states) {
  std::optional<int> phase;
  for (const std::uint64_t basis : states) {
    State left = simulate(a, basis), right = simulate(b, basis);
    while (left.root != right.root) {
      State& lower = left.root < right.root ? left : right;
      for (auto& [at, amplitude] : lower.amplitudes) amplitude = times_root(amplitude);
      ++lower.root;
    }
    if (!phase) {
      int found = 0;
      while (found < kPhases && !equal(left, right, found)) ++found;
      phase = found;
    }
    if (*phase == kPhases || !equal(left, right, *phase)) return false;
  }
  return true;
}

}  // namespace rewright::quantum
