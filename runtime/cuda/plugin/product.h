// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <optional>
#include <string>

#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

class Device;

// cuBLASLt's descriptors of a product. Its matrices are column-major, so it computes y^T = b^T a^T. Needs no device.
struct ProductDescriptors {
  explicit ProductDescriptors(const ProductShape& shape, Precision precision);
  ~ProductDescriptors();
  ProductDescriptors(const ProductDescriptors&) = delete;
  ProductDescriptors& operator=(const ProductDescriptors&) = delete;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, y = nullptr;
};

// An algorithm as text and back; nullopt for invalid text.
std::string to_text(const cublasLtMatmulHeuristicResult_t& algorithm);
std::optional<cublasLtMatmulHeuristicResult_t> algorithm_of(const std::string& text);

std::unique_ptr<Operation> make_product(Device& device, const ProductShape& shape, Precision precision,
                                        const std::string& choice);

}  // namespace rewright::cuda
