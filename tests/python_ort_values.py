#!/usr/bin/env python3
"""OrtValue, SparseTensor, IOBinding and devices, beside ONNX Runtime's: the same answers, the same kinds of exceptions.
Usage: python_ort_values.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import unittest

from python_testing import main, model_of, one_node, value  # says where the package is

import ml_dtypes
import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as their_state
from python_comparing import BOTH, CPU, outcome, Same

import rewright
from rewright.capi import onnxruntime_pybind11_state as our_state

X = numpy.arange(32, dtype=numpy.float32).reshape(4, 8)


class Values(Same):
    def test_as_array(self):
        for make in (
            lambda v: numpy.asarray(v), lambda v: numpy.asarray(v, dtype=numpy.float64), lambda v: numpy.array(v, copy=True),
            lambda v: numpy.asarray(v, copy=False), lambda v: numpy.asarray(v, dtype=numpy.float64, copy=False),
            lambda v: numpy.array(v, dtype=numpy.float32), lambda v: numpy.add(v, 1), lambda v: v.numpy(),
        ):  # fmt: skip

            def facts(package):
                array = make(package.OrtValue.ortvalue_from_numpy(X))
                return array.dtype, array.shape, array.tolist(), numpy.shares_memory(array, X)

            self.check(facts)

    def test_facts(self):
        for array in (X, X[:0], X.astype(numpy.float16), numpy.array([True]), numpy.array(3), X.astype(numpy.uint8), X.T):
            for read in (
                lambda v: v.shape(), lambda v: v.data_type(), lambda v: v.element_type(), lambda v: v.tensor_size_in_bytes(),
                lambda v: v.device_name(), lambda v: v.is_tensor(), lambda v: v.is_sparse_tensor(), lambda v: v.is_tensor_sequence(),
                lambda v: v.has_value(), lambda v: v.numpy().tolist(), lambda v: v.as_sparse_tensor(), lambda v: v.__dlpack_device__(),
            ):  # fmt: skip
                self.check(lambda package: read(package.OrtValue.ortvalue_from_numpy(array)))

    def test_made_of_shape_and_type(self):
        for shape, type in (([2, 3], numpy.float32), ((0, 3), numpy.int64), ([], numpy.bool_), ([2], 16), ([2], 17), ([3], 22), ([1], 77), ([1], 0), ([2], "float32")):

            def facts(package):
                made = package.OrtValue.ortvalue_from_shape_and_type(shape, type)
                return made.shape(), made.data_type(), made.element_type(), made.tensor_size_in_bytes()

            with self.subTest(shape=shape, type=type):
                self.check(facts)
        where = rewright.OrtMemoryInfo("Cpu", rewright.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, rewright.OrtMemType.DEFAULT)
        self.assertEqual(rewright.OrtValue.ortvalue_from_shape_and_type([2], numpy.float32, memory_info=where).device_name(), "cpu")

    def test_types_that_numpy_lacks(self):
        for array, type in (
            (numpy.zeros((2, 2), numpy.uint16), TensorProto.BFLOAT16), (numpy.zeros(2, numpy.uint8), TensorProto.FLOAT8E4M3FN),
            (numpy.zeros(2, numpy.uint8), TensorProto.BFLOAT16), (numpy.zeros(2, numpy.uint8), 99), (numpy.zeros(2, numpy.float32), TensorProto.FLOAT),
        ):  # fmt: skip

            def facts(package):
                made = package.OrtValue.ortvalue_from_numpy_with_onnx_type(array, type)
                return made.shape(), made.data_type(), made.element_type(), made.data_ptr() == array.ctypes.data

            self.check(facts)
        numbers = numpy.array([1.5, -2], ml_dtypes.bfloat16)
        made = rewright.OrtValue.ortvalue_from_numpy_with_onnx_type(numbers.view(numpy.uint16), TensorProto.BFLOAT16)
        self.assertEqual(made.numpy().tolist(), numbers.tolist())

    def test_devices_of_values(self):
        for name in ("cpu", "elsewhere"):
            self.check(lambda package: package.OrtValue.ortvalue_from_numpy(X, name).device_name())
        if "CUDAExecutionProvider" not in {*rewright.get_available_providers(), *onnxruntime.get_available_providers()}:
            self.check(lambda package: package.OrtValue.ortvalue_from_numpy(X, "cuda", 0))
            self.check(lambda package: package.OrtValue.ortvalue_from_shape_and_type([2], numpy.float32, "cuda", 0))
        for state in (their_state, our_state):  # the inner classes, by an OrtDevice
            device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
            made = state.OrtValue.ortvalue_from_numpy(X, device)
            self.assertEqual((made.device_name().lower(), made.numpy().tolist()), ("cpu", X.tolist()))

    def test_update_inplace(self):
        for data in (X + 1, (X + 1).reshape(8, 4), (X + 1).ravel(), (X + 1).reshape(8, 4).T, X[:1], [1]):

            def updated(package):
                kept = package.OrtValue.ortvalue_from_numpy(X.copy())
                address = kept.data_ptr()
                kept.update_inplace(data)
                return kept.numpy().tolist(), kept.data_ptr() == address

            if isinstance(data, numpy.ndarray) and data.size < X.size:  # ours is a BadInputError
                self.assertTrue(isinstance(outcome(lambda: updated(rewright)), rewright.Error))
            else:
                self.check(updated)

        def updated_by_value(package):
            kept = package.OrtValue.ortvalue_from_numpy(X.copy())
            kept.update_inplace(package.OrtValue.ortvalue_from_numpy(X + 2))
            return kept.numpy().tolist()

        self.check(updated_by_value)
        first, second = (rewright.OrtValue.ortvalue_from_numpy(array) for array in (X, numpy.zeros_like(X)))
        rewright.copy_tensors([first], [second])
        self.assertEqual(second.numpy().tolist(), X.tolist())

    def test_dlpack(self):
        for take in (
            lambda package: package.OrtValue.from_dlpack(X),
            lambda package: package.OrtValue.from_dlpack(X.__dlpack__()),
            lambda package: package.OrtValue.from_dlpack(package.OrtValue.ortvalue_from_numpy(X)),
            lambda package: package.OrtValue.from_dlpack(package.OrtValue.ortvalue_from_numpy(X).__dlpack__()),
            lambda package: package.OrtValue.from_dlpack(3),
        ):
            self.check(lambda package: (lambda v: (v.data_ptr() == X.ctypes.data, v.shape(), v.data_type(), v.numpy().tolist()))(take(package)))

        def used_twice(package):
            capsule = X.__dlpack__()
            package.OrtValue.from_dlpack(capsule)
            package.OrtValue.from_dlpack(capsule)

        self.check(used_twice)
        self.check(lambda package: numpy.shares_memory(numpy.from_dlpack(package.OrtValue.ortvalue_from_numpy(X)), X))
        truth = numpy.array([True, False])
        self.assertEqual(rewright.OrtValue.from_dlpack(truth.__dlpack__()).numpy().tolist(), [True, False])
        self.assertEqual(rewright.OrtValue.from_dlpack(truth.view(numpy.uint8), True).data_type(), "tensor(bool)")

    def test_sequences(self):
        node = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
        model = model_of([node], [value("x", 1, [2])], [helper.make_tensor_sequence_value_info("s", 1, [2])]).SerializeToString()
        for read in (lambda v: v.is_tensor(), lambda v: v.is_tensor_sequence(), lambda v: v.data_type(), lambda v: v.has_value(), lambda v: v.data_ptr()):

            def facts(package):
                given = package.OrtValue.ortvalue_from_numpy(numpy.ones(2, numpy.float32))
                return read(package.InferenceSession(model, **CPU).run_with_ort_values(None, {"x": given})[0])

            self.check(facts)

    def test_vectors(self):
        session = rewright.InferenceSession(one_node("Neg"))
        feeds, fetches = our_state.OrtValueVector(), our_state.OrtValueVector()
        feeds.push_back(rewright.OrtValue.ortvalue_from_numpy(X))
        session.run_with_ortvaluevector(rewright.RunOptions(), ["x"], feeds, ["y"], fetches, [rewright.OrtDevice.make("cpu", 0)])
        self.assertEqual(fetches[0].numpy().tolist(), (-X).tolist())
        self.assertEqual([numpy.from_dlpack(v).tolist() for v in fetches], [(-X).tolist()])
        self.assertTrue({name for name in dir(their_state.OrtValueVector) if not name.startswith("_")} <= set(dir(our_state.OrtValueVector)))


class Strings(Same):
    def test_kinds_of_text(self):
        model = one_node("Identity", shape=[None], type=TensorProto.STRING).SerializeToString()
        for texts in (
            numpy.array([b"a", b"bc"], "S4"), numpy.array(["a", "bcd"]), numpy.array(["a", "b\0c"], object), numpy.array(["\u00e4\u4e2d", ""], object),
            numpy.array([b"this", b"is"]).astype("V6"), numpy.array([3, None, 2.5, "a"], object), numpy.array([["a", "b"], ["c", "d"]])[:, 0],
            ["a", "b"], numpy.array([1.5]),
        ):  # fmt: skip
            with self.subTest(texts=texts):
                self.check(lambda package: package.InferenceSession(model, **CPU).run(None, {"x": texts})[0].tolist())
        # Bytes among objects are texts; ONNX Runtime takes what Python prints for them ("b'a'").
        session = rewright.InferenceSession(model)
        self.assertEqual(session.run(None, {"x": numpy.array([b"a", "b"], object)})[0].tolist(), ["a", "b"])
        with self.assertRaisesRegex(rewright.Error, "no tensor's"):
            session.run(None, {"x": numpy.zeros(2, [("a", "i4")])})


class Devices(Same):
    def test_devices(self):
        for name in ("cpu", "cuda", "gpu", "npu", "dml", "cann", "webgpu", "elsewhere"):
            self.check(lambda package: (lambda d: (d.device_id(), d.device_type(), d.device_vendor_id(), d.device_mem_type()))(package.OrtDevice.make(name, 1)))
        self.check(lambda package: package.OrtDevice.make("gpu", 1, 0x10DE).device_vendor_id())
        self.check(lambda package: package.OrtDevice(3))
        theirs, ours = their_state.OrtDevice, our_state.OrtDevice
        for name in ("cpu", "cuda", "gpu", "npu", "default_memory"):
            self.assertEqual(getattr(ours, name)(), getattr(theirs, name)(), name)

    def test_memory(self):
        def info(package, name):
            made = package.OrtMemoryInfo(name, package.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, package.OrtMemType.DEFAULT)
            package.create_and_register_allocator(made, None)
            package.create_and_register_allocator(made, package.OrtArenaCfg(0, -1, -1, -1))
            return made.name, int(made.allocator_type), made.device_id, int(made.mem_type), int(made.device_mem_type), made.device_vendor_id

        for name in ("Cpu", "Elsewhere"):
            self.check(lambda package: info(package, name))
        for arguments in ((0, -1, -1, -1), (5, 1, 2, 3), ({"max_mem": 5, "arena_extend_strategy": 1},), ({"foo": 5},)):
            fields = [name for name in dir(onnxruntime.OrtArenaCfg) if not name.startswith("_")]
            self.check(lambda package: [getattr(package.OrtArenaCfg(*arguments), name) for name in fields])

    def test_hardware(self):
        for package in BOTH:
            device = package.get_ep_devices()[0]
            self.assertEqual((device.ep_name, int(device.device.type)), ("CPUExecutionProvider", 0))


class Sparse(Same):
    def test_coordinates(self):
        values = numpy.array([1, 2], numpy.float32)
        for shape, numbers, indices in (
            ([3, 4], values, numpy.array([1, 11])), ([3, 4], values, numpy.array([[0, 1], [2, 3]])), ([2, 3, 4], values, numpy.array([1, 11])),
            ([3, 4], values[:0], numpy.zeros(0, numpy.int64)), ([3, 4], values, numpy.array([1, 11, 2])), ([3, 4], values.reshape(1, 2), numpy.array([1, 11])),
            ([3, 4], numpy.array(["a", "b"]), numpy.array([1, 11])), (numpy.array([3, 4]), values.astype(numpy.int64), numpy.array([1, 11])),
        ):  # fmt: skip

            def facts(package):
                made = package.SparseTensor.sparse_coo_from_numpy(shape, numbers, indices, package.OrtDevice.make("cpu", 0))
                found, where = made.values(), made.as_coo_view().indices()
                held = package.OrtValue.ort_value_from_sparse_tensor(made)
                return (
                    int(made.format()), made.dense_shape(), made.data_type(), made.device_name(), found.tolist(), where.tolist(),
                    held.is_sparse_tensor(), held.is_tensor(), held.has_value(), held.shape(), held.data_type(), held.device_name(), held.element_type(),
                )  # fmt: skip

            with self.subTest(shape=shape, indices=indices):
                self.check(facts)
        for indices in (numpy.array([-1, 2]), numpy.array([0, 12]), numpy.array([[0, 4], [0, 0]])):  # ONNX Runtime takes them
            with self.assertRaises(RuntimeError):
                rewright.SparseTensor.sparse_coo_from_numpy([3, 4], values, indices, rewright.OrtDevice.make("cpu", 0))

    def test_rows(self):
        values = numpy.array([1, 2], numpy.float32)
        for inner, outer in (([1, 1], [0, 1, 2, 2]), ([1, 1], [0, 1, 2]), ([1], [0, 1, 2, 2])):

            def facts(package):
                device = package.OrtDevice.make("cpu", 0)
                made = package.SparseTensor.sparse_csr_from_numpy([3, 3], values, numpy.array(inner), numpy.array(outer), device)
                view = made.as_csrc_view()
                return int(made.format()), made.values().tolist(), view.inner().tolist(), view.outer().tolist()

            self.check(facts)

    def test_outputs(self):
        """A sparse weight that is an output comes out as one."""
        weight = helper.make_sparse_tensor(
            numpy_helper.from_array(numpy.array([1.5, 2.5, 3.5], numpy.float32), "w"),
            numpy_helper.from_array(numpy.array([3, 5, 15]), "where"), [4, 8],
        )  # fmt: skip
        node = helper.make_node("Neg", ["x"], ["y"])
        graph = helper.make_graph([node], "sparse", [value("x", 1, [2])], [value("y", 1, [2]), helper.make_sparse_tensor_value_info("w", 1, [4, 8])], sparse_initializer=[weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

        def facts(package, names):
            session, x = package.InferenceSession(model, **CPU), numpy.ones(2, numpy.float32)
            result = session.run(names, {"x": x})[-1]
            held = session.run_with_ort_values(names, {"x": package.OrtValue.ortvalue_from_numpy(x)})[-1]
            return (
                result.values().tolist(), result.get_coo_data().indices().tolist(), result.dense_shape(), result.data_type(),
                held.is_sparse_tensor(), held.data_type(), held.shape(), held.as_sparse_tensor().values().tolist(),
            )  # fmt: skip

        for names in (None, ["y", "w"], ["w"]):
            self.check(lambda package: facts(package, names))

    def test_other_kinds(self):
        for read in (
            lambda s, v, package: s.as_csrc_view(), lambda s, v, package: s.as_blocksparse_view(), lambda s, v, package: v.numpy(),
            lambda s, v, package: v.data_ptr(), lambda s, v, package: v.tensor_size_in_bytes(), lambda s, v, package: numpy.asarray(v),
            lambda s, v, package: s.to_cuda(package.OrtDevice.make("cuda", 0)), lambda s, v, package: v.as_sparse_tensor().values().tolist(),
            lambda s, v, package: package.InferenceSession(one_node("Relu").SerializeToString(), **CPU).run_with_ort_values(None, {"x": v}),
        ):  # fmt: skip

            def facts(package):
                made = package.SparseTensor.sparse_coo_from_numpy([3, 4], numpy.ones(1, numpy.float32), numpy.array([1]), package.OrtDevice.make("cpu", 0))
                return read(made, package.OrtValue.ort_value_from_sparse_tensor(made), package)

            self.check(facts)


class Binding(Same):
    def test_wrong(self):
        model = one_node("Neg").SerializeToString()
        for bind in (
            lambda b, package: None, lambda b, package: b.bind_cpu_input("x", X), lambda b, package: b.bind_cpu_input("q", X),
            lambda b, package: b.bind_ortvalue_input("q", package.OrtValue.ortvalue_from_numpy(X)), lambda b, package: b.bind_output("y", "elsewhere"),
            lambda b, package: b.bind_output("y", "cpu", 0, None, None, X.ctypes.data),
            lambda b, package: [b.bind_cpu_input("x", X[:2]), b.bind_output("y")],
            lambda b, package: [b.bind_cpu_input("x", X.astype(numpy.float64)), b.bind_output("y")],
            lambda b, package: [b.bind_cpu_input("x", X), b.bind_ortvalue_output("y", package.OrtValue.ortvalue_from_shape_and_type([1, 8], numpy.float32))],
            lambda b, package: [b.bind_cpu_input("x", X), b.bind_ortvalue_output("y", package.OrtValue.ortvalue_from_shape_and_type([4, 8], numpy.float64))],
            lambda b, package: [b.bind_cpu_input("x", X), b.bind_output("y")],
            lambda b, package: [b.bind_input("x", "cpu", 0, numpy.float32, [4, 8], X.ctypes.data), b.bind_output("y")],
            lambda b, package: [b.bind_input("x", "cpu", 0, TensorProto.FLOAT, [4, 8], X.ctypes.data), b.bind_output("y")],
        ):  # fmt: skip

            def ran(package):
                session = package.InferenceSession(model, **CPU)
                binding = session.io_binding()
                bind(binding, package)
                session.run_with_iobinding(binding)
                return binding.copy_outputs_to_cpu()[0].tolist()

            self.check(ran)

    def test_of_another_session(self):
        for package in BOTH:
            first, second = (package.InferenceSession(one_node("Neg").SerializeToString(), **CPU) for _ in range(2))
            with self.assertRaises(ValueError):
                second.run_with_iobinding(first.io_binding())
            self.assertEqual(first.io_binding().get_outputs(), [])


if __name__ == "__main__":
    main()
