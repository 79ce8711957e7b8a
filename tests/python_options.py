#!/usr/bin/env python3
"""Options of sessions and runs, beside ONNX Runtime's: the same names, the same values refused, the same effect where there is one.
Usage: python_options.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import glob
import json
import os
import tempfile
import threading
import time
import unittest
import warnings

from python_testing import main, model_of, one_node, value  # says where the package is

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_inference_collection as their_collection
from python_comparing import BOTH, CPU, outcome, Same

import rewright
from rewright.capi import onnxruntime_inference_collection as our_collection
from rewright.capi import onnxruntime_pybind11_state as our_state

X = numpy.zeros((4, 8), numpy.float32)


def weighted(external=""):
    """x + w, w eight ones, or in a file that need not be there."""
    weight = numpy_helper.from_array(numpy.ones(8, numpy.float32), "w")
    if external:
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value=external)
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return model_of([node], [value("x", 1, [4, 8])], [value("y", 1, [4, 8])], [weight]).SerializeToString()


class Attributes(Same):
    def test_misspelt(self):
        for make in (lambda p: p.SessionOptions(), lambda p: p.RunOptions()):
            for name in ("foo", "intra_op_num_thread", "Terminate"):
                self.check(lambda package: setattr(make(package), name, 1))

    def test_values(self):
        for name in dir(onnxruntime.SessionOptions()):
            if name.startswith("_") or callable(getattr(onnxruntime.SessionOptions(), name)):
                continue
            for given in (1, 0, 3, -1, 2.5, "text", True, None, numpy.int64(2)):

                def set_and_get(package):
                    options = package.SessionOptions()
                    setattr(options, name, given)
                    return getattr(options, name)

                with self.subTest(name=name, given=given):
                    self.check(set_and_get)
        for name in ("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches", "terminate"):
            for given in (1, "text", 2.5, True):

                def set_and_get_of_run(package):
                    options = package.RunOptions()
                    setattr(options, name, given)
                    return getattr(options, name)

                with self.subTest(name=name, given=given):
                    self.check(set_and_get_of_run)

    def test_enums(self):
        for enum in ("GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder", "OrtAllocatorType", "OrtMemType", "OrtSparseFormat",
                     "OrtDeviceMemoryType", "OrtHardwareDeviceType", "OrtExecutionProviderDevicePolicy", "OrtMemoryInfoDeviceType"):  # fmt: skip
            theirs, ours = (getattr(package, enum).__members__ for package in BOTH)
            self.assertEqual({name: int(ours[name]) for name in theirs}, {name: int(member) for name, member in theirs.items()}, enum)
        for package in BOTH:
            options = package.SessionOptions()
            options.graph_optimization_level = package.GraphOptimizationLevel.ORT_ENABLE_BASIC
            self.assertEqual(options.graph_optimization_level, package.GraphOptimizationLevel.ORT_ENABLE_BASIC)

    def test_entries(self):
        for make in (lambda p: (p.SessionOptions(), "session_config"), lambda p: (p.RunOptions(), "run_config")):

            def entry(package, given, asked):
                options, kind = make(package)
                for pair in given:
                    getattr(options, f"add_{kind}_entry")(*pair)
                return getattr(options, f"get_{kind}_entry")(asked)

            for given, asked in (([], "a"), ([("a", "1")], "a"), ([("a", "1"), ("a", "2")], "a"), ([("a", 1)], "a"), ([("", "1")], ""), ([("a" * 1025, "1")], "a")):
                self.check(lambda package: entry(package, given, asked))

    def test_refused(self):
        self.check(lambda package: package.SessionOptions().register_custom_ops_library("/no/such.so"))
        self.check(lambda package: package.register_execution_provider_library("name", "/no/such.so"))
        self.check(lambda package: package.unregister_execution_provider_library("name"))
        self.check(lambda package: package.set_default_logger_severity(9))
        for function in ("set_default_logger_severity", "set_default_logger_verbosity", "set_seed"):
            self.check(lambda package: getattr(package, function)("a"))
            self.check(lambda package: getattr(package, function)(3))

    def test_cancelled_load(self):
        def load(package):
            options = package.SessionOptions()
            options.set_load_cancellation_flag(True)
            package.InferenceSession(one_node("Relu").SerializeToString(), options, **CPU)

        with self.assertRaises(our_state.ModelLoadCanceled):
            load(rewright)
        self.check(load)


class Providers(Same):
    def test_arguments(self):
        model = one_node("Relu").SerializeToString()
        for providers, options in (
            (["CPUExecutionProvider"], None), (["Some"], None), ([7], None), ([("CPUExecutionProvider", {})], None),
            ([("CPUExecutionProvider", {"arena": "1"})], None), ([("CPUExecutionProvider", 3)], None),
            (["CPUExecutionProvider"], [{}]), (["CPUExecutionProvider"], [{}, {}]), (["CPUExecutionProvider"], {}),
            (["CPUExecutionProvider"], [3]), ([("CPUExecutionProvider", {})], [{}]), (["CPUExecutionProvider"] * 2, None), ([], None),
            (None, None), (["DmlExecutionProvider"], None), (["Some", "CPUExecutionProvider"], [{"a": 1}, {}]), (None, [{}]),
            ({"CPUExecutionProvider"}, None), ("CPUExecutionProvider", None),
        ):  # fmt: skip
            with self.subTest(providers=providers, options=options), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arguments = {"providers": providers, "provider_options": options}
                for fallback in (0, 1):
                    self.check(lambda package: package.InferenceSession(model, **arguments, enable_fallback=fallback).get_providers())
                names = ["AExecutionProvider", "CPUExecutionProvider", "DmlExecutionProvider"]
                theirs, ours = (outcome(lambda c=c: c.check_and_normalize_provider_args(providers, options, names)) for c in (their_collection, our_collection))
                self.assertTrue(isinstance(ours, type(theirs)) if isinstance(theirs, Exception) else ours == theirs, (ours, theirs))

    def test_set_providers(self):
        sessions = {package: package.InferenceSession(one_node("Neg").SerializeToString(), **CPU) for package in BOTH}

        def changed(package, *arguments):
            sessions[package].set_providers(*arguments)
            return sessions[package].get_providers(), sessions[package].get_provider_options(), sessions[package].run(None, {"x": X})[0].tolist()

        for arguments in ((["CPUExecutionProvider"],), (["Some"],), (["CPUExecutionProvider"], [{"a": "b"}]), (["CPUExecutionProvider"], [3]), (7,)):
            with self.subTest(arguments), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if arguments == (7,):
                    with self.assertRaises((TypeError, ValueError)):
                        changed(rewright, *arguments)
                    continue
                self.check(lambda package: changed(package, *arguments))
        with self.assertWarns(UserWarning) as caught:
            sessions[rewright].set_providers(["DmlExecutionProvider"])
        self.assertEqual(caught.filename, __file__)

    def test_by_options(self):
        def added(package, how):
            options = package.SessionOptions()
            how(package, options)
            session = package.InferenceSession(one_node("Relu").SerializeToString(), options)
            return options.has_providers(), session.get_providers()

        for how in (
            lambda package, options: options.add_provider("CPUExecutionProvider", {}),
            lambda package, options: options.add_provider("Some", {}),
            lambda package, options: options.add_provider_for_devices(package.get_ep_devices()[:1], {}),
            lambda package, options: options.add_provider_for_devices([], {}),
            lambda package, options: options.set_provider_selection_policy(package.OrtExecutionProviderDevicePolicy.PREFER_CPU),
            lambda package, options: None,
        ):
            self.check(lambda package: added(package, how))


class Given(Same):
    def test_free_dimensions(self):
        model = one_node("Relu", shape=["N", "M"])
        model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
        for names, denotations in (
            ([("N", 4)], []), ([("N", 3)], []), ([("other", 3)], []), ([], [("DATA_BATCH", 4)]), ([], [("data_batch", 4)]),
            ([("N", 4), ("M", 8)], []), ([("N", 4), ("N", 5)], []), ([("N", 4)], [("DATA_BATCH", 5)]), ([("N", "4")], []), ([("N", 0)], []),
        ):  # fmt: skip

            def declared(package):
                options = package.SessionOptions()
                for name, size in names:
                    options.add_free_dimension_override_by_name(name, size)
                for denotation, size in denotations:
                    options.add_free_dimension_override_by_denotation(denotation, size)
                session = package.InferenceSession(model.SerializeToString(), options, **CPU)
                return [(v.name, v.type, v.shape) for v in (*session.get_inputs(), *session.get_outputs())], outcome(lambda: session.run(None, {"x": X})[0].shape)

            with self.subTest(names=names, denotations=denotations):
                theirs, ours = (outcome(lambda package=package: declared(package)) for package in BOTH)
                if isinstance(theirs, tuple):
                    self.assertEqual(ours[0], theirs[0])
                    self.assertEqual(isinstance(ours[1], Exception), isinstance(theirs[1], Exception))
                else:
                    self.check(declared)
        with self.assertRaises(our_state.InvalidArgument):
            rewright.SessionOptions().add_free_dimension_override_by_name("N", -3)

    def test_initializers(self):
        def added(package, model, pairs):
            options = package.SessionOptions()
            values = [package.OrtValue.ortvalue_from_numpy(array) for _, array in pairs]  # ONNX Runtime does not keep them
            for (name, _), given in zip(pairs, values):
                options.add_initializer(name, given)
            return [package.InferenceSession(model, options, **CPU).run(None, {"x": X})[0].tolist() for _ in range(2)]

        five = numpy.full(8, 5, numpy.float32)
        for pairs in ([("w", five)], [("other", five)], [("w", five), ("w", five)], []):
            self.check(lambda package: added(package, weighted(), pairs))
        self.check(lambda package: package.SessionOptions().add_initializer("w", five))
        for wrong in (five[:4], five.astype(numpy.float64)):  # ONNX Runtime reads beyond the one and takes the other's bits
            with self.assertRaises(our_state.Fail):
                added(rewright, weighted(), [("w", wrong)])

    def test_external_initializers(self):
        five = numpy.full(8, 5, numpy.float32)

        def added(package, model, names, arrays):
            options = package.SessionOptions()
            values = [package.OrtValue.ortvalue_from_numpy(array) for array in arrays]
            options.add_external_initializers(names, values)
            return package.InferenceSession(model, options, **CPU).run(None, {"x": X})[0].tolist()

        for names, arrays in ((["w"], [five]), (["w", "z"], [five, five]), (["w", "z"], [five]), (["w"], [five[:4]]), (["w"], [five.astype("f8")]), ([], [])):
            self.check(lambda package: added(package, weighted("none.bin"), names, arrays))
        self.check(lambda package: added(package, weighted(), ["w"], [five]))

    def test_files_in_memory(self):
        data = numpy.full(8, 7, numpy.float32).tobytes()

        def added(package, names, buffers, lengths):
            options = package.SessionOptions()
            options.add_external_initializers_from_files_in_memory(names, buffers, lengths)
            return package.InferenceSession(weighted("none.bin"), options, **CPU).run(None, {"x": X})[0].tolist()

        for names, buffers, lengths in (
            (["none.bin"], [data], [32]), (["none.bin"], [bytearray(data)], [32]), (["none.bin"], [numpy.frombuffer(data, numpy.uint8)], [32]),
            (["none.bin"], [data], [8]), (["none.bin"], [data], []), (["other.bin"], [data], [32]),
        ):  # fmt: skip
            self.check(lambda package: added(package, names, buffers, lengths))

    def test_optimized_model_filepath(self):
        """Ours is the model as it was imported, with what was given: it computes the same."""
        with tempfile.TemporaryDirectory() as folder:
            for package in BOTH:
                options = package.SessionOptions()
                options.optimized_model_filepath = os.path.join(folder, package.__name__ + ".onnx")
                options.add_free_dimension_override_by_name("N", 4)
                session = package.InferenceSession(one_node("Neg", shape=["N", 8]).SerializeToString(), options, **CPU)
                onnx.checker.check_model(options.optimized_model_filepath)
                again = onnxruntime.InferenceSession(options.optimized_model_filepath, **CPU)
                self.assertEqual(again.get_inputs()[0].shape, [4, 8])
                self.assertEqual(again.run(None, {"x": X + 1})[0].tolist(), session.run(None, {"x": X + 1})[0].tolist())

            def elsewhere(package):
                options = package.SessionOptions()
                options.optimized_model_filepath = os.path.join(folder, "no", "such", "m.onnx")
                return package.InferenceSession(one_node("Neg").SerializeToString(), options, **CPU)

            self.check(elsewhere)


class Sessions(Same):
    def test_profiling(self):
        with tempfile.TemporaryDirectory() as folder:
            for package in BOTH:
                options = package.SessionOptions()
                options.enable_profiling = True
                options.profile_file_prefix = os.path.join(folder, package.__name__)
                session = package.InferenceSession(weighted(), options, **CPU)
                session.run(None, {"x": X})
                file = session.end_profiling()
                self.assertEqual(glob.glob(os.path.join(folder, package.__name__ + "*.json")), [file])
                self.assertEqual(session.end_profiling(), "")
                with open(file, encoding="utf-8") as opened:
                    lines = opened.read().splitlines()
                events = json.loads("".join(lines))
                self.assertEqual(len(events), len(lines) - 2)  # one a line
                for event in events:
                    self.assertTrue({"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"} <= set(event), event)
                self.assertTrue({"session_initialization", "model_run"} <= {event["name"] for event in events})
        self.check(lambda package: package.InferenceSession(weighted(), **CPU).end_profiling())
        self.check(lambda package: package.InferenceSession(weighted(), **CPU).get_profiling_start_time_ns())

    def test_start_of_profiling(self):
        options, times = rewright.SessionOptions(), [time.monotonic_ns()]
        options.enable_profiling = True
        for _ in range(2):
            times.append(rewright.InferenceSession(weighted(), options).get_profiling_start_time_ns())
        times.append(time.monotonic_ns())
        self.assertEqual(times, sorted(times))

    def test_run_async(self):
        for package in BOTH:
            session, mark = package.InferenceSession(one_node("Neg").SerializeToString(), **CPU), object()
            for feeds, fails in (({"x": X + 1}, False), ({"x": X[:2]}, True)):
                done, told = threading.Event(), []

                def callback(results, user_data, error):
                    told.append((results, user_data, error))
                    done.set()

                session.run_async(["y"], feeds, callback, mark)
                self.assertTrue(done.wait(60))
                results, user_data, error = told[0]
                self.assertIs(user_data, mark)
                self.assertEqual((bool(error), len(results)), (fails, 0 if fails else 1))
            with self.assertRaises(ValueError):
                session.run_async(["y"], {}, callback, mark)

    def test_facts(self):
        sessions = {package: package.InferenceSession(one_node("Relu", shape=["N", None]).SerializeToString(), **CPU) for package in BOTH}
        for read in (
            lambda s: str(s.get_inputs()[0]), lambda s: [info.name for info in s.get_input_memory_infos() + s.get_output_memory_infos()],
            lambda s: [device.ep_name for device in s.get_input_epdevices()], lambda s: s.get_tuning_results(), lambda s: s.set_tuning_results([]),
            lambda s: s.set_ep_dynamic_options({"a": "b"}), lambda s: s.create_ortvalue_from_shape_and_type([2], numpy.float32, "cpu").shape(),
            lambda s: s.release_captured_graph(), lambda s: s.get_provider_options(), lambda s: setattr(s.get_inputs()[0], "name", "z"),
            lambda s: [s.disable_fallback(), s.enable_fallback()], lambda s: setattr(s.get_modelmeta(), "domain", "z"),
        ):  # fmt: skip
            self.check(lambda package: read(sessions[package]))


if __name__ == "__main__":
    main()
