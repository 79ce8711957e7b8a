// Products of floats with a packed right operand, and the operators after them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/kernels/product/packed_matrix.h"
#include "runtime/cpu/planning/kernel.h"

namespace rewright::cpu {

// An operation after the product on every element: a function, or the addition of a tensor times `alpha`.
struct RowOperation {
  std::optional<RowFunction> function;  // nullopt: an addition
  float alpha = 1, beta = 0;
  int input = -1;  // number of the addend among the step's inputs; its columns are contiguous
  std::int64_t row_stride = 0;
  std::vector<std::int64_t> batch_strides{};
};

// Packed panels that are no floats.
class UnpackedPanels {
 public:
  virtual ~UnpackedPanels() = default;
  // Rows first <= k < last of a panel, for the loops.
  virtual void unpack(std::int64_t panel, std::int64_t first, std::int64_t last, float* rows) const = 0;
};

// y[r, c] = operations(bias[c] + sum(k) a[r, k] b[k, c])
struct ProductTask {
  using Count = std::int64_t;
  const ProductLoops* loops = nullptr;
  PackedShape b;
  std::int64_t rows = 0;
  std::int64_t a_rows = 0, a_columns = 1;  // strides
  std::int64_t y_rows = 0;                 // stride
  const float* bias = nullptr;             // null, or for all columns of the panels, including padding
  std::span<const RowOperation> operations{};
  const UnpackedPanels* panels = nullptr;  // instead of `packed`
  bool is_short = false;                   // `packed` has 16 bits for each element (pack_short)

  // Rows and panels of the result, from the first up to the last (exclusive).
  struct Part {
    std::int64_t first_row, last_row, first_panel, last_panel;
    std::int64_t packed_from = 0;  // the panel that `packed` begins with
  };
  // `packed`: floats, or 16 bits each. `addends`: the addresses of each operation's addend.
  void run(const float* a, const void* packed, float* y, std::span<const float* const> addends, const Part& part) const;
  // The operations on rows `top` to `bottom` of a panel of the result. `partial`: they lie there, and not in y; null if not.
  void finish(const float* partial, float* y, std::span<const float* const> addends, Count top, Count bottom,
              Count panel) const;
  // Divide by columns, so that each part of b is read once, or by rows, because columns would leave a thread much less to do?
  bool cut_by_columns(int threads) const;
  Count units(bool by_columns) const { return by_columns ? b.panels() : rows; }
  // One of its pieces.
  Part part(Count piece, Count pieces, bool by_columns) const;
  double nanoseconds() const;  // of one thread, roughly
};

// Shared by the products of this file: operations and bias (if any) of the step.
struct ProductExtras {
  std::vector<float> bias;  // by column; empty: none
  std::vector<RowOperation> operations;
};

// Bias and operations at fixed addresses.
class ProductKernel : public Kernel {
 protected:
  ProductKernel(ProductTask task, ProductExtras extras);
  // Finds the addends of product `number` in a batch of these sizes.
  void find_addends(const Call& call, std::int64_t number, const std::vector<std::int64_t>& sizes,
                    std::span<const float*> addends) const;
  static constexpr std::size_t kMostOperations = 8;
  ProductTask task_;

 private:
  ProductExtras extras_;
};

// A tensor, starting `a_offset` elements into input 0, times packed constants.
std::unique_ptr<Kernel> make_packed_product(ProductTask task, std::int64_t a_offset, Tensor packed, ProductExtras extras);

// Batched products of two tensors. Batch strides are in elements, 0 for broadcast operands.
struct ProductBatch {
  std::vector<std::int64_t> sizes, a_strides, b_strides, y_strides;
  std::int64_t a_offset = 0, b_offset = 0;
  StridedMatrix b;
  std::vector<float> column_factors;  // of b; empty: none
  int threads = 1;
};
// Inputs 0 and 1 are the operands; b is packed into scratch memory: all of it first, or, where a few rows are multiplied, each
// panel just before.
std::unique_ptr<Kernel> make_batch_product(ProductTask task, ProductBatch batch, ProductExtras extras);

}  // namespace rewright::cpu
