#!/usr/bin/env python3
"""The example of quantum circuits: its circuits compute what they should, and are minimized. Usage: quantum.py PROGRAM SOURCE_FOLDER"""

import os
import random
import re
import subprocess
import sys
import tempfile

PROGRAM, SOURCE = sys.argv[1:3]
EXAMPLE = os.path.join(SOURCE, "examples", "quantum")
sys.path.insert(1, EXAMPLE)

import circuits  # noqa: E402


def run(name, state):
    """The state that a circuit of NOT, CNOT and Toffoli gates makes of a basis state."""
    for *controls, target in circuits.CIRCUITS[name][1]:
        if all(state >> qubit & 1 for qubit in controls):
            state ^= 1 << target
    return state


def bits(state, qubits):
    return sum((state >> qubit & 1) << n for n, qubit in enumerate(qubits))


def circuits_compute_what_they_say():
    for name in circuits.CIRCUITS:
        if "tof" in name:
            n = int(name.split("_")[-1])
            for controls in random.sample(range(1 << n), min(1 << n, 100)) + [(1 << n) - 1]:
                helpers = random.getrandbits(n - 2) if name.startswith("barenco") else 0  # in any state there
                state = controls | helpers << n
                assert run(name, state) == state ^ (controls == (1 << n) - 1) << 2 * n - 2, (name, state)
    for number in range(16):
        assert run("mod5_4", number) >> 4 == (number % 5 == 0), number
    for a in range(8):
        for b in range(8):
            state = sum((a >> i & 1) << 3 * i + 1 | (b >> i & 1) << 3 * i + 2 for i in range(3))
            assert bits(run("vbe_adder_3", state), [2, 5, 8, 9]) == a + b, (a, b)
    for n, middle in ((4, 1), (5, 2), (6, 1), (7, 1), (9, 1)):
        for _ in range(100):
            a, b, product = random.getrandbits(n), random.getrandbits(n), 0
            for i in range(n):
                product ^= (a << i) * (b >> i & 1)
            for power in range(2 * n - 2, n - 1, -1):
                if product >> power & 1:
                    product ^= 1 << power | 1 << power - n + middle | 1 << power - n
            assert run(f"gf2^{n}_mult", a | b << n) >> 2 * n == product, (n, a, b)


def minimized(folder, name, *options):
    path, result = (os.path.join(folder, name + end) for end in (".qasm", ".smaller.qasm"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(circuits.qasm(*circuits.CIRCUITS[name]))
    rules = os.path.join(EXAMPLE, "gates.rules")
    said = subprocess.run([PROGRAM, "minimize", path, "-o", result, "--rules", rules, *options], check=True, capture_output=True, text=True).stdout
    before, after = map(int, re.search(r"(\d+) -> (\d+) gates", said).groups())
    assert before == circuits.GATES[name], (name, before)
    # The result is read again, and has as many gates as it says.
    again = subprocess.run([PROGRAM, "minimize", result, "-o", path, "--rules", rules, "--seconds", "0", "--without-merging"],
                           check=True, capture_output=True, text=True).stdout
    assert f" {after} -> {after} gates" in again, again
    return after


def main():
    random.seed(1)
    circuits_compute_what_they_say()
    with tempfile.TemporaryDirectory() as folder:
        for name in circuits.CIRCUITS:
            assert minimized(folder, name, "--seconds", "0") < circuits.GATES[name], name
        for options in ((), ("--without-merging",)):
            assert minimized(folder, "tof_3", "--seconds", "2", *options) < 45, options
        failed = subprocess.run([PROGRAM, "minimize", "/no/such.qasm", "-o", "x", "--rules", "y"], capture_output=True, text=True, check=False)
        assert failed.returncode == 3 and "/no/such.qasm" in failed.stderr, failed
    return 0


if __name__ == "__main__":
    sys.exit(main())
