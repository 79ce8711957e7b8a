// Fewer gates: rotations of one sum of qubits become one (rotations.h), and parts of a circuit on three qubits become graphs of
// operators, equality saturation finds the cheapest equal ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/quantum/circuit.h"
#include "rules/rule.h"

namespace rewright::quantum {

inline constexpr std::size_t kWidth = 3;  // qubits of a part

struct MinimizeOptions {
  std::size_t window = 14;   // gates of a part, at most
  std::size_t nodes = 1200;  // e-nodes of a saturation
  std::chrono::duration<double> budget{10};
  bool merge_rotations = true;  // before each pass, and at last
  int passes = 1000;            // over the whole circuit, at most
  std::uint64_t seed = 1;
};

struct Minimized {
  Circuit circuit;
  std::size_t windows = 0, replaced = 0;
  int passes = 0;
};

// Each part that is replaced is compared with what replaces it on all basis states; Error(kUnsupported) if they differ, which
// only a wrong rule can cause. The circuit never gets longer.
Minimized minimize(const Circuit& circuit, const std::vector<rules::Rule>& rules, const MinimizeOptions& options);

}  // namespace rewright::quantum
