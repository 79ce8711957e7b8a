// Right sides of matrix products, packed into panels of one or two vectors of columns.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/loops/convolution_loops.h"

namespace rewright::cpu {

class Panels {
 public:
  Panels() = default;
  // `matrices` matrices of `depth` rows and `columns` columns.
  Panels(std::int64_t matrices, std::int64_t columns, std::int64_t depth, const ConvolutionLoops& loops)
      : matrices_(matrices), columns_(columns), depth_(depth), lanes_(loops.lanes), widest_(loops.lanes * loops.max_vectors) {}

  std::int64_t matrices() const { return matrices_; }
  std::int64_t depth() const { return depth_; }
  std::int64_t count() const { return (columns_ + widest_ - 1) / widest_; }  // of a matrix
  std::int64_t first(std::int64_t panel) const { return panel * widest_; }
  std::int64_t columns(std::int64_t panel) const { return std::min(widest_, columns_ - first(panel)); }
  std::int64_t vectors(std::int64_t panel) const { return (columns(panel) + lanes_ - 1) / lanes_; }
  std::int64_t stored_columns() const { return (columns_ + lanes_ - 1) / lanes_ * lanes_; }

  std::size_t bytes() const { return sizeof(float) * static_cast<std::size_t>(matrices_ * stored_columns() * depth_); }
  // Writes a row of a matrix into the panels being filled.
  void write_row(float* panels, std::int64_t matrix, std::int64_t row, const float* values) const {
    for (std::int64_t p = 0; p < count(); ++p) {
      const std::int64_t n = columns(p), width = vectors(p) * lanes_;
      float* const to = panels + (matrix * stored_columns() + first(p)) * depth_ + row * width;
      std::copy_n(values + first(p), n, to);
      std::fill(to + n, to + width, 0.0f);
    }
  }
  void set(Tensor data) { data_ = std::move(data); }
  // [depth][vectors(panel) * lanes]
  const float* data(std::int64_t matrix, std::int64_t panel) const {
    return reinterpret_cast<const float*>(data_.bytes().data()) + (matrix * stored_columns() + first(panel)) * depth_;
  }

  // Extends values for the columns of all matrices to stored_columns() for each. Empty stays empty.
  std::vector<float> by_column(const std::vector<float>& values) const {
    if (values.empty()) return {};
    std::vector<float> result(static_cast<std::size_t>(matrices_ * stored_columns()));
    for (std::int64_t m = 0; m < matrices_; ++m)
      std::copy_n(values.begin() + m * columns_, columns_, result.begin() + m * stored_columns());
    return result;
  }

 private:
  std::int64_t matrices_ = 1, columns_ = 0, depth_ = 0, lanes_ = 1, widest_ = 1;
  Tensor data_;
};

}  // namespace rewright::cpu
