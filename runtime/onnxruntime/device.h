// ONNX Runtime on this machine's CPU, as a device to optimize for.
#pragma once

#include <memory>

#include "optimizer/devices/device.h"

namespace rewright::runtime {

// Starts the helper process that holds ONNX Runtime: python/ort_worker.py, run by the interpreter that REWRIGHT_PYTHON names,
// or else by the one of the cache folder that tools/setup made. threads = 0: all cores.
// Throws Error(kMissing) if there is no interpreter or it has no ONNX Runtime.
std::unique_ptr<Device> make_onnxruntime_device(int threads);

}  // namespace rewright::runtime
