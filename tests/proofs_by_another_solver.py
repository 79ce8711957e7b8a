"""Proofs checked by another solver: python proofs_by_another_solver.py REWRIGHT SOLVER RULES ...

Proves the rules by the linked Z3 and has the checker replay their certificates with every question put to the other solver, a
program that reads SMT-LIB from its standard input.
"""

import json
import subprocess
import sys
import tempfile


def run(*command):
    result = subprocess.run([*command, "--json", "-"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode > 1:
        sys.exit(f"{' '.join(command[:3])} ... ended with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def main():
    program, solver, *rules = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        proved = run(program, "verify", *rules, "--certificates", folder)
        checked = run(program, "verify", "--check-certificate", folder, "--solver", solver)
    wrong = [f"{rule['name']} is {rule['verdict']}" for rule in proved["rules"] if rule["verdict"] != "proved"]
    wrong += [f"the certificate of {c['rule']} is refused: {c['reason']}" for c in checked["certificates"] if c["verdict"] != "accepted"]
    print(f"{checked['accepted']} of {proved['proved']} proofs accepted with {solver}")
    if wrong or checked["accepted"] != proved["proved"] or not proved["proved"]:
        sys.exit("\n".join(wrong or ["not every proof was checked"]))


if __name__ == "__main__":
    main()
