#include "runtime/cpu/kernels/product/blas_product.h"

#include <cblas.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "runtime/cpu/loops/cache_loops.h"

namespace rewright::cpu {

namespace {

void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const Product& p, const float* a, int lda, const float* b, int ldb,
              bool add, float* y) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
              static_cast<float>(p.alpha), a, lda, b, ldb, add ? 1.0f : 0.0f, y, static_cast<int>(p.n));
}
void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, const Product& p, const double* a, int lda, const double* b, int ldb,
              bool add, double* y) {
  cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha, a, lda, b,
              ldb, add ? 1.0 : 0.0, y, static_cast<int>(p.n));
}
void multiply_vector(CBLAS_TRANSPOSE t, std::int64_t rows, std::int64_t columns, double alpha, const float* matrix, int stride,
                     const float* x, int x_step, bool add, float* y) {
  cblas_sgemv(CblasRowMajor, t, static_cast<int>(rows), static_cast<int>(columns), static_cast<float>(alpha), matrix, stride, x,
              x_step, add ? 1.0f : 0.0f, y, 1);
}
void multiply_vector(CBLAS_TRANSPOSE t, std::int64_t rows, std::int64_t columns, double alpha, const double* matrix, int stride,
                     const double* x, int x_step, bool add, double* y) {
  cblas_dgemv(CblasRowMajor, t, static_cast<int>(rows), static_cast<int>(columns), alpha, matrix, stride, x, x_step,
              add ? 1.0 : 0.0, y, 1);
}

// One of the two strides is 1 (or its axis has one element): BLAS reads it as a matrix or a transposed one.
struct BlasMatrix {
  CBLAS_TRANSPOSE transposed;
  int stride;
};
std::optional<BlasMatrix> blas_matrix(const Matrix& m, std::int64_t rows, std::int64_t columns) {
  if ((m.columns == 1 || columns == 1) && (m.rows >= columns || rows == 1))
    return BlasMatrix{CblasNoTrans, static_cast<int>(std::max({rows == 1 ? columns : m.rows, columns, std::int64_t{1}}))};
  if ((m.rows == 1 || rows == 1) && (m.columns >= rows || columns == 1))
    return BlasMatrix{CblasTrans, static_cast<int>(std::max({columns == 1 ? rows : m.columns, rows, std::int64_t{1}}))};
  return std::nullopt;
}

template <class T>
class BlasKernel final : public Kernel {
 public:
  BlasKernel(Product product, std::vector<std::int64_t> addend, double beta, Isa isa)
      : p_(std::move(product)),
        addend_(std::move(addend)),
        beta_(beta),
        a_(*blas_matrix(p_.a, p_.m, p_.k)),
        b_(*blas_matrix(p_.b, p_.k, p_.n)),
        loops_(loops_for<CacheLoops>(isa)) {}

  std::string source() const override { return blas_version_text(); }
  void run(const Call& call) const override {
    const T* a = reinterpret_cast<const T*>(call.inputs[0]) + p_.a.offset;
    const T* b = reinterpret_cast<const T*>(call.inputs[1]) + p_.b.offset;
    T* y = reinterpret_cast<T*>(call.outputs[0]);
    const bool add = !addend_.empty() || p_.k == 0;
    if (add) fill(addend_.empty() ? nullptr : reinterpret_cast<const T*>(call.inputs[2]), y);
    if (p_.k == 0) return;
    Sizes at(p_.batch.size());
    const std::int64_t count = p_.batch_count();
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i, a_at = 0, b_at = 0;
      for (std::size_t axis = at.size(); axis-- > 0; rest /= p_.batch[axis]) {
        a_at += rest % p_.batch[axis] * p_.a.batch[axis];
        b_at += rest % p_.batch[axis] * p_.b.batch[axis];
      }
      one(a + a_at, b + b_at, add, y + i * p_.m * p_.n);
    }
  }

 private:
  void one(const T* a, const T* b, bool add, T* y) const {
    if constexpr (std::is_same_v<T, float>)
      if (is_row_by_narrow_matrix()) return add_rows(a, b, add, y);
    if (p_.m == 1 && p_.n > 1) {
      const bool t = b_.transposed == CblasTrans;
      return multiply_vector(t ? CblasNoTrans : CblasTrans, t ? p_.n : p_.k, t ? p_.k : p_.n, p_.alpha, b, b_.stride, a,
                             static_cast<int>(p_.k == 1 ? 1 : p_.a.columns), add, y);
    }
    if (p_.n == 1) {
      const bool t = a_.transposed == CblasTrans;
      return multiply_vector(t ? CblasTrans : CblasNoTrans, t ? p_.k : p_.m, t ? p_.m : p_.k, p_.alpha, a, a_.stride, b,
                             static_cast<int>(p_.k == 1 ? 1 : p_.b.rows), add, y);
    }
    multiply(a_.transposed, b_.transposed, p_, a, a_.stride, b, b_.stride, add, y);
  }

  // A row times a matrix of few columns, whose rows follow each other: BLAS takes twice as long.
  bool is_row_by_narrow_matrix() const {
    constexpr std::int64_t kNarrow = 1024;
    return p_.m == 1 && p_.n > 1 && p_.n <= kNarrow && p_.alpha == 1 &&
           (p_.k == 1 || (p_.a.columns == 1 && p_.b.rows == p_.n)) && p_.b.columns == 1;
  }
  void add_rows(const float* a, const float* b, bool add, float* y) const {
    constexpr std::int64_t kTerms = 192;  // of a sum's part
    if (!add) std::fill_n(y, p_.n, 0.0f);
    for (std::int64_t k = 0; k < p_.k; k += kTerms)
      loops_.add_values(a + k, 0, 1, b + k * p_.n, p_.n, std::min(kTerms, p_.k - k), p_.n, y);
  }

  void fill(const T* c, T* y) const {
    for (std::int64_t r = 0; r < p_.batch_count() * p_.m; ++r)
      for (std::int64_t j = 0; j < p_.n; ++j)
        y[r * p_.n + j] = c == nullptr ? T(0) : static_cast<T>(beta_ * c[r % p_.m * addend_[0] + j * addend_[1]]);
  }

  Product p_;
  std::vector<std::int64_t> addend_;
  double beta_;
  BlasMatrix a_, b_;
  const CacheLoops& loops_;
};

// Operators behind it are computed on the result, which few rows leave in the caches.
class FinishedBlasKernel final : public ProductKernel {
 public:
  FinishedBlasKernel(const Product& product, std::vector<float> factors, ProductExtras extras, Isa isa)
      : ProductKernel(task_of(product, isa), std::move(extras)),
        blas_(product, {}, 0, isa),
        batch_(product.batch),
        count_(product.batch_count()),
        factors_(std::move(factors)) {}

  std::string source() const override { return blas_.source(); }
  void run(const Call& call) const override {
    blas_.run(call);
    const std::int64_t rows = task_.rows, columns = task_.y_rows;
    auto* y = reinterpret_cast<float*>(call.outputs[0]);
    for (std::int64_t i = 0; i < count_; ++i, y += rows * columns) {
      for (std::int64_t r = 0; r < rows && !factors_.empty(); ++r)
        for (std::int64_t c = 0; c < columns; ++c) y[r * columns + c] *= factors_[static_cast<std::size_t>(c)];
      if (task_.bias != nullptr) task_.loops->add(y, columns, task_.bias, 0, rows, columns);
      const float* addends[kMostOperations];
      find_addends(call, i, batch_, addends);
      task_.finish(nullptr, y, addends, 0, rows, 0);
    }
  }

 private:
  static ProductTask task_of(const Product& product, Isa isa) {
    ProductTask task;
    task.loops = &loops_for<ProductLoops>(isa);
    task.b = {product.k, product.n, 1, product.n};  // one panel
    task.rows = product.m;
    task.y_rows = product.n;
    return task;
  }

  BlasKernel<float> blas_;
  std::vector<std::int64_t> batch_;
  std::int64_t count_;
  std::vector<float> factors_;  // by column; empty: none
};

}  // namespace

bool blas_reads(const Matrix& m, std::int64_t rows, std::int64_t columns) { return blas_matrix(m, rows, columns).has_value(); }

std::string blas_version_text() {
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  return config.substr(0, config.find(' ', config.find(' ') + 1));
}

std::unique_ptr<Kernel> make_blas_product(DataType type, Product product, std::vector<std::int64_t> addend, double beta,
                                          Isa isa) {
  if (type == DataType::kFloat) return std::make_unique<BlasKernel<float>>(std::move(product), std::move(addend), beta, isa);
  return std::make_unique<BlasKernel<double>>(std::move(product), std::move(addend), beta, isa);
}

std::unique_ptr<Kernel> make_finished_blas_product(const Product& product, std::vector<float> factors, ProductExtras extras,
                                                   Isa isa) {
  return std::make_unique<FinishedBlasKernel>(product, std::move(factors), std::move(extras), isa);
}

}  // namespace rewright::cpu
