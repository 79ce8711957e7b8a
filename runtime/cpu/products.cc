// Matrix products: OpenBLAS, or oneDNN with packed weights where its kernels are the faster ones (AVX-512). Operands may be
// strided views, so a transpose before a product costs nothing.
#include <cblas.h>

#include <algorithm>

#include "runtime/cpu/epilogue.h"

namespace rewright::cpu {

namespace {

using dnnl::memory;

// y[batch, m, n] = alpha * sum(k) a[batch, m, k] b[batch, k, n] + c
struct Matrix {
  std::int64_t offset = 0;
  std::vector<std::int64_t> batch;     // strides; 0 where the operand is repeated
  std::int64_t rows = 0, columns = 0;  // strides
};
struct Product {
  Sizes batch;
  std::int64_t m = 1, n = 1, k = 1;
  Matrix a, b;
  double alpha = 1;

  std::int64_t batch_count() const { return element_count(batch); }
};

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

// One of the two strides is 1 (or its axis has one element): what BLAS calls a matrix or a transposed one.
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
  // `addend`: strides of c over batch, m, n; empty if there is none. `beta` scales it.
  BlasKernel(Product product, std::vector<std::int64_t> addend, double beta)
      : p_(std::move(product)),
        addend_(std::move(addend)),
        beta_(beta),
        a_(*blas_matrix(p_.a, p_.m, p_.k)),
        b_(*blas_matrix(p_.b, p_.k, p_.n)) {}

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

  void fill(const T* c, T* y) const {
    for (std::int64_t r = 0; r < p_.batch_count() * p_.m; ++r)
      for (std::int64_t j = 0; j < p_.n; ++j)
        y[r * p_.n + j] = c == nullptr ? T(0) : static_cast<T>(beta_ * c[r % p_.m * addend_[0] + j * addend_[1]]);
  }

  Product p_;
  std::vector<std::int64_t> addend_;
  double beta_;
  BlasMatrix a_, b_;
};

std::vector<std::int64_t> plain_strides(const Sizes& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t a = sizes.size(); a-- > 1;) strides[a - 1] = strides[a] * sizes[a];
  return strides;
}

class ProductPlan final : public NodePlan {
 public:
  ProductPlan(const Node& node, Product product, DataType type, double beta, bool trans_a, bool trans_b, bool packed_weights,
              std::size_t result_rank)
      : node_(node),
        p_(std::move(product)),
        type_(type),
        beta_(beta),
        trans_a_(trans_a),
        trans_b_(trans_b),
        packed_(packed_weights),
        epilogue_(result_rank - 1) {}

  bool absorb(Planner& planner, const Chain& chain) override { return packed_ && epilogue_.absorb(planner, chain); }

  void emit(Planner& planner, ValueId result) override {
    if (packed_) return emit_packed(planner, result);
    const int a = operand(planner, node_.inputs[0], true), b = operand(planner, node_.inputs[1], false);
    std::vector<int> inputs{a, b};
    std::vector<std::int64_t> addend;
    if (planner.has(node_, 2)) {
      const Sizes c = planner.info(node_.inputs[2]).sizes;
      const auto strides = plain_strides(c);
      addend = {0, 0};
      for (std::size_t back = 0; back < c.size() && back < 2; ++back)
        if (c[c.size() - 1 - back] != 1) addend[1 - back] = strides[c.size() - 1 - back];
      inputs.push_back(planner.storage(node_.inputs[2], kPlain));
    }
    const int target = planner.add_value(result, kPlain);
    if (type_ == DataType::kFloat)
      planner.add_step(std::make_unique<BlasKernel<float>>(p_, std::move(addend), beta_), std::move(inputs), {target});
    else
      planner.add_step(std::make_unique<BlasKernel<double>>(p_, std::move(addend), beta_), std::move(inputs), {target});
  }

 private:
  // Sets the strides of an operand, as a view of another value if its producer only moves elements.
  int operand(Planner& planner, ValueId value, bool left) {
    const Sizes sizes = planner.info(value).sizes;
    Matrix& matrix = left ? p_.a : p_.b;
    if (const auto view = planner.view(value)) {
      matrix.offset = view->offset;
      set_strides(matrix, sizes, view->strides, left);
      const bool usable = left ? blas_matrix(matrix, p_.m, p_.k).has_value() : blas_matrix(matrix, p_.k, p_.n).has_value();
      if (usable) return planner.storage(view->source, kPlain);
      matrix.offset = 0;
    }
    set_strides(matrix, sizes, plain_strides(sizes), left);
    return planner.storage(value, kPlain);
  }

  void set_strides(Matrix& matrix, const Sizes& sizes, const std::vector<std::int64_t>& strides, bool left) const {
    const std::size_t rank = sizes.size();
    if (rank == 1) {
      matrix.rows = left ? 0 : strides[0];
      matrix.columns = left ? strides[0] : 0;
      matrix.batch.assign(p_.batch.size(), 0);
      return;
    }
    matrix.rows = strides[rank - 2];
    matrix.columns = strides[rank - 1];
    if (left ? trans_a_ : trans_b_) std::swap(matrix.rows, matrix.columns);
    matrix.batch.assign(p_.batch.size(), 0);
    for (std::size_t back = 0; back + 2 < rank; ++back) {
      const std::size_t axis = rank - 3 - back;
      if (sizes[axis] != 1) matrix.batch[p_.batch.size() - 1 - back] = strides[axis];
    }
  }

  // Constant weights of two axes, packed; all rows of a in one product.
  void emit_packed(Planner& planner, ValueId result) {
    const std::int64_t rows = p_.batch_count() * p_.m;
    const auto f32 = memory::data_type::f32;
    const memory::desc a({rows, p_.k}, f32, memory::format_tag::ab), y({rows, p_.n}, f32, memory::format_tag::ab);
    const memory::desc any({p_.k, p_.n}, f32, memory::format_tag::any), bias_desc({1, p_.n}, f32, memory::format_tag::ab);
    const memory::desc plain({p_.k, p_.n}, f32, trans_b_ ? memory::format_tag::ba : memory::format_tag::ab);
    const std::vector<float> bias = shifted_bias(planner);
    const RowLoops::Unary function = epilogue_.take_last_function(planner.options().isa);
    const std::vector<memory::desc> additions(epilogue_.additions().size(), y);
    dnnl::primitive_attr attributes = user_scratchpad();
    attributes.set_post_ops(epilogue_.post_ops(additions));
    const dnnl::matmul::primitive_desc d(dnnl_engine(), a, any, bias.empty() ? memory::desc() : bias_desc, y, attributes);
    std::vector<std::pair<int, memory>> owned;
    owned.emplace_back(DNNL_ARG_WEIGHTS, packed(scaled_weights(planner).data(), plain, d.weights_desc()));
    if (!bias.empty()) owned.emplace_back(DNNL_ARG_BIAS, packed(bias.data(), bias_desc, bias_desc));
    std::vector<DnnlKernel::Argument> arguments{{DNNL_ARG_SRC, a, 0, -1}, {DNNL_ARG_DST, y, -1, 0}};
    std::vector<int> inputs{planner.storage(node_.inputs[0], kPlain)};
    const std::vector<int> numbers = epilogue_.argument_numbers();
    for (std::size_t n = 0; n < additions.size(); ++n) {
      arguments.push_back({numbers[n], y, static_cast<int>(inputs.size()), -1});
      inputs.push_back(planner.storage(epilogue_.additions()[n], kPlain));
    }
    const int target = planner.add_value(result, kPlain);
    std::unique_ptr<Kernel> kernel =
        std::make_unique<DnnlKernel>(dnnl::matmul(d), d.scratchpad_desc(), std::move(arguments), std::move(owned));
    if (function != nullptr) kernel = followed_by(std::move(kernel), function, rows * p_.n);
    planner.add_step(std::move(kernel), std::move(inputs), {target});
  }

  std::vector<float> scaled_weights(const Planner& planner) const {
    const auto w = planner.constant(node_.inputs[1]).data<float>();
    std::vector<float> result(w.begin(), w.end());
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::size_t column = trans_b_ ? i / static_cast<std::size_t>(p_.k) : i % static_cast<std::size_t>(p_.n);
      result[i] = static_cast<float>(result[i] * p_.alpha * (epilogue_.affine() ? epilogue_.affine()->scale[column] : 1.0));
    }
    return result;
  }

  std::vector<float> shifted_bias(const Planner& planner) const {
    std::vector<float> result;
    if (!planner.has(node_, 2) && !epilogue_.affine()) return result;
    result.resize(static_cast<std::size_t>(p_.n));
    for (std::size_t c = 0; c < result.size(); ++c) {
      double b = 0;
      if (planner.has(node_, 2)) {
        const auto given = planner.constant(node_.inputs[2]).data<float>();
        b = beta_ * given[given.size() == 1 ? 0 : c];
      }
      result[c] = static_cast<float>(epilogue_.affine() ? b * epilogue_.affine()->scale[c] + epilogue_.affine()->shift[c] : b);
    }
    return result;
  }

  const Node& node_;
  Product p_;
  DataType type_;
  double beta_;
  bool trans_a_, trans_b_, packed_;
  Epilogue epilogue_;
};

std::unique_ptr<NodePlan> plan_product(Planner& planner, const Node& node, bool general) {
  const ValueInfo a = planner.info(node.inputs[0]), b = planner.info(node.inputs[1]), y = planner.info(node.outputs[0]);
  if (a.type != DataType::kFloat && a.type != DataType::kDouble) return nullptr;
  if (element_count(y.sizes) == 0) return nullptr;
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;  // BLAS counts in int
  for (const ValueInfo& v : {a, b, y})
    for (const std::int64_t s : v.sizes)
      if (s >= kLimit) return nullptr;
  Product p;
  double beta = 1;
  bool trans_a = false, trans_b = false;
  if (general) {
    const AttributeReader attributes(node);
    p.alpha = attributes.real("alpha");
    beta = attributes.real("beta");
    trans_a = attributes.flag("transA");
    trans_b = attributes.flag("transB");
  }
  const bool has_rows = a.sizes.size() > 1, has_columns = b.sizes.size() > 1;
  p.k = a.sizes.empty() ? 1 : a.sizes[a.sizes.size() - (trans_a ? 2 : 1)];
  if (has_rows) p.m = a.sizes[a.sizes.size() - (trans_a ? 1 : 2)];
  if (has_columns) p.n = b.sizes[b.sizes.size() - (trans_b ? 2 : 1)];
  p.batch.assign(y.sizes.begin(), y.sizes.end() - has_rows - has_columns);

  bool packed_weights = planner.options().isa >= Isa::kAvx512 && a.type == DataType::kFloat && b.sizes.size() == 2 &&
                        has_rows && !trans_a && p.k > 0 && planner.constant(node.inputs[1]) &&
                        !planner.constant(node.inputs[0]) && p.batch_count() * p.m > 1;
  if (planner.has(node, 2)) {
    const Tensor& c = planner.constant(node.inputs[2]);
    const bool by_column = c && (c.size() == 1 || (c.size() == p.n && c.sizes().back() == p.n));
    packed_weights = packed_weights && by_column;
  }
  return std::make_unique<ProductPlan>(node, std::move(p), a.type, beta, trans_a, trans_b, packed_weights, y.sizes.size());
}

}  // namespace

void register_products(KernelTable& table) {
  table.emplace("MatMul", [](Planner& p, const Node& n) { return plan_product(p, n, false); });
  table.emplace("Gemm", [](Planner& p, const Node& n) { return plan_product(p, n, true); });
}

}  // namespace rewright::cpu
