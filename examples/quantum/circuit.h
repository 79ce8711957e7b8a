// Circuits of Nam's gate set {H, X, Rz(k pi / 4), CNOT} (npj Quantum Information 4, 2018), read and written as OpenQASM 2, and
// their exact meaning.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/namespaces.h"

namespace rewright::quantum {

struct Gate {
  enum class Kind : std::uint8_t { kHadamard, kNot, kRotation, kControlledNot };
  Kind kind;
  int qubit;         // of kControlledNot the target
  int control = -1;  // kControlledNot
  int power = 0;     // kRotation: diag(1, w^power), w = exp(i pi / 4), from 1 to 7

  bool acts_on(int q) const { return q == qubit || q == control; }
  friend bool operator==(const Gate&, const Gate&) = default;
};

struct Circuit {
  int qubits = 0;
  std::vector<Gate> gates;  // in the order of time
};

// Reads one register and the gates h, x, z, s, sdg, t, tdg, rz, u1, p, cx, ccx and ccz. Angles are multiples of pi / 4, and the
// global phase does not count. A ccz becomes 13 gates, 7 of them T: where the ccz before it that shares two of its qubits
// begins with T, it begins with the inverse of T, so that what computes and what uncomputes may cancel. Throws Error(kBadInput)
// with file and line.
Circuit read_qasm(std::string_view text, const std::string& name);
std::string write_qasm(const Circuit& circuit);

// An amplitude over sqrt(2)^k: coefficients of 1, w, w^2, w^3.
using Amplitude = std::array<std::int64_t, 4>;

// The state that a circuit makes of a basis state, exactly: numerators of all amplitudes that are not zero, over sqrt(2)^root.
struct State {
  std::map<std::uint64_t, Amplitude> amplitudes;  // by basis state, a bit a qubit
  int root = 0;
};
// Throws Error(kUnsupported) if they are too many, or too large.
State simulate(std::span<const Gate> gates, std::uint64_t basis);

// Do circuits make the same of these basis states, up to one phase w^k for all of them? Throws as simulate().
bool equal_on(std::span<const Gate> a, std::span<const Gate> b, std::span<const std::uint64_t> states);

}  // namespace rewright::quantum
