"""Writes circuits as OpenQASM 2, each built from its construction in the literature: python3 circuits.py FOLDER

tof_n            n controls, n - 2 qubits that are 0 before and after: 2 (n - 2) + 1 Toffoli gates
barenco_tof_n    n controls, n - 2 qubits in any state: 4 (n - 2) Toffoli gates. Both: Barenco et al., Elementary gates for quantum
                 computation (Physical Review A 52, 1995)
vbe_adder_n      a sum of two numbers of n bits: Vedral, Barenco and Ekert, Quantum networks for elementary arithmetic operations
                 (Physical Review A 54, 1996)
mod5_4           inverts its last qubit where a number of 4 bits is a multiple of 5: the polynomial modulo 2 of that function
gf2^n_mult       a product in the field of 2^n elements, by a polynomial of three terms: Cheung, Maslov, Mathew and Pradhan, On the
                 design and optimization of a quantum polynomial-time attack on elliptic curve cryptography (TQC 2008)

A Toffoli gate is two H around a ccz, and two H between which nothing touches their qubit are left out. So the circuits have as many
gates of Nam's set as those of these names in the table of Quartz (PLDI 2022), which tests compare (GATES).
"""

import pathlib
import sys

GATES = {
    "tof_3": 45, "tof_4": 75, "tof_5": 105, "tof_10": 255,
    "barenco_tof_3": 58, "barenco_tof_4": 114, "barenco_tof_5": 170, "barenco_tof_10": 450,
    "vbe_adder_3": 150, "mod5_4": 63, "gf2^4_mult": 225, "gf2^5_mult": 347, "gf2^6_mult": 495, "gf2^7_mult": 669, "gf2^9_mult": 1095,
}


def tof(n):
    helpers, target = list(range(n, 2 * n - 2)), 2 * n - 2
    compute = [(0, 1, helpers[0])] + [(i + 1, helpers[i - 1], helpers[i]) for i in range(1, n - 2)]
    return target + 1, compute + [(n - 1, helpers[-1], target)] + compute[::-1]


def barenco_tof(n):
    helpers, target = list(range(n, 2 * n - 2)), 2 * n - 2
    wires = helpers + [target]
    down = [(i + 1, wires[i - 1], wires[i]) for i in range(n - 2, 0, -1)]
    inner = down[1:] + [(0, 1, wires[0])] + down[1:][::-1]
    return target + 1, down[:1] + inner + down[:1] + inner


def vbe_adder(n):
    # Qubits by bit: the carry into it, a, b, and the carry out of it.
    bits = [(3 * i, 3 * i + 1, 3 * i + 2, 3 * i + 3) for i in range(n)]

    def carry(c, a, b, out):
        return [(a, b, out), (a, b), (c, b, out)]

    gates = [gate for bit in bits for gate in carry(*bit)]
    # The last bit needs no carry undone: a + b is there already.
    gates.append((bits[-1][0], bits[-1][2]))
    for c, a, b, out in bits[-2::-1]:
        gates += carry(c, a, b, out)[::-1] + [(a, b), (c, b)]
    return 3 * n + 1, gates


def mod5(bits):
    # Coefficients of the polynomial, by the Moebius transform of the function's values.
    values = [number % 5 == 0 for number in range(1 << bits)]
    for bit in range(bits):
        for number in range(1 << bits):
            if number >> bit & 1:
                values[number] ^= values[number ^ 1 << bit]
    gates = []
    terms = [[bit for bit in range(bits) if number >> bit & 1] for number in range(1 << bits) if values[number]]
    # The constant first, then by highest bit, downwards: its products with lower bits before the bit itself.
    for term in sorted(terms, key=lambda term: (-max(term, default=bits), len(term) == 1, term)):
        gates.append((*term, bits))
    return bits + 1, gates


def gf2_mult(n, middle):
    # Modulo x^n + x^middle + 1, on a, b, and c which gets the product: first the coefficients of x^n and higher powers, as they
    # are to be added to c, then those of lower ones.
    def c(power):
        return 2 * n + power

    gates = [(i, n + n + high - i, c(high)) for high in range(n - 1) for i in range(high + 1, n)]
    # x^(n + high) = x^high + x^(middle + high): from the highest on, so that each sum reads what it should.
    for high in range(n - 2, -1, -1):
        gates.append((c(high), c((middle + high) % n)))
    return 3 * n, gates + [(i, n + low - i, c(low)) for low in range(n) for i in range(low + 1)]


CIRCUITS = {f"tof_{n}": tof(n) for n in (3, 4, 5, 10)}
CIRCUITS |= {f"barenco_tof_{n}": barenco_tof(n) for n in (3, 4, 5, 10)}
CIRCUITS |= {"vbe_adder_3": vbe_adder(3), "mod5_4": mod5(4)}
CIRCUITS |= {f"gf2^{n}_mult": gf2_mult(n, middle) for n, middle in ((4, 1), (5, 2), (6, 1), (7, 1), (9, 1))}


def with_hadamards(gates):
    """H and ccz in place of Toffoli gates, and no two H side by side on a qubit."""
    result = []
    for *controls, target in gates:
        result += [("h", target), ("ccz", *controls, target), ("h", target)] if len(controls) == 2 else [("cx" if controls else "x", *controls, target)]
    at = 0
    while at < len(result):
        later = next((n for n in range(at + 1, len(result)) if result[at][-1] in result[n][1:]), None)
        if result[at][0] == "h" and later is not None and result[later] == result[at]:
            del result[later], result[at]
            at = 0
        else:
            at += 1
    return result


def qasm(qubits, gates):
    lines = ["OPENQASM 2.0;", 'include "qelib1.inc";', f"qreg q[{qubits}];"]
    lines += [f"{name} {','.join(f'q[{qubit}]' for qubit in on)};" for name, *on in with_hadamards(gates)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for circuit, (number, gates_of_it) in CIRCUITS.items():
        (folder / f"{circuit}.qasm").write_text(qasm(number, gates_of_it), encoding="utf-8")
