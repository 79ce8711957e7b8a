"""The names of onnxruntime_pybind11_state."""

from rewright.capi import onnxruntime_pybind11_state


def __getattr__(name):
    return getattr(onnxruntime_pybind11_state, name)
