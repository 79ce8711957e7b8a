// ONNX Runtime on this machine's CPU, as a device to optimize for.
#pragma once

#include <memory>

#include "optimizer/devices/device.h"

namespace rewright::runtime {

// Starts the helper process with ONNX Runtime: python/ort_worker.py, run by the interpreter in REWRIGHT_PYTHON, or by the one
// that tools/setup installed in the cache folder. threads = 0: all cores. Throws Error(kMissing) without an interpreter or ONNX
// Runtime.
std::unique_ptr<Device> make_onnxruntime_device(int threads);

}  // namespace rewright::runtime
