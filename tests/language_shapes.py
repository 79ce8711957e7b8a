"""Language models in the shapes of well-known ones, made by onnxruntime-genai's builder: python language_shapes.py REWRIGHT BUILD_FOLDER

Their most likely tokens are onnxruntime-genai's, for one prompt and for several of different lengths at once."""

import pathlib
import sys
import unittest

from python_testing import BUILD, main

import numpy
import onnxruntime_genai

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

import make_language_models
import rewright

COUNT = 25  # with the longest prompt, above Mistral's window, and below where onnxruntime-genai 0.18 fails with such a window
NAMES = [*(f"{shape}_fp32" for shape in make_language_models.SHAPES), "llama_int4_exact"]


def greedy(folder, prompt):
    """The most likely tokens by onnxruntime-genai, without one that ends the text."""
    model = onnxruntime_genai.Model(str(folder))
    parameters = onnxruntime_genai.GeneratorParams(model)
    parameters.set_search_options(max_length=len(prompt) + COUNT, do_sample=False)
    generator = onnxruntime_genai.Generator(model, parameters)
    generator.append_tokens([prompt])
    while not generator.is_done():
        generator.generate_next_token()
    return without_end([int(token) for token in generator.get_sequence(0)][len(prompt) :])


def without_end(tokens):
    ends = {1, 2}  # Gemma's configuration has both
    return tokens[:-1] if tokens and tokens[-1] in ends else tokens


class Shapes(unittest.TestCase):
    def test_tokens_are_those_of_onnxruntime_genai(self):
        random = numpy.random.default_rng(0)
        for name, folder in make_language_models.make(NAMES, pathlib.Path(BUILD) / "language_models").items():
            with self.subTest(name):
                prompts = [random.integers(3, 256, length).tolist() for length in (1, 7, 20)]
                expected = [greedy(folder, prompt) for prompt in prompts]
                self.assertGreater(len({token for tokens in expected for token in tokens}), 2)
                model = rewright.LanguageModel(folder)
                options = {"max_tokens": COUNT, "temperature": 0}
                self.assertEqual([without_end(model.complete(prompt, **options)) for prompt in prompts], expected)
                self.assertEqual(list(map(without_end, model.complete(prompts, **options))), expected)


if __name__ == "__main__":
    main()
