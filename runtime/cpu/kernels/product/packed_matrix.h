// Right operands of products, packed for the loops of product_loops.h.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "runtime/cpu/loops/product_loops.h"

namespace rewright::cpu {

// A matrix of floats where it lies; strides in elements.
struct StridedMatrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 1;
};

// Of `rows` x `columns`, in panels of `vectors` vectors; columns that fill up the last panel are zeros.
struct PackedShape {
  std::int64_t rows = 0, columns = 0;
  std::int64_t vectors = 1, width = 0;  // of a panel: in vectors, in floats

  std::int64_t panels() const { return (columns + width - 1) / width; }
  std::int64_t panel_floats() const { return rows * width; }
  std::int64_t floats() const { return panels() * panel_floats(); }
};

// The panels that multiply `left_rows` rows the fastest.
PackedShape packed_shape(const ProductLoops& loops, std::int64_t left_rows, std::int64_t rows, std::int64_t columns);

// Packs the panels first <= p < last. `column_factors` (one for each column, or none) are multiplied in.
void pack(const float* source, const StridedMatrix& matrix, const PackedShape& shape, std::span<const float> column_factors,
          float* target, std::int64_t first, std::int64_t last);

// The packed constants of a plan, in memory with huge pages: one stream of weights crosses many small pages otherwise. The
// kernels that use them keep them alive.
class PackedConstants {
 public:
  // What was packed before under the key, or room that `fill` writes.
  using Key = std::tuple<const void*, std::int64_t, std::int64_t, std::int64_t>;  // source, row stride, column stride, vectors
  const float* find(const Key& key) const;
  const float* add(std::optional<Key> key, std::int64_t floats, const std::function<void(float*)>& fill);
  // Forgets the keys of what was packed from these bytes, which may become others; what was packed stays.
  void forget(std::span<const std::byte> source);

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
  std::size_t used_ = 0, size_ = 0;  // of the last block
  std::map<Key, const float*> known_;
};

}  // namespace rewright::cpu
