// The stand-in device as librewright_cuda.so, for tests of whole programs. There are two such devices.
#include <string>

#include "base/error.h"
#include "runtime/cuda/testing/host_driver.h"

extern "C" __attribute__((visibility("default"))) rewright::cuda::Driver* rewright_make_cuda_driver(int number) {
  constexpr int kDevices = 2;
  if (number >= kDevices)
    throw rewright::Error(rewright::ErrorCode::kMissing, "there is no GPU " + std::to_string(number) + ", the last one is 1");
  return rewright::cuda::new_host_driver({.device = number}).release();
}
