// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "runtime/cuda/driver.h"

namespace rewright::cuda {

class Device;

// cuBLASLt's descriptors of a product. It counts columns first: what it computes is the transpose of y, b's times a's. No
// device is needed.
struct ProductDescriptors {
  explicit ProductDescriptors(const ProductShape& shape, Precision precision);
  ~ProductDescriptors();
  ProductDescriptors(const ProductDescriptors&) = delete;
  ProductDescriptors& operator=(const ProductDescriptors&) = delete;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, y = nullptr;
};

std::unique_ptr<Operation> make_product(Device& device, const ProductShape& shape, Precision precision);

}  // namespace rewright::cuda
