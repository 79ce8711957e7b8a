#!/usr/bin/env python3
"""Every public name of ONNX Runtime's Python package is here as well, or is missing on purpose.
Usage: python_names.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]

A name that a new version of ONNX Runtime brings fails this test, until it is here or has a reason below."""

import types
import unittest

from python_testing import main, one_node  # says where the package is

import onnxruntime
from onnxruntime.capi import onnxruntime_inference_collection, onnxruntime_pybind11_state

import rewright
from rewright.capi import onnxruntime_inference_collection as our_collection
from rewright.capi import onnxruntime_pybind11_state as our_state

ADAPTERS = "adapters that are merged at run time are not read"
COMPILED = "models are not compiled for devices ahead of time: what a session prepares is kept by SessionOptions.plan_cache"
PLUGINS = "devices are not brought by plug-ins of ONNX Runtime"
INSIDE = "speaks of how ONNX Runtime works inside"
QUANTIZERS = "packs weights for kernels of ONNX Runtime's contrib operators"

MISSING = {
    "onnxruntime": {
        "AdapterFormat": ADAPTERS,
        "LoraAdapter": ADAPTERS,
        "ModelCompiler": COMPILED,
        "OrtCompileApiFlags": COMPILED,
        "OrtEpContextData": COMPILED,
        "OrtEpContextDataBuffer": COMPILED,
        "OrtExternalInitializerInfo": COMPILED,
        "OrtEpAssignedNode": INSIDE,
        "OrtEpAssignedSubgraph": INSIDE,
        "OrtSyncStream": PLUGINS,
        "contextlib": "a module that was left over",
        "cuda_version": INSIDE,
        "package_name": INSIDE,
        "version": INSIDE,
        "import_capi_exception": INSIDE,
        "onnxruntime_validation": INSIDE,
    },
    "onnxruntime.capi.onnxruntime_pybind11_state": {
        "ArenaExtendStrategy": INSIDE,
        "OrtCompiledModelCompatibility": COMPILED,
        "OrtDeviceEpIncompatibilityReason": PLUGINS,
        "SessionObjectInitializer": INSIDE,
        "get_all_operator_schema": "onnx.defs has them",
        "get_all_opkernel_def": INSIDE,
        "get_compatibility_info_from_model": COMPILED,
        "get_compatibility_info_from_model_bytes": COMPILED,
        "get_hardware_device_ep_incompatibility_details": PLUGINS,
        "get_hardware_devices": PLUGINS,
        "get_model_compatibility_for_ep_devices": COMPILED,
        "get_registered_ep_kernel_defs": INSIDE,
        "get_session_initializer": INSIDE,
        "is_dlpack_uint8_tensor": INSIDE,
        "kNextPowerOfTwo": INSIDE,
        "kSameAsRequested": INSIDE,
        "opkernel": INSIDE,
        "schemadef": "onnx.defs has them",
        "pack_fp4_weights_for_cuda_moe_gemm": QUANTIZERS,
        "quantize_matmul_2bits": QUANTIZERS,
        "quantize_matmul_4bits": QUANTIZERS,
        "quantize_matmul_8bits": QUANTIZERS,
        "quantize_matmul_bnb4": QUANTIZERS,
        "quantize_qdq_matmul_2bits": QUANTIZERS,
        "quantize_qdq_matmul_4bits": QUANTIZERS,
    },
    "InferenceSession": {"get_provider_graph_assignment_info": INSIDE},
    "SessionOptions": {"set_provider_selection_policy_delegate": PLUGINS},
}


def public(thing):
    """Without what a module imports from elsewhere."""
    names = {name for name in dir(thing) if not name.startswith("_")}
    return {name for name in names if not isinstance(getattr(thing, name), types.ModuleType) or name == "capi"}


class Names(unittest.TestCase):
    def check(self, what, theirs, ours, expected=None):
        expected = set(MISSING.get(what, {})) if expected is None else expected
        missing = {name for name in public(theirs) if not hasattr(ours, name)}
        self.assertEqual(missing - expected, set(), f"{what}: neither here nor missing on purpose")
        self.assertEqual({name for name in expected if hasattr(ours, name)}, set(), f"{what}: here, though said to be missing")

    def test_package(self):
        self.check("onnxruntime", onnxruntime, rewright)

    def test_inner_module(self):
        module = "onnxruntime.capi.onnxruntime_pybind11_state"
        self.check(module, onnxruntime_pybind11_state, our_state, {*MISSING[module], *MISSING["onnxruntime"]} & public(onnxruntime_pybind11_state))

    def test_collection(self):
        names = ("InferenceSession", "Session", "IOBinding", "OrtValue", "SparseTensor", "OrtDevice", "check_and_normalize_provider_args", "copy_tensors")
        for name in names:
            self.assertTrue(hasattr(onnxruntime_inference_collection, name) and hasattr(our_collection, name), name)

    def test_classes(self):
        for name in ("RunOptions", "IOBinding", "OrtValue", "SparseTensor", "OrtDevice", "OrtMemoryInfo", "OrtArenaCfg", "ModelMetadata", "NodeArg",
                     "SessionOptions", "InferenceSession", "OrtEpDevice", "OrtHardwareDevice"):  # fmt: skip
            with self.subTest(name):
                theirs, ours = getattr(onnxruntime, name), getattr(rewright, name)
                if name in ("OrtMemoryInfo",):  # what an instance has
                    ours = ours("Cpu", rewright.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, rewright.OrtMemType.DEFAULT)
                elif name in ("OrtEpDevice", "OrtHardwareDevice"):
                    ours = rewright.get_ep_devices()[0] if name == "OrtEpDevice" else rewright.get_ep_devices()[0].device
                self.check(name, theirs, ours)

    def test_instances(self):
        """Attributes of objects that are in no class: of the objects that a program gets."""
        model = one_node("Relu").SerializeToString()
        theirs, ours = (package.InferenceSession(model, providers=["CPUExecutionProvider"]) for package in (onnxruntime, rewright))
        for get in (lambda s: s.get_modelmeta(), lambda s: s.get_inputs()[0], lambda s: s.io_binding(), lambda s: s.get_session_options()):
            self.check(type(get(theirs)).__name__, get(theirs), get(ours))

    def test_reasons(self):
        for missing in MISSING.values():
            for name, reason in missing.items():
                self.assertTrue(reason, name)


if __name__ == "__main__":
    main()
