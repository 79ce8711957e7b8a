// MatMul and Gemm of integers of 32 and 64 bits. Sums wrap, so their order is free: the depth is cut into blocks, of which the
// left operand's fits into the second-level cache, and a panel of the right one's into the first-level cache.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/integer_matrix_loops.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/node_shapes.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

// Strides of one operand, in elements: by axis of the batch, and by row and column of a matrix.
struct MatrixStrides {
  std::vector<Count> batch;
  Count rows = 0, columns = 0;
};

struct IntegerMatrices {
  Sizes batch;
  Count rows = 1, depth = 1, columns = 1;
  MatrixStrides a, b;
  std::int64_t alpha = 1, beta = 1;
  std::optional<MatrixStrides> addend;  // the step's third input, times beta

  Count matrices() const { return element_count(batch); }
};

template <class T>
class IntegerMatrixKernel final : public Kernel {
 public:
  IntegerMatrixKernel(IntegerMatrices product, Isa isa) : p_(std::move(product)), loops_(matrix_loops<T>(isa)) {}

  void run(const Call& call) const override {
    constexpr double kProducts = sizeof(T) == 4 ? 16 : 4;  // a nanosecond
    const Count groups = (p_.rows + kRows - 1) / kRows, width = is_dot() ? kDots : kPanels * loops_.columns;
    const Count parts = (p_.columns + width - 1) / width;
    const double nanoseconds = static_cast<double>(p_.matrices() * p_.rows * p_.columns * (p_.depth + 1)) / kProducts;
    call.workers.for_each(p_.matrices() * groups * parts, nanoseconds, [&](Count unit, int) {
      const Count matrix = unit / (groups * parts), row = unit / parts % groups * kRows, column = unit % parts * width;
      Part part;
      part.rows = std::min(kRows, p_.rows - row);
      part.columns = std::min(width, p_.columns - column);
      part.a = data(call, 0) + offset(p_.a, matrix) + row * p_.a.rows;
      part.b = data(call, 1) + offset(p_.b, matrix) + column * p_.b.columns;
      part.y = reinterpret_cast<T*>(call.outputs[0]) + (matrix * p_.rows + row) * p_.columns + column;
      if (is_dot())
        multiply_dots(part);
      else
        multiply(part);
      if (p_.addend)
        finish(part, data(call, 2) + row * p_.addend->rows + column * p_.addend->columns);
      else if (p_.alpha != 1)
        finish(part, nullptr);
    });
  }

 private:
  static constexpr Count kRows = 192, kPanels = 8, kDepth = 2048 / sizeof(T);  // of a block
  static constexpr Count kDots = 256, kFew = 4, kLongDot = 16;

  // A part of a result.
  struct Part {
    const T *a, *b;
    T* y;
    Count rows, columns;
  };

  static const T* data(const Call& call, std::size_t n) { return reinterpret_cast<const T*>(call.inputs[n]); }

  Count offset(const MatrixStrides& strides, Count matrix) const {
    Count at = 0;
    for (std::size_t axis = p_.batch.size(); axis-- > 0; matrix /= p_.batch[axis])
      at += matrix % p_.batch[axis] * strides.batch[axis];
    return at;
  }

  // Vectors along the depth: where few rows meet columns whose elements follow each other, or rows few columns.
  bool is_dot() const {
    if (p_.depth < kLongDot || p_.a.columns != 1) return false;
    return p_.columns <= kFew || (p_.rows <= kFew && p_.b.rows == 1 && p_.b.columns != 1);
  }

  void multiply_dots(const Part& part) const {
    const bool is_copied = p_.b.rows != 1;
    T* const column = is_copied ? memory(p_.depth) : nullptr;
    for (Count c = 0; c < part.columns; ++c) {
      const T* b = part.b + c * p_.b.columns;
      if (is_copied) {
        for (Count k = 0; k < p_.depth; ++k) column[k] = b[k * p_.b.rows];
        b = column;
      }
      for (Count r = 0; r < part.rows; ++r) part.y[r * p_.columns + c] = loops_.dot(part.a + r * p_.a.rows, b, p_.depth);
    }
  }

  void multiply(const Part& part) const {
    const bool has_few = part.rows <= MatrixLoops<T>::kFewRows;
    const Count width = has_few ? loops_.wide_columns : loops_.columns;
    T* const packed_b = memory(kDepth * (width + kRows));
    T* const packed_a = packed_b + kDepth * width;
    Count k = 0;
    do {
      const Count depth = std::min(kDepth, p_.depth - k);
      const T* a = part.a + k * p_.a.columns;
      Count a_row = p_.a.rows;
      if (p_.a.columns != 1) {
        pack_left(a, part.rows, depth, packed_a);
        a = packed_a;
        a_row = depth;
      }
      for (Count c = 0; c < part.columns; c += width) {
        const Count n = std::min(width, part.columns - c), read = n > loops_.columns ? width : loops_.columns;
        const T* b = part.b + k * p_.b.rows + c * p_.b.columns;
        Count b_row = p_.b.rows;
        if (!(p_.b.columns == 1 && n == read && part.rows <= kRowsInPlace)) {
          pack_right(b, depth, n, read, packed_b);
          b = packed_b;
          b_row = read;
        }
        loops_.multiply(part.y + c, p_.columns, a, a_row, part.rows, b, b_row, depth, n, k > 0);
      }
      k += depth;
    } while (k < p_.depth);
  }

  // With as few rows, elements of b are read as often as packing would read them.
  static constexpr Count kRowsInPlace = 12;

  void pack_left(const T* a, Count rows, Count depth, T* to) const {
    for (Count k = 0; k < depth; ++k)
      for (Count r = 0; r < rows; ++r) to[r * depth + k] = a[r * p_.a.rows + k * p_.a.columns];
  }

  // A panel of `columns` columns, zeros up to `width`.
  void pack_right(const T* b, Count depth, Count columns, Count width, T* to) const {
    if (columns < width) std::fill_n(to, depth * width, T(0));
    if (p_.b.columns == 1) {
      for (Count k = 0; k < depth; ++k) std::copy_n(b + k * p_.b.rows, columns, to + k * width);
      return;
    }
    constexpr Count kTogether = 16;  // elements of a column: a line of the cache or two
    for (Count first = 0; first < depth; first += kTogether)
      for (Count c = 0; c < columns; ++c)
        for (Count k = first; k < std::min(depth, first + kTogether); ++k)
          to[k * width + c] = b[k * p_.b.rows + c * p_.b.columns];
  }

  void finish(const Part& part, const T* c) const {
    const auto alpha = static_cast<T>(p_.alpha), beta = static_cast<T>(p_.beta);
    for (Count r = 0; r < part.rows; ++r) {
      T* const y = part.y + r * p_.columns;
      const T* const added = c == nullptr ? nullptr : c + r * p_.addend->rows;
      if (c == nullptr)
        for (Count i = 0; i < part.columns; ++i) y[i] = alpha * y[i];
      else if (p_.addend->columns == 1)
        for (Count i = 0; i < part.columns; ++i) y[i] = alpha * y[i] + beta * added[i];
      else
        for (Count i = 0; i < part.columns; ++i) y[i] = alpha * y[i] + beta * *added;
    }
  }

  // Memory of the thread, for packed operands.
  static T* memory(Count elements) {
    static thread_local std::vector<T> result;
    if (static_cast<Count>(result.size()) < elements) result.resize(static_cast<std::size_t>(elements));
    return result.data();
  }

  IntegerMatrices p_;
  const MatrixLoops<T>& loops_;
};

// Strides of an operand whose last two axes (one if it is a vector) are those of a matrix. `vector_is_row`: of a's vectors.
MatrixStrides matrix_strides(const Sizes& sizes, const Sizes& batch, bool transposed, bool vector_is_row) {
  MatrixStrides result;
  result.batch.assign(batch.size(), 0);
  if (sizes.size() == 1) {
    (vector_is_row ? result.columns : result.rows) = 1;
    return result;
  }
  const std::size_t rank = sizes.size();
  result.rows = sizes[rank - 1], result.columns = 1;
  if (transposed) std::swap(result.rows, result.columns);
  Count stride = sizes[rank - 1] * sizes[rank - 2];
  for (std::size_t back = 0; back + 2 < rank; ++back) {
    const std::size_t axis = rank - 3 - back;
    if (sizes[axis] != 1) result.batch[batch.size() - 1 - back] = stride;
    stride *= sizes[axis];
  }
  return result;
}

// Makes the rows of all matrices of a one matrix where they follow each other and b is one matrix.
void join_rows(IntegerMatrices& p) {
  Count distance = p.rows * p.a.rows;
  for (std::size_t axis = p.batch.size(); axis-- > 0; distance *= p.batch[axis])
    if (p.batch[axis] != 1 && (p.b.batch[axis] != 0 || p.a.batch[axis] != distance)) return;
  p.rows *= p.matrices();
  p.batch.clear();
  p.a.batch.clear();
  p.b.batch.clear();
}

class IntegerMatrixPlan final : public NodePlan {
 public:
  IntegerMatrixPlan(const Node& node, IntegerMatrices product) : node_(node), product_(std::move(product)) {}

  void emit(Planner& planner, ValueId result) override {
    const DataType type = planner.info(result).type;
    const Isa isa = planner.options().isa;
    std::vector<int> inputs = planner.plain_inputs(node_);
    const int target = planner.add_value(result, kPlain);
    std::unique_ptr<Kernel> kernel;
    if (byte_size(type) == sizeof(std::uint32_t))
      kernel = std::make_unique<IntegerMatrixKernel<std::uint32_t>>(std::move(product_), isa);
    else
      kernel = std::make_unique<IntegerMatrixKernel<std::uint64_t>>(std::move(product_), isa);
    planner.add_step(std::move(kernel), std::move(inputs), {target});
  }

 private:
  const Node& node_;
  IntegerMatrices product_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_integer_matrices(Planner& planner, const Node& node) {
  const ValueInfo &a = planner.info(node.inputs[0]), &b = planner.info(node.inputs[1]), &y = planner.info(node.outputs[0]);
  const DataType type = a.type;
  if (type != DataType::kInt32 && type != DataType::kUint32 && type != DataType::kInt64 && type != DataType::kUint64)
    return nullptr;
  if (element_count(y.sizes) == 0) return nullptr;
  const planning::ProductNode product = planning::read_product_node(node, a.sizes, b.sizes, y.sizes);
  IntegerMatrices p;
  p.batch = product.batch;
  p.rows = product.m, p.depth = product.k, p.columns = product.n;
  p.a = matrix_strides(a.sizes, p.batch, product.a_transposed, true);
  p.b = matrix_strides(b.sizes, p.batch, product.b_transposed, false);
  p.alpha = static_cast<std::int64_t>(product.alpha), p.beta = static_cast<std::int64_t>(product.beta);
  if (planner.has(node, 2)) {
    const Sizes& c = planner.info(node.inputs[2]).sizes;
    MatrixStrides& strides = p.addend.emplace();
    if (!c.empty() && c.back() != 1) strides.columns = 1;
    if (c.size() > 1 && c[0] != 1) strides.rows = c[1];
  } else if (p.a.columns == 1) {
    join_rows(p);
  }
  return std::make_unique<IntegerMatrixPlan>(node, std::move(p));
}

}  // namespace rewright::cpu
