// Rotations of the same sum of qubits, merged, wherever they are in a circuit.
#pragma once

#include <span>
#include <vector>

#include "examples/quantum/circuit.h"

namespace rewright::quantum {

// A circuit is a sum over paths: each H begins a new variable on its qubit, X and CNOT make the qubits' values sums modulo 2 of
// variables, and Rz(k) multiplies by w^(k s) where its qubit's value is s. So of all rotations of one sum s only the total of
// their powers matters, not their places: the first of them gets it (Nam et al., npj Quantum Information 4, 2018). Equal up to
// a global phase; never longer.
std::vector<Gate> merged_rotations(std::span<const Gate> gates);

}  // namespace rewright::quantum
