"""rewright.LanguageModel: python python_language_model.py REWRIGHT BUILD_FOLDER"""

import importlib.util
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
import unittest.mock

from python_testing import main

import numpy

import language_folder
import rewright
from language_folder import CONTEXT, VOCABULARY, Reference, write_folder

HAS_TOKENIZERS = importlib.util.find_spec("tokenizers") is not None


def prompts(random, count, longest=12):
    return [random.integers(3, 259, random.integers(1, longest + 1)).tolist() for _ in range(count)]


class InFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "model"


class Tokens(InFolder):
    def test_the_most_likely_tokens_are_onnxruntimes(self):
        random = numpy.random.default_rng(1)
        for seed, window, shared in ((1, -1, True), (2, 5, True), (3, -1, False), (4, 3, False)):
            with self.subTest(window=window, shared=shared):
                write_folder(self.folder, seed, window, shared)
                model, reference = rewright.LanguageModel(self.folder), Reference(self.folder)
                for prompt in prompts(random, 3):
                    expected = reference.greedy(prompt, 12)
                    self.assertEqual(model.complete(prompt, max_tokens=12), expected)
                    self.assertEqual(list(model.generate(numpy.array(prompt), max_tokens=12)), expected)
                shutil.rmtree(self.folder)

    def test_a_text_may_be_longer_than_the_cache_was_at_first(self):
        write_folder(self.folder, 5)
        expected = Reference(self.folder).greedy([7, 8, 9], 150, ends=())
        self.assertEqual(rewright.LanguageModel(self.folder).complete([7, 8, 9], max_tokens=150, min_tokens=150)[:60], expected[:60])

    def test_several_sequences_are_as_if_each_were_alone(self):
        random = numpy.random.default_rng(2)
        for shared in (True, False):
            write_folder(self.folder, 6, shared=shared)
            model = rewright.LanguageModel(self.folder)
            several = prompts(random, 5)
            for options in ({}, {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.2}):
                alone = [model.complete(prompt, max_tokens=9, **options) for prompt in several]
                together = model.complete(several, max_tokens=9, **options)
                self.assertEqual(together[0], alone[0])
                if not options:
                    self.assertEqual(together, alone)
                self.assertEqual(model.complete(several, max_tokens=9, **options), together)
            shutil.rmtree(self.folder)

    def test_sequences_end_each_at_its_own_token(self):
        write_folder(self.folder, 7)
        model = rewright.LanguageModel(self.folder)
        alone = [model.complete(prompt, max_tokens=8, min_tokens=8) for prompt in ([5, 6], [9])]
        end = alone[0][2]
        self.assertEqual(model.complete([5, 6], max_tokens=8, stop_token=end), alone[0][: alone[0].index(end) + 1])
        steps = list(model.generate([[5, 6], [9]], max_tokens=8, stop_token=[end]))
        expected = [tokens[: tokens.index(end) + 1] if end in tokens else tokens for tokens in alone]
        for number, tokens in enumerate(expected):
            column = [step[number] for step in steps]
            self.assertEqual(column, tokens + [None] * (len(steps) - len(tokens)))
        self.assertEqual(len(steps), max(map(len, expected)))

    def test_chosen_tokens_follow_the_models_probabilities(self):
        """One step each, with many seeds: how often which token comes, beside softmax of ONNX Runtime's logits."""
        write_folder(self.folder, 8)
        model, prompt, draws = rewright.LanguageModel(self.folder), [4, 5, 6], 300
        logits = Reference(self.folder).logits(prompt, lambda logits, text: 0, 1)[0][0].astype(numpy.float64)
        shares = numpy.exp(logits / 0.9 - (logits / 0.9).max())
        order = shares.argsort()[::-1][:4]
        shares = shares[order] / shares[order].sum()
        chosen = [model.complete(prompt, max_tokens=1, temperature=0.9, top_k=4, seed=seed)[0] for seed in range(draws)]
        self.assertLessEqual(set(chosen), set(order.tolist()))
        for token, share in zip(order, shares):
            self.assertLess(abs(chosen.count(token) - draws * share), 5 * (draws * share * (1 - share)) ** 0.5 + 1)

    def test_a_penalty_changes_what_is_repeated(self):
        write_folder(self.folder, 9)
        model, reference = rewright.LanguageModel(self.folder), Reference(self.folder)

        def penalized(logits, text):
            changed = logits.astype(numpy.float64)
            seen = list(set(text))
            changed[seen] = numpy.where(changed[seen] > 0, changed[seen] / 1.5, changed[seen] * 1.5)
            return int(changed.argmax())

        expected = reference.logits([3, 4, 5], penalized, 12)[1]
        self.assertEqual(model.complete([3, 4, 5], max_tokens=12, min_tokens=12, repetition_penalty=1.5), expected)

    def test_the_configuration_says_what_is_not_said_here(self):
        write_folder(self.folder, 10, do_sample=True, temperature=1.5, top_k=7, max_length=9)
        model = rewright.LanguageModel(self.folder)
        usual = model.complete([3, 4], seed=3)
        self.assertEqual(len(usual), 7)
        self.assertEqual(usual, model.complete([3, 4], seed=3, temperature=1.5, top_k=7, top_p=1.0))
        self.assertNotEqual(usual, model.complete([3, 4], temperature=0))

    def test_times_are_told(self):
        completion = rewright.LanguageModel(write_folder(self.folder)).generate([3, 4], max_tokens=4, min_tokens=4)
        self.assertEqual(completion.tokens, [])
        self.assertEqual(list(completion), completion.tokens)
        self.assertGreater(completion.prompt_seconds, 0)
        self.assertGreater(completion.tokens_per_second, 0)


class Wrong(InFolder):
    def refused(self, kind, says, work):
        with self.assertRaisesRegex(kind, says):
            work()

    def test_prompts(self):
        model = rewright.LanguageModel(write_folder(self.folder))
        bad, usage = rewright.BadInputError, rewright.UsageError
        self.refused(usage, "has no tokens", lambda: model.generate([]))
        self.refused(bad, f"there is no token {VOCABULARY}", lambda: model.generate([3, VOCABULARY]))
        self.refused(bad, "there is no token -1", lambda: model.generate([-1]))
        self.refused(bad, "there is no room", lambda: model.generate([3] * CONTEXT))
        self.refused(bad, "prompt 1: has 500 tokens", lambda: model.generate([[3], [3] * 500]))
        self.refused(usage, "a prompt is a text", lambda: model.generate(3))
        self.refused(usage, "a prompt is a text", lambda: model.generate([3.5]))
        self.refused(usage, "there is no option", lambda: model.generate([3], top_q=1))
        self.refused(usage, "top-p", lambda: model.generate([3], top_p=2))
        self.refused(usage, "stop texts", lambda: model.generate([3], stop="x"))
        self.refused(bad, "tokenizer.json: there is no such file", lambda: model.generate("text"))
        self.assertEqual(len(model.complete([3] * (CONTEXT - 1))), 1)

    def test_folders(self):
        bad = rewright.BadInputError
        self.refused(bad, "genai_config.json: there is no such file", lambda: rewright.LanguageModel(self.folder))
        write_folder(self.folder)
        usual = language_folder.config()

        def with_config(change):
            config = json.loads(json.dumps(usual))
            change(config)
            (self.folder / "genai_config.json").write_text(json.dumps(config))
            return rewright.LanguageModel(self.folder)

        def set_decoder(**values):
            return lambda config: config["model"]["decoder"].update(values)

        for change, kind, says in (
            (set_decoder(filename="../model.onnx"), bad, "outside of the folder"),
            (set_decoder(filename="other.onnx"), bad, "other.onnx"),
            (set_decoder(num_hidden_layers=3), bad, 'no input "past_key_values.2.key"'),
            (set_decoder(num_hidden_layers=1), rewright.UnsupportedError, "past_key_values.1"),
            (set_decoder(num_key_value_heads=3), bad, "axis 1"),
            (set_decoder(head_size=32), bad, "axis 3"),
            (lambda config: config["model"].update(vocab_size=200), bad, "logits"),
            (lambda config: config["model"]["decoder"]["inputs"].update(attention_mask="mask"), bad, 'no input "mask"'),
            (lambda config: config["model"]["decoder"]["outputs"].update(logits="present.0.key"), bad, "three axes"),
        ):
            with self.subTest(says=says):
                self.refused(kind, says, lambda: with_config(change))

    def test_without_the_package(self):
        model = rewright.LanguageModel(write_folder(self.folder))
        (self.folder / "tokenizer.json").write_text("{}")
        with unittest.mock.patch.dict(sys.modules, {"tokenizers": None}):
            self.refused(rewright.MissingError, "pip install tokenizers", lambda: model.generate("text"))


@unittest.skipUnless(HAS_TOKENIZERS, "the package tokenizers is not here")
class Texts(InFolder):
    def setUp(self):
        super().setUp()
        write_folder(self.folder, 11)
        language_folder.write_tokenizer(self.folder)
        self.model = rewright.LanguageModel(self.folder)

    def test_pieces_are_the_text_of_the_tokens(self):
        for prompt in ("Hello", "déjà vu: 😀"):
            tokens = self.model.encode(prompt)
            self.assertEqual(self.model.decode(tokens), prompt)
            completion = self.model.generate(prompt, max_tokens=30, temperature=1.0, seed=4)
            text = "".join(completion)
            self.assertEqual(completion.tokens, self.model.complete(tokens, max_tokens=30, temperature=1.0, seed=4))
            self.assertEqual(text, self.model.decode(tokens + completion.tokens)[len(prompt) :])

    def test_several_texts(self):
        several = ["One", "Two and more", "3"]
        alone = [self.model.complete(text, max_tokens=10, min_tokens=10) for text in several]
        self.assertEqual(self.model.complete(several, max_tokens=10, min_tokens=10), alone)

    def test_a_stop_text_ends_the_answer_and_is_not_in_it(self):
        text = self.model.complete("abc", max_tokens=40, min_tokens=40, temperature=2.0, seed=1)
        inside = next(text[at : at + 2] for at in range(3, len(text) - 2) if text.find(text[at : at + 2]) == at and text[at : at + 2].isprintable())
        for stop in (inside, ["never there", inside]):
            found = self.model.complete("abc", max_tokens=40, min_tokens=40, temperature=2.0, seed=1, stop=stop)
            self.assertEqual(found, text[: text.index(inside)])

    @unittest.skipUnless(importlib.util.find_spec("jinja2"), "the package jinja2 is not here")
    def test_conversations(self):
        messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Bye"}]
        tokens = self.model.chat(messages)
        self.assertEqual(tokens[0], 1)
        self.assertEqual(self.model.decode(tokens), "user: Hi\nassistant: Yes?\nuser: Bye\n> ")
        self.assertEqual("".join(self.model.generate(messages, max_tokens=5)), self.model.complete(messages, max_tokens=5))
        (self.folder / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
        with self.assertRaisesRegex(rewright.BadInputError, "roles must alternate"):
            self.model.chat(messages)
        for wrong in ("{% for %}", "{{ messages[0].x.y }}", "{{ ''.__class__.__mro__ }}", "{{ 1 // 0 }}"):
            (self.folder / "chat_template.jinja").write_text(wrong)
            with self.subTest(wrong):
                try:
                    self.assertEqual(self.model.chat(messages), self.model.encode(""))  # jinja2 may make nothing of it
                except rewright.BadInputError as error:
                    self.assertIn("chat template", str(error))

    def test_a_tokenizer_that_is_none(self):
        for text in ("", "[]", '{"version": "1.0"}', "\0\1"):
            (self.folder / "tokenizer.json").write_text(text)
            with self.subTest(text), self.assertRaisesRegex(rewright.BadInputError, "is no tokenizer"):
                rewright.LanguageModel(self.folder).encode("x")


if __name__ == "__main__":
    main()
