// Gates of quantum circuits as operators, each from its definition alone.
//
// Amplitudes of circuits of these gates are in Z[w, 1/2], w = exp(i pi / 4): four rational coefficients, of 1, w, w^2 and w^3,
// where w^4 = -1. A state of n qubits is a tensor [4, 2, ..., 2]: the coefficients, then an axis for each qubit. All gates are
// linear in it, with rational coefficients.
//
//   H(axis)                             (1, 1; 1, -1) / sqrt(2)               sqrt(2) = w - w^3
//   X(axis)                             (0, 1; 1, 0)
//   Rz(axis, power)                     (1, 0; 0, w^power)                    T = Rz(1), S = Rz(2), Z = Rz(4)
//   CNOT(control_axis, target_axis)     |c, t> -> |c, t + c mod 2>
//   Phase(power)                        w^power times the identity, which no measurement sees
#pragma once

#include <vector>

#include "examples/quantum/circuit.h"
#include "graph/graph.h"

namespace rewright::quantum {

// Makes the gates known. To be called before the registry of operators is used.
void add_gates();

// Applies a gate to a state; the axes 1, 2, ... are these qubits.
graph::ValueId add_gate(graph::Graph& graph, const Gate& gate, const std::vector<int>& qubits, graph::ValueId state);
// The gate of an operator; a phase adds none.
void append_gate(const operators::Operator& op, const Attributes& attributes, const std::vector<int>& qubits,
                 std::vector<Gate>& gates);

}  // namespace rewright::quantum
