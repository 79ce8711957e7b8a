"""Language models on the command line: python command_line_complete.py REWRIGHT [unittest's options]"""

import importlib.util
import json
import os
import random
import signal
import subprocess
import unittest
import unittest.mock

import language_folder
from language_folder import Reference, write_folder
from program import ProgramTest, main


class Complete(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = str(write_folder(self.folder / "model"))
        (self.folder / "tokens").write_text("5, 6\n7")

    def complete(self, *options):
        return self.report("complete", self.model, "--tokens", self.path("tokens"), "--threads", "1", *options)

    def test_tokens_go_on(self):
        expected = Reference(self.model).greedy([5, 6, 7], 8)
        facts = self.complete("--max-tokens", "8")
        self.assertEqual(facts["tokens"], expected)
        self.assertIsNone(facts["text"])
        self.assertEqual(facts["prompt_tokens"], 3)
        self.assertGreater(facts["peak_bytes"], 0)
        self.assertGreater(facts["prompt_seconds"], 0)
        said = self.run_program("complete", self.model, "--tokens", self.path("tokens"), "--max-tokens", "8").stdout
        self.assertEqual([int(word) for word in said.split()], expected)

    def test_the_seed_decides(self):
        hot = ("--max-tokens", "12", "--temperature", "2")
        first = self.complete(*hot, "--seed", "1")["tokens"]
        self.assertEqual(self.complete(*hot, "--seed", "1")["tokens"], first)
        self.assertNotEqual(self.complete(*hot, "--seed", "2")["tokens"], first)
        self.assertEqual(self.complete(*hot, "--top-k", "1")["tokens"], self.complete("--max-tokens", "12")["tokens"])

    @unittest.skipUnless(importlib.util.find_spec("tokenizers"), "the package tokenizers is not here")
    def test_text_goes_on(self):
        language_folder.write_tokenizer(self.model)
        facts = self.report("complete", self.model, "--prompt", "Hé", "--max-tokens", "20")
        self.assertEqual(facts["tokens"], Reference(self.model).greedy(self.bytes_of("Hé"), 20))
        said = self.run_program("complete", self.model, "--prompt", "Hé", "--max-tokens", "20").stdout
        self.assertEqual(said, facts["text"] + "\n")
        chat = self.report("complete", self.model, "--prompt", "Hé", "--chat", "--max-tokens", "3")
        self.assertEqual(chat["tokens"], Reference(self.model).greedy([1, *self.bytes_of("user: Hé\n> ")], 3))
        (self.folder / "model" / "tokenizer.json").write_text("{}")
        self.assertIn("is no tokenizer", self.error("complete", self.model, "--prompt", "x", status=3))

    def bytes_of(self, text):
        from tokenizers import Tokenizer

        return Tokenizer.from_file(os.path.join(self.model, "tokenizer.json")).encode(text).ids

    def test_an_optimized_folder_goes_on_alike(self):
        self.run_program("optimize", self.model, "-o", self.path("faster"), "--device", "cpu", "--estimate", "--budget", "5s", "--quiet")
        expected = self.complete("--max-tokens", "20")["tokens"]
        self.model = self.path("faster")
        self.assertEqual(self.complete("--max-tokens", "20")["tokens"], expected)

    def test_a_long_answer_can_be_interrupted(self):
        slow = ("complete", self.model, "--tokens", self.path("tokens"), "--min-tokens", "390", "--device", "reference")
        process = subprocess.Popen([self.program, *slow], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("tokens/s", said)
        self.assertLess(len((first + rest).split()), 390)

    def test_what_is_missing(self):
        self.assertIn("tokenizer.json", self.error("complete", self.model, "--prompt", "x", status=3))
        with unittest.mock.patch.dict(os.environ, {"REWRIGHT_PYTHON": "/no/python"}):
            self.assertIn("REWRIGHT_PYTHON", self.error("complete", self.model, "--prompt", "x", status=4))
        self.error("complete", self.model, status=2)
        self.error("complete", self.model, "--prompt", "x", "--tokens", self.path("tokens"), status=2)
        self.assertIn("option top-p", self.error("complete", self.model, "--prompt", "x", "--top-p", "7", status=2))
        self.assertIn("there is no device", self.error("complete", self.model, "--tokens", self.path("tokens"), "--device", "abacus", status=2))
        self.assertIn("genai_config.json", self.error("complete", self.path("nothing"), "--tokens", self.path("tokens"), status=3))

    def test_tokens_that_are_none(self):
        for text, says in (("", "no tokens"), ("5 x", '"x" is no number'), ("5 300", "no token 300"), ("-1", "no token -1"),
                           ("3 " * 400, "no room"), ("9" * 30, "is no number"), ("\0", "is no number")):
            with self.subTest(text=text[:10]):
                (self.folder / "tokens").write_text(text)
                self.assertIn(says, self.error("complete", self.model, "--tokens", self.path("tokens"), status=3))

    def test_damaged_configurations_are_read_or_refused(self):
        whole = json.dumps(language_folder.config())
        generator = random.Random(1)
        for _ in range(25):
            text = list(whole)
            for _ in range(generator.randint(1, 3)):
                at = generator.randrange(len(text))
                text[at] = generator.choice(["", "9", "-", '"', "}", "x", "null", "%d"])
            (self.folder / "model" / "genai_config.json").write_text("".join(text))
            for status in (0, 3, 4):
                try:
                    self.run_program("complete", self.model, "--tokens", self.path("tokens"), "--max-tokens", "1", status=status)
                    break
                except AssertionError:
                    if status == 4:
                        raise


if __name__ == "__main__":
    main()
