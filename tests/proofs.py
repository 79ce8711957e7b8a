"""The proofs of the shipped rules: python proofs.py REWRIGHT [--threads N]

Proves the whole database, compares each certificate with the list of proofs, and has the checker replay them all.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

DATABASE = pathlib.Path(__file__).resolve().parent.parent / "rules" / "database"


def run(*command):
    result = subprocess.run([*command, "--json", "-"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode > 1:
        sys.exit(f"{' '.join(command[:3])} ... ended with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def read_lock():
    lines = (DATABASE / "proofs.txt").read_text().splitlines()
    return {words[0]: tuple(words[1:]) for words in map(str.split, lines) if words and words[0] != "#"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    threads = ("--threads", str(options.threads))
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        certificates, proved = f"{folder}/certificates", f"{folder}/proved"
        facts = run(options.program, "verify", *sorted(map(str, DATABASE.glob("*.rules"))), "-o", proved, "--certificates", certificates, *threads)
        wrong += [f"{rule['name']} is {rule['verdict']}" for rule in facts["rules"] if rule["verdict"] != "proved"]
        print(f"{facts['proved']} rules proved in {facts['seconds']:.1f} s")
        rules = run(options.program, "rules", "list", proved)["rules"]
        found = {rule["name"]: (rule["hash"], rule["digest"], str(rule["ranks"] or "all")) for rule in rules}
        lock = read_lock()
        wrong += [f"{name} has another proof than in the list" for name in sorted(found.keys() | lock.keys()) if found.get(name) != lock.get(name)]
        checked = run(options.program, "verify", "--check-certificate", certificates, *threads)
        wrong += [f"the certificate of {c['rule']} is refused: {c['reason']}" for c in checked["certificates"] if c["verdict"] != "accepted"]
        accepted = {c["rule"]: c["digest"] for c in checked["certificates"]}
        wrong += [f"the certificate of {name} has another digest" for name in lock if accepted.get(name) != lock[name][1]]
        print(f"{checked['accepted']} certificates accepted in {checked['seconds']:.1f} s")
    if wrong:
        sys.exit("\n".join(wrong) + "\nrun tools/prove_rules if that is meant to be")


if __name__ == "__main__":
    main()
