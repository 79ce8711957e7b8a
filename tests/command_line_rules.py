"""`rewright rules` and `verify`: python command_line_rules.py REWRIGHT [unittest's options]"""

import json
import pathlib
import subprocess
import sys

import onnx
from onnx import helper

from program import ProgramTest, main, same_shape


class Rules(ProgramTest):
    def test_rules_are_listed_and_shown(self):
        rules = self.report("rules", "list")["rules"]
        self.assertGreaterEqual(len(rules), 40)
        name = rules[0]["name"]
        self.assertIn(name, self.run_program("rules", "show", "--name", name).stdout)
        self.error("rules", "show", "--name", "no_such_rule", status=2)
        (self.folder / "bad.rules").write_text("rule broken: Conv(x => x")
        self.assertIn("bad.rules", self.error("rules", "list", self.path("bad.rules"), status=3))

    def test_every_shipped_rule_is_proved(self):
        for rule in self.report("rules", "list")["rules"]:
            self.assertEqual(rule["status"], "proved", rule["name"])

    def test_a_rule_is_shown_with_its_proof_and_drawn(self):
        (rule,) = self.report("rules", "show", "conv_add")["rules"]
        self.assertEqual((rule["name"], rule["math"], rule["status"], rule["for_training"]), ("conv_add", "reassociates", "proved", True))
        text = self.run_program("rules", "show", "conv_add", "matmul_add").stdout
        self.assertIn(rule["algebra"], text)
        self.assertIn("rule matmul_add", text)
        self.assertIn("# proved for all sizes", text)
        (self.folder / "again.rules").write_text(text)  # what is shown can be read
        self.assertEqual([r["hash"] for r in self.report("rules", "show", self.path("again.rules"), "conv_add")["rules"]], [rule["hash"]])
        dot = self.run_program("rules", "show", "conv_add", "--dot").stdout
        self.assertTrue(dot.startswith('digraph "conv_add" {'), dot)
        self.assertEqual(self.report("rules", "show", "conv_add", "--dot")["rules"][0]["dot"], dot)
        self.error("rules", "show", "conv_adds", status=2)

    def verify(self, *arguments, status):
        """Standard output without times, error lines, and the facts of a run of verify on one thread; on three they are the same."""
        runs = []
        for threads in ("1", "3"):
            command = [self.program, "verify", *arguments, "--threads", threads, "--json", self.path("facts")]
            result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            self.assertEqual(result.returncode, status, result.stderr)
            facts = json.loads((self.folder / "facts").read_text())
            del facts["seconds"]
            for rule in facts["rules"]:
                rule.pop("seconds", None)
            errors = [line for line in result.stderr.splitlines() if line.startswith("rewright: error: ")]
            runs.append((result.stdout, errors, facts))
        self.assertEqual(runs[0], runs[1])
        return runs[0]

    def test_bad_rules_leave_the_others_alone(self):
        bad = {
            "operator": 'x Foo(x) => x',
            "unbound": 'x Relu(x) => Transpose(x; perm=p)',
            "stray": 'x Relu(x) => $ x',
            "no_output": 'x Relu(x) =>',
            "cycle": 'x let t = Relu(t) Relu(x) => t',
            "source": 'x[M, N], y[N] Relu(Conv(x, y)) => x',
            "target": 'x[M] Relu(x) => Conv(x, x)',
            "contradiction": 'x[N] Relu(Relu(x)) => Relu(x) where N == 2, N mod 2 == 1',
        }
        texts = [f'rule {name}: "" {rule}' for name, rule in bad.items()]
        texts.insert(2, 'rule good: "" x Relu(Relu(x)) => Relu(x) exact')
        texts.append('rule wrong: "" x[M, M] Transpose(x; perm=[1, 0]) => x')
        file = self.rules("bad.rules", *texts)
        output, errors, facts = self.verify(file, "-o", self.path("proved"), status=3)
        self.assertEqual(len(errors), len(bad))
        for name in bad:
            self.assertEqual(len([e for e in errors if e.startswith(f'rewright: error: {file}: rule "{name}": ')]), 1, name)
        verdicts = {rule["name"]: rule for rule in facts["rules"]}
        self.assertEqual({n for n, r in verdicts.items() if r["verdict"] == "invalid"}, set(bad))
        self.assertTrue(all(verdicts[n]["error"] for n in bad))
        self.assertEqual(verdicts["good"]["verdict"], "proved")
        self.assertEqual(verdicts["wrong"]["counterexample"], "M = 2, x[2, 2] = [[0, 0], [1, 0]]: output 0 at [0, 1] is 1 in the source and 0 in the target")
        self.assertEqual((facts["proved"], facts["refuted"], facts["undecided"], facts["invalid"]), (1, 1, 0, len(bad)))
        self.assertEqual([r["name"] for r in self.report("rules", "list", self.path("proved"))["rules"]], ["good"])
        self.assertIn(f"1 proved, 1 refuted, 0 undecided, {len(bad)} invalid", output)
        self.error("rules", "list", file, status=3)  # elsewhere a file is refused whole
        quiet, errors, _ = self.verify(file, "--quiet", status=3)
        self.assertEqual((quiet, len(errors)), ("", len(bad)))

    def test_conditions_that_are_missing_are_added_or_told(self):
        needs = 'rule needs: "" x[M, N], y[K, L] Relu(x), Relu(y) => Relu(x), Slice(Relu(Concat(x, y; axis=0)); begin=[M, 0], length=[K, L])'
        means = 'rule means: "" x[M, K], y[N, K] ReduceMean(Concat(x, y; axis=0); axes=[0]) => (ReduceMean(x; axes=[0]) + ReduceMean(y; axes=[0])) * 0.5'
        file = self.rules("missing.rules", needs, means)
        output, _, facts = self.verify(file, "-o", self.path("proved"), status=1)
        self.assertEqual([(r["verdict"], r["conditions"], r.get("suggested_conditions")) for r in facts["rules"]],
                         [("proved", ["L == N"], None), ("refuted", [], ["M == N"])])
        self.assertIn("needs where L == N", output)
        self.assertIn("it holds where M == N", output)
        _, _, facts = self.verify(file, "--infer-conditions", "-o", self.path("proved"), status=0)
        self.assertEqual([(r["verdict"], r["conditions"]) for r in facts["rules"]], [("proved", ["L == N"]), ("proved", ["M == N"])])
        # They are part of the rules that are written.
        text = self.run_program("rules", "show", self.path("proved")).stdout
        self.assertIn("where L == N", text)
        self.assertIn("where M == N", text)
        _, _, facts = self.verify(self.path("proved"), status=0)
        self.assertEqual([(r["verdict"], r["conditions"]) for r in facts["rules"]], [("proved", []), ("proved", [])])

    def test_rules_are_by_people_or_generated(self):
        parts = {part: {rule["name"]: rule["origin"] for rule in self.report("rules", "list", part)["rules"]} for part in ("generated", "handwritten")}
        self.assertEqual(set(parts["generated"].values()) - {"generated", "both"}, set())
        self.assertNotIn("generated", parts["handwritten"].values())
        shipped = {rule["name"]: rule["origin"] for rule in self.report("rules", "list")["rules"]}
        self.assertEqual(shipped, parts["generated"] | parts["handwritten"])
        both = [rule["name"] for rule in self.report("rules", "list", "generated", "handwritten")["rules"]]
        self.assertEqual(sorted(both), sorted(shipped))

    def test_rules_follow_from_others(self):
        given = self.rules("given.rules", 'rule back: "" x Neg(Neg(x)) => x exact')
        again = 'rule again: "" y Neg(Neg(y)) => y exact'
        thrice, other = 'rule thrice: "" x Neg(Neg(Neg(x))) => Neg(x) exact', 'rule other: "" x Relu(Relu(x)) => Relu(x) exact'
        facts = self.report("rules", "derive", self.rules("a.rules", again, thrice), "--from", given)
        self.assertEqual([(r["name"], r["verdict"], r["same"]) for r in facts["rules"]], [("again", "same", "back"), ("thrice", "follows", "")])
        facts = self.report("rules", "derive", self.rules("b.rules", other), "--from", given, status=1)
        self.assertEqual(facts["rules"][0]["verdict"], "no")
        facts = self.report("rules", "merge", given, self.rules("c.rules", thrice, other), "--reduce", "-o", self.path("reduced"))
        self.assertEqual((facts["rules"], facts["derivable"]), (2, ["thrice"]))

    def test_rules_are_compared(self):
        twice, back = 'rule twice: "" x Relu(Relu(x)) => Relu(x) exact', 'rule back: "" x Neg(Neg(x)) => x exact'
        a = self.rules("a.rules", twice, back)
        b = self.rules("b.rules", back.replace('"" x Neg(Neg(x)) => x', '"" y Neg(Neg(y)) => y'), twice.replace("twice", "again"))
        self.assertTrue(self.report("rules", "diff", a, a)["equal"])
        facts = self.report("rules", "diff", a, b)
        self.assertEqual(facts["renamed"], [{"first": "twice", "second": "again"}])
        c = self.rules("c.rules", back.replace("exact", "reassociates"), 'rule new: "" x, y x + y => y + x exact')
        facts = self.report("rules", "diff", a, c, status=1)
        self.assertEqual((facts["only_first"], facts["only_second"], facts["changed"]), (["twice"], ["new"], ["back"]))
        self.assertIn("! back", self.run_program("rules", "diff", a, c, status=1).stdout)

    def test_rules_are_united_in_every_form(self):
        a = self.rules("a.rules", 'rule twice: "" x Relu(Relu(x)) => Relu(x) exact')
        b = self.rules("b.rules", 'rule other: "" y Relu(Relu(y)) => Relu(y) exact', 'rule back: "" x Neg(Neg(x)) => x exact')
        merged = {}
        for form in ("binary", "text", "algebra"):
            merged[form] = self.path(form)
            facts = self.report("rules", "merge", a, b, "-o", merged[form], "--format", form)
            self.assertEqual((facts["rules"], [d["kept"] for d in facts["dropped"]]), (2, ["twice"]))
        self.assertTrue(self.report("rules", "diff", merged["binary"], merged["text"])["equal"])
        self.assertTrue(self.report("rules", "diff", merged["text"], merged["algebra"])["equal"])
        c = self.rules("c.rules", 'rule twice: "" x Relu(Neg(x)) => Relu(x) exact')
        message = self.error("rules", "merge", a, c, "-o", self.path("no"), status=3)
        self.assertTrue("a.rules" in message and "c.rules" in message and "twice" in message, message)
        self.assertFalse((self.folder / "no").exists())

    def test_the_example_of_the_documentation(self):
        text = (pathlib.Path(__file__).parent.parent / "docs" / "rules.md").read_text()
        example = text[text.index("    rule negated_rectifier") :].split("\n\n")[0]
        refuted = self.report("verify", self.rules("mine.rules", example), "-o", self.path("mine.proved"), status=1)
        self.assertEqual(refuted["refuted"], 1)
        self.rules("mine.rules", example.replace("Max", "Min"))
        self.report("verify", self.path("mine.rules"), "-o", self.path("mine.proved"), "--certificates", self.path("certificates"))
        self.run_program("verify", "--check-certificate", self.path("certificates"))
        nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Neg", ["b"], ["y"])]
        onnx.save(same_shape(nodes, [4, 64, 64]), self.path("model.onnx"))
        self.assertEqual(self.optimize("--rules", self.path("mine.proved"))["nodes"]["before"], 3)
        (rule,) = self.report("rules", "show", self.path("mine.proved"), "negated_rectifier")["rules"]
        self.assertEqual((rule["status"], len(rule["digest"])), ("proved", 64))

    def test_rules_are_used_only_with_a_proof(self):
        rules = self.rules("my.rules", 'rule my_swap: "" x, y x + y => y + x exact')
        arguments = ("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--threads", "1", "--budget", "2s", "--rules")
        self.assertIn("my_swap", self.error(*arguments, rules, status=3))
        self.assertFalse((self.folder / "out.onnx").exists())
        self.run_program(*arguments, rules, "--unproved")
        self.assertEqual(self.report("verify", rules, "-o", self.path("proved"))["proved"], 1)
        self.run_program(*arguments, self.path("proved"))
        self.run_program("rules", "merge", self.path("proved"), "-o", self.path("text"), "--format", "text")
        text = (self.folder / "text").read_text()
        (self.folder / "text").write_text(text.replace('op: "Add"', 'op: "Sub"', 1))
        self.assertIn("changed since it was proved", self.error(*arguments, self.path("text"), status=3))

    def test_rules_of_taso_are_imported_and_verified(self):
        script = pathlib.Path(__file__).parent / "taso_rules.py"
        subprocess.run([sys.executable, str(script), self.path("taso.pb"), self.path("expected.json")], check=True, stdout=subprocess.DEVNULL)
        expected = json.loads((self.folder / "expected.json").read_text())
        facts = self.report("rules", "import-taso", self.path("taso.pb"), "-o", self.path("imported"))
        ill_typed = [f"taso_{i}" for i, (_, truth) in enumerate(expected) if truth == "ill-typed"]
        self.assertEqual((facts["imported"], [s["name"] for s in facts["skipped"]]), (len(expected) - len(ill_typed), ill_typed))
        self.assertTrue(all(s["reason"].startswith("it is ill-typed") for s in facts["skipped"]), facts["skipped"])
        self.assertEqual({r["origin"] for r in self.report("rules", "list", self.path("imported"))["rules"]}, {"imported"})
        verdicts = {r["name"]: r["verdict"] for r in self.report("verify", self.path("imported"), status=1)["rules"]}
        undecided = 0
        for i, (name, truth) in enumerate(expected):
            verdict = verdicts.get(f"taso_{i}")
            undecided += verdict == "undecided"
            allowed = {"true": ("proved", "undecided"), "false": ("refuted",), "ill-typed": (None,)}[truth]
            self.assertIn(verdict, allowed, name)
        self.assertLessEqual(undecided, 2)

    def test_a_file_that_is_none_of_taso_is_refused(self):
        script = pathlib.Path(__file__).parent / "taso_rules.py"
        subprocess.run([sys.executable, str(script), self.path("taso.pb")], check=True, stdout=subprocess.DEVNULL)
        whole = (self.folder / "taso.pb").read_bytes()
        for name, contents in (("empty", b""), ("cut", whole[:-1]), ("text", b"rule r: no rule of TASO")):
            (self.folder / name).write_bytes(contents)
            self.assertIn(name, self.error("rules", "import-taso", self.path(name), "-o", self.path("out"), status=3))
            self.assertFalse((self.folder / "out").exists())
        self.error("rules", "import-taso", self.path("none"), "-o", self.path("out"), status=3)
        self.error("rules", "import-taso", self.path("taso.pb"), status=2)
        self.error("rules", "import-taso", self.path("taso.pb"), "-o", self.path("no/such/folder/out"), status=4)
        self.run_program("rules", "import-taso", self.path("taso.pb"), "-o", self.path("out.rules"), "--format", "algebra")
        self.assertIn("rule taso_17:", (self.folder / "out.rules").read_text())
        self.run_program("rules", "list", self.path("out.rules"))


if __name__ == "__main__":
    main()
