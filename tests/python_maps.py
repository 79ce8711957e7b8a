#!/usr/bin/env python3
"""Maps and tables of them as inputs and outputs of sessions, as ONNX Runtime's Python has them, and what goes with them in classical models.
Usage: python_maps.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import unittest

from python_testing import main  # says where the package is

import numpy
import onnxruntime
from onnx import TensorProto, helper

import rewright


def map_type(key, element):
    element = helper.make_tensor_type_proto(element, [])
    return helper.make_map_type_proto(key, element)


def model_of(operator, inputs, outputs, domain="ai.onnx.ml", **attributes):
    node = helper.make_node(operator, [name for name, _ in inputs], [name for name, _ in outputs], domain=domain, **attributes)
    graph = helper.make_graph([node], operator, [helper.make_value_info(*v) for v in inputs], [helper.make_value_info(*v) for v in outputs])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def tensor(element, *sizes):
    return helper.make_tensor_type_proto(element, sizes)


class Beside(unittest.TestCase):
    def both(self, model, feeds):
        """The results of both, which must be equal, with the same types of keys and values in the same order."""
        expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
        session = rewright.InferenceSession(model)
        found = session.run(None, feeds)
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            if isinstance(b, numpy.ndarray):
                self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                self.assertEqual(a.tolist(), b.tolist())
            else:
                self.assertEqual(a, b)
                self.assertEqual(repr(a), repr(b))
        return session, found


class Maps(Beside):
    def test_tables(self):
        rng = numpy.random.default_rng(2)
        classes = ({"classlabels_int64s": [4, -3, 9]}, {"classlabels_strings": ["b", "a", "\u00e4"]})
        for attributes in classes:
            key = TensorProto.STRING if "classlabels_strings" in attributes else TensorProto.INT64
            outputs = [("y", helper.make_sequence_type_proto(map_type(key, TensorProto.FLOAT)))]
            model = model_of("ZipMap", [("x", tensor(TensorProto.FLOAT, "N", 3))], outputs, **attributes)
            for rows in (1, 2, 100):
                with self.subTest(attributes=attributes, rows=rows):
                    session, _ = self.both(model, {"x": rng.random((rows, 3), numpy.float32)})
            self.assertEqual(session.get_outputs()[0].type, onnxruntime.InferenceSession(model).get_outputs()[0].type)
            value = session.run_with_ort_values(None, {"x": rewright.OrtValue.ortvalue_from_numpy(numpy.ones((1, 3), numpy.float32))})[0]
            self.assertFalse(value.is_tensor())
            self.assertEqual(value.data_type(), session.get_outputs()[0].type)
            with self.assertRaisesRegex(Exception, "axis 1 must be 3"):
                session.run(None, {"x": numpy.ones((1, 2), numpy.float32)})

    def test_words(self):
        for element in (TensorProto.FLOAT, TensorProto.INT64):
            model = model_of(
                "DictVectorizer", [("x", map_type(TensorProto.STRING, element))], [("y", tensor(element, 1, 3))],
                string_vocabulary=["a", "b", "c"],
            )  # fmt: skip
            for words in ({"a": 2.0, "c": 5.0}, {"b": 1.0, "other": 4.0}, {"c": 3.0}):
                with self.subTest(element=element, words=words):
                    if element == TensorProto.FLOAT:
                        self.both(model, {"x": words})
                    else:  # ONNX Runtime's Python cannot give maps to int64
                        found = rewright.InferenceSession(model).run(None, {"x": {word: int(number) for word, number in words.items()}})[0]
                        self.assertEqual((found.dtype, found.tolist()), (numpy.int64, [[int(words.get(word, 0)) for word in "abc"]]))

    def test_numbers(self):
        # ONNX Runtime's Python cannot give maps from int64 to text.
        for to, element in (("TO_FLOAT", TensorProto.FLOAT), ("TO_INT64", TensorProto.INT64), ("TO_STRING", TensorProto.STRING)):
            for form in ("DENSE", "SPARSE"):
                model = model_of(
                    "CastMap", [("x", map_type(TensorProto.INT64, TensorProto.FLOAT))], [("y", tensor(element, 1, "C"))],
                    cast_to=to, map_form=form, max_map=6,
                )  # fmt: skip
                with self.subTest(to=to, form=form):
                    self.both(model, {"x": {4: 1.5, 1: -2.0, 3: 1e9}})

    def test_wrong_inputs(self):
        model = model_of("DictVectorizer", [("x", map_type(TensorProto.STRING, TensorProto.FLOAT))], [("y", tensor(TensorProto.FLOAT, 1, 1))], string_vocabulary=["a"])
        session = rewright.InferenceSession(model)
        for wrong in ({"a": "b"}, {"a": [1.0, 2.0]}, numpy.ones(2, numpy.float32), [{"a": 1.0}]):
            with self.subTest(wrong=wrong), self.assertRaises(Exception):
                session.run(None, {"x": wrong})
        self.assertEqual(session.run(None, {"x": {"a": 1.0}})[0].tolist(), [[1.0]])


class Words(Beside):
    PARTS = ("ab", "b", "c1", "_", " ", ", ", "-", "\u00e4\u00df", "\u8a9e", "\U0001f642", "10", "\n", "A", "x-y")

    def texts(self, rng, shape):
        return numpy.array(["".join(rng.choice(self.PARTS, int(rng.integers(0, 9)))) for _ in range(int(numpy.prod(shape)))], object).reshape(shape)

    def tokenized(self, x, **attributes):
        sizes = ["C"] if x.ndim == 1 else ["N", "C"]
        model = model_of("Tokenizer", [("x", tensor(TensorProto.STRING, *sizes))], [("y", tensor(TensorProto.STRING, *sizes, "D"))], "com.microsoft", **attributes)
        with self.subTest(texts=list(x.ravel()), **attributes):
            self.both(model, {"x": x})

    def test_words(self):
        rng = numpy.random.default_rng(5)
        expressions = (
            "[a-zA-Z0-9_]+", "\\w+", "\\b\\w\\w+\\b", "[^ ,]+", "a|ab|b*c", "(?:ab|A)+?[\\d-]?", "x{0,2}-", "b{2}|c\\d", "[[:alpha:]]+$", "^.", "\\S*", "\\W",
            "[\\w\\-]+", "\u00e4.", "[\u00e0-\u9fff]+", "\\x41|\\x{8a9e}", "\\Bb", "(a(b(c)?)?)*", "(?i)AB+", "\\pL+",
        )  # fmt: skip
        for expression in expressions:
            for shortest in (1, 2):
                for shape in ((4,), (3, 2)):
                    self.tokenized(self.texts(rng, shape), tokenexp=expression, mincharnum=shortest, mark=int(rng.integers(2)), pad_value="#")

    def test_separators(self):
        rng = numpy.random.default_rng(6)
        for separators in ([" "], [", ", " "], ["-|_", "b"], ["[ ,]+"], ["\u8a9e", "\n"], [""]):
            for shortest in (1, 2) if separators != [""] else (1,):
                for shape in ((4,), (3, 2)):
                    self.tokenized(self.texts(rng, shape), separators=separators, mincharnum=shortest, mark=int(rng.integers(2)), pad_value="#")

    def test_no_words(self):
        self.tokenized(numpy.array(["", " "], object), tokenexp="[a-z]+", mincharnum=1, mark=1, pad_value="#")

    def test_wrong(self):
        for attributes, message in (({"tokenexp": "(a"}, "not understood: missing"), ({"tokenexp": "a**)"}, "bad repetition"), ({"tokenexp": "(a{1000}){1000}"}, "repetition size"), ({}, "neither")):
            model = model_of("Tokenizer", [("x", tensor(TensorProto.STRING, "C"))], [("y", tensor(TensorProto.STRING, "C", "D"))], "com.microsoft", mincharnum=1, mark=0, pad_value="", **attributes)
            with self.subTest(**attributes), self.assertRaisesRegex(Exception, message):
                rewright.InferenceSession(model).run(None, {"x": numpy.array(["a"], object)})

    def test_case(self):
        x = numpy.array(["Stra\u00dfe", "\u0391\u0392\u03b3", "\u0416\u0436", "a\u8a9eZ", "\U00010400", "\u00d7"], object)
        for action, change in (("LOWER", str.lower), ("UPPER", str.upper)):
            model = model_of("StringNormalizer", [("x", tensor(TensorProto.STRING, "C"))], [("y", tensor(TensorProto.STRING, "D"))], "", case_change_action=action, locale="nowhere")
            found = rewright.InferenceSession(model).run(None, {"x": x})[0]
            self.assertEqual(list(found), [self.simple(text, change) for text in x])

    @staticmethod
    def simple(text, change):
        """Letters whose other form is several letters stay."""
        return "".join(change(c) if len(change(c)) == 1 else c for c in text)


class Hashes(Beside):
    def test_hashes(self):
        rng = numpy.random.default_rng(3)
        texts = numpy.array(["", "a", "ab", "abc", "abcd", "\u00e4\u4e2d", "x" * 31], object)
        for x, element in (
            (texts, TensorProto.STRING),
            (rng.integers(-(2**31), 2**31, (3, 4)).astype(numpy.int32), TensorProto.INT32),
            (rng.integers(-(2**62), 2**62, (5,)), TensorProto.INT64),
            (rng.normal(size=(2, 2)).astype(numpy.float32), TensorProto.FLOAT),
            (rng.normal(size=(4,)), TensorProto.DOUBLE),
        ):
            for attributes in ({}, {"positive": 0, "seed": 7}):
                result = TensorProto.UINT32 if attributes.get("positive", 1) else TensorProto.INT32
                model = model_of("MurmurHash3", [("x", tensor(element, *x.shape))], [("y", tensor(result, *x.shape))], "com.microsoft", **attributes)
                with self.subTest(element=element, attributes=attributes):
                    self.both(model, {"x": x})

    def test_distances(self):
        rng = numpy.random.default_rng(4)
        for metric in ("euclidean", "sqeuclidean"):
            inputs = [("a", tensor(TensorProto.FLOAT, "N", 5)), ("b", tensor(TensorProto.FLOAT, "M", 5))]
            model = model_of("CDist", inputs, [("y", tensor(TensorProto.FLOAT, "N", "M"))], "com.microsoft", metric=metric)
            feeds = {"a": rng.normal(size=(7, 5)).astype(numpy.float32), "b": rng.normal(size=(3, 5)).astype(numpy.float32)}
            expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
            numpy.testing.assert_allclose(rewright.InferenceSession(model).run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
