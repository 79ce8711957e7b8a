// Products of floats whose right operand is packed, with what follows them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/kernels/product/packed_matrix.h"
#include "runtime/cpu/planning/kernel.h"

namespace rewright::cpu {

// A step behind the product, on every element: a function, or the addition of a tensor.
struct RowOperation {
  std::optional<RowFunction> function;  // nothing: an addition
  float alpha = 0, beta = 0;
  int input = -1;  // of the step: what is added; its columns follow each other
  std::int64_t row_stride = 0;
  std::vector<std::int64_t> batch_strides{};
};

// y[r, c] = operations(bias[c] + sum(k) a[r, k] b[k, c])
struct ProductTask {
  using Count = std::int64_t;
  const ProductLoops* loops = nullptr;
  PackedShape b;
  std::int64_t rows = 0;
  std::int64_t a_rows = 0, a_columns = 1;  // strides
  std::int64_t y_rows = 0;                 // stride
  const float* bias = nullptr;             // null, or for all columns of the panels, those that fill up the last included
  std::span<const RowOperation> operations{};

  // Rows and panels of the result, from the first up to but not including the last.
  struct Part {
    std::int64_t first_row, last_row, first_panel, last_panel;
  };
  // `addends`: where what each operation adds begins.
  void run(const float* a, const float* packed, float* y, std::span<const float* const> addends, const Part& part) const;
  // Is it cut by columns, so that each part of b is read once, or by rows, as these leave a thread much less to do?
  bool cut_by_columns(int threads) const;
  Count units(bool by_columns) const { return by_columns ? b.panels() : rows; }
  // One of the pieces that it is cut into.
  Part part(Count piece, Count pieces, bool by_columns) const;
  double nanoseconds() const;  // of one thread, roughly
};

// Shared by the products of this file: the task's operations are those given, bias those of the step if there is one.
struct ProductExtras {
  std::vector<float> bias;  // by column, empty if there is none
  std::vector<RowOperation> operations;
};

// The product of a tensor, which begins `a_offset` elements into input 0, with packed constants.
std::unique_ptr<Kernel> make_packed_product(ProductTask task, std::int64_t a_offset, Tensor packed, ProductExtras extras);

// Products of two tensors, many at once. Strides of a batch's axes are in elements, 0 where an operand is repeated.
struct ProductBatch {
  std::vector<std::int64_t> sizes, a_strides, b_strides, y_strides;
  std::int64_t a_offset = 0, b_offset = 0;
  StridedMatrix b;
  std::vector<float> column_factors;  // of b; empty: none
};
// Inputs 0 and 1 are the operands; b is packed into scratch memory first.
std::unique_ptr<Kernel> make_batch_product(ProductTask task, ProductBatch batch, ProductExtras extras);

}  // namespace rewright::cpu
