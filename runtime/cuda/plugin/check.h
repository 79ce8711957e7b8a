// Failures of CUDA's libraries as Errors.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>

#include "base/error.h"

namespace rewright::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation) throw Error(ErrorCode::kMissing, "the GPU is out of memory", what);
  throw Error(ErrorCode::kMissing, std::string("CUDA: ") + cudaGetErrorString(status), what);
}

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorCode::kMissing, std::string("cuBLASLt: ") + cublasLtGetStatusString(status), what);
}

// cuDNN's statuses of categories 2000 and 3000 concern the request, all others the machine.
inline void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const bool of_question = CUDNN_STATUS_CATEGORY(status) == 2000 || CUDNN_STATUS_CATEGORY(status) == 3000;
  throw Error(of_question ? ErrorCode::kUnsupported : ErrorCode::kMissing, std::string("cuDNN: ") + cudnnGetErrorString(status),
              what);
}

}  // namespace rewright::cuda
