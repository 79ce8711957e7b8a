// BLAS matrix products: doubles, and matrix-vector products without constant operands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/base/isa.h"
#include "runtime/cpu/kernels/product/packed_product.h"
#include "runtime/cpu/planning/kernel.h"

namespace rewright::cpu {

// y[batch, m, n] = alpha * sum(k) a[batch, m, k] b[batch, k, n] + c
struct Matrix {
  std::int64_t offset = 0;
  std::vector<std::int64_t> batch;     // strides; 0 for broadcast operands
  std::int64_t rows = 0, columns = 0;  // strides
};
struct Product {
  Sizes batch;
  std::int64_t m = 1, n = 1, k = 1;
  Matrix a, b;
  double alpha = 1;

  std::int64_t batch_count() const { return element_count(batch); }
};

// Can BLAS read a matrix of these sizes in place?
bool blas_reads(const Matrix& m, std::int64_t rows, std::int64_t columns);

std::string blas_version_text();  // "OpenBLAS 0.3.21"

// For floats or doubles. `addend`: strides over m and n of input 2, which is scaled by `beta`; empty if there is none.
std::unique_ptr<Kernel> make_blas_product(DataType type, Product product, std::vector<std::int64_t> addend, double beta,
                                          Isa isa);
// For floats, times `factors` by column (empty: none), then with bias and operations. The product's alpha must be 1 if there
// are factors.
std::unique_ptr<Kernel> make_finished_blas_product(const Product& product, std::vector<float> factors, ProductExtras extras,
                                                   Isa isa);

}  // namespace rewright::cpu
