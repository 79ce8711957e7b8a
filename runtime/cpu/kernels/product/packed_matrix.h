// Right operands of products, packed for the loops of product_loops.h.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/cpu/loops/product_loops.h"

namespace rewright::cpu {

// A matrix of floats in place; strides in elements.
struct StridedMatrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 1;
};

// `rows` x `columns` in panels of `vectors` vectors; padding columns of the last panel are zeros.
struct PackedShape {
  std::int64_t rows = 0, columns = 0;
  std::int64_t vectors = 1, width = 0;  // of a panel: in vectors, in floats

  std::int64_t panels() const { return (columns + width - 1) / width; }
  std::int64_t panel_floats() const { return rows * width; }
  std::int64_t floats() const { return panels() * panel_floats(); }
};

// The panels that are fastest for `left_rows` rows.
PackedShape packed_shape(const ProductLoops& loops, std::int64_t left_rows, std::int64_t rows, std::int64_t columns);
// The panels that are nearly fastest for any number of rows.
PackedShape packed_shape(const ProductLoops& loops, std::int64_t rows, std::int64_t columns);

// Packs panels first <= p < last to `target`, multiplied by `column_factors` (one for each column, or none).
void pack(const ProductLoops& loops, const float* source, const StridedMatrix& matrix, const PackedShape& shape,
          std::span<const float> column_factors, float* target, std::int64_t first, std::int64_t last);

// Are the lower 16 bits of all elements zero, so that the upper ones (a bfloat16) are the number? Published weights often are
// such numbers, stored as floats.
bool fits_16_bits(const float* source, const StridedMatrix& matrix);
// Packs all panels of such a matrix with 16 bits for each element, in the order of ProductLoops::widen.
void pack_short(const ProductLoops& loops, const float* source, const StridedMatrix& matrix, const PackedShape& shape,
                std::uint16_t* target);

}  // namespace rewright::cpu
