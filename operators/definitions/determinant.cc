
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "operators/sink_builder.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

using Matrix = std::vector<double>;  // n * n, row by row

// LU decomposition with complete pivoting. Element (i, j) of the eliminated matrix is element (rows[i], columns[j]) of the
// given one, which equals L D U with unit diagonals of L and U: L is stored below the diagonal, D on it, U above. Pivots are
// the largest remaining elements, so that L and U are well-conditioned however close to singular the matrix is.
struct Elimination {
  Matrix a;
  std::vector<std::size_t> rows, columns;
  double sign = 1;  // of both permutations together
};

Elimination eliminated(Matrix given, std::size_t n) {
  Elimination e{std::move(given), std::vector<std::size_t>(n), std::vector<std::size_t>(n)};
  std::iota(e.rows.begin(), e.rows.end(), 0), std::iota(e.columns.begin(), e.columns.end(), 0);
  Matrix& a = e.a;
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t row = k, column = k;
    double largest = -1;
    for (std::size_t i = k; i < n; ++i)
      for (std::size_t j = k; j < n; ++j) {
        const double size = std::isnan(a[i * n + j]) ? HUGE_VAL : std::fabs(a[i * n + j]);
        if (size > largest) largest = size, row = i, column = j;
      }
    if (largest == 0) break;  // only zeros remain
    if (row != k) {
      std::swap_ranges(a.data() + row * n, a.data() + (row + 1) * n, a.data() + k * n);
      std::swap(e.rows[row], e.rows[k]);
      e.sign = -e.sign;
    }
    if (column != k) {
      for (std::size_t i = 0; i < n; ++i) std::swap(a[i * n + column], a[i * n + k]);
      std::swap(e.columns[column], e.columns[k]);
      e.sign = -e.sign;
    }
    const double pivot = a[k * n + k];
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] /= pivot;
      for (std::size_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
    for (std::size_t j = k + 1; j < n; ++j) a[k * n + j] /= pivot;
  }
  return e;
}

// to[j] -= factor * from[j], two at a time: the baseline instruction set does without vectors in plain loops.
void subtract_scaled(double* to, const double* from, double factor, std::size_t count) {
  typedef double Pair __attribute__((vector_size(16), aligned(8), may_alias));
  std::size_t j = 0;
  for (; j + 2 <= count; j += 2) *reinterpret_cast<Pair*>(to + j) -= factor * *reinterpret_cast<const Pair*>(from + j);
  for (; j < count; ++j) to[j] -= factor * from[j];
}

// The pivots alone are the determinant, so the largest element of a column is good enough as one.
double determinant(Matrix given, std::size_t n) {
  double zero = 0;  // 0 times what is not finite is NaN
  for (const double x : given) zero += 0 * x;
  if (zero != 0) {  // no row of them may be left out of the result
    const Elimination e = eliminated(std::move(given), n);
    double result = e.sign;
    for (std::size_t k = 0; k < n; ++k) result *= e.a[k * n + k];
    return result;
  }
  double result = 1;
  for (std::size_t k = 0; k < n; ++k) {
    double* const own = given.data() + k * n;
    double* best = own;
    for (double* row = own; row != given.data() + n * n; row += n)
      if (std::fabs(row[k]) > std::fabs(best[k])) best = row;
    const double pivot = best[k];
    if (pivot == 0) return 0;
    if (best != own) {
      std::swap_ranges(own + k, own + n, best + k);
      result = -result;
    }
    result *= pivot;
    for (double* row = own + n; row != given.data() + n * n; row += n)
      if (row[k] != 0) subtract_scaled(row + k + 1, own + k + 1, row[k] / pivot, n - k - 1);
  }
  return result;
}

// The cofactor matrix of a product is the product of the factors' cofactor matrices; that of L is its transposed inverse. So
// nothing is divided by small numbers (G. W. Stewart, On the adjugate matrix, Linear Algebra and its Applications 283, 1998).
Matrix cofactors(Matrix given, std::size_t n) {
  const Elimination e = eliminated(std::move(given), n);
  const Matrix& a = e.a;
  Matrix m(n * n);
  double before = e.sign;
  for (std::size_t i = 0; i < n; ++i) m[i * n + i] = before, before *= a[i * n + i];
  double after = 1;
  for (std::size_t i = n; i-- > 0;) m[i * n + i] *= after, after *= a[i * n + i];
  for (std::size_t i = n; i-- > 0;)  // L^T Z = cofactors of D
    for (std::size_t k = i + 1; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) m[i * n + j] -= a[k * n + i] * m[k * n + j];
  for (std::size_t i = 0; i < n; ++i)  // M U^T = Z
    for (std::size_t j = n; j-- > 0;)
      for (std::size_t k = j + 1; k < n; ++k) m[i * n + j] -= m[i * n + k] * a[j * n + k];
  Matrix result(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) result[e.rows[i] * n + e.columns[j]] = m[i * n + j];
  return result;
}

void require_square(Definition& d, const Operand& x) {
  d.require(is_real(x.type()), [&] { return "input is " + std::string(name(x.type())) + ", a real type is needed"; });
  d.require(x.rank() >= 2, [&] { return "input has rank " + std::to_string(x.rank()) + ", at least 2 is needed"; });
  d.require(equal(x.size(x.rank() - 2), x.size(x.rank() - 1)),
            [&] { return "matrices of shape " + to_string(x.shape()) + " are not square"; });
}

// Calls f(matrix, its size) for each matrix of x.
template <class F>
void for_each_matrix(const Tensor& x, const F& f) {
  const std::vector<double> values = x.reals();
  const auto n = static_cast<std::size_t>(x.sizes().back());
  const Sizes around(x.sizes().begin(), x.sizes().end() - 2);
  require_few(element_count(around));
  const auto count = static_cast<std::size_t>(element_count(around));
  for (std::size_t m = 0; m < count; ++m) f(Matrix(values.data() + m * n * n, values.data() + (m + 1) * n * n), n);
}

// The determinant of each matrix.
struct Det {
  static constexpr std::string_view kName = "Det";
  static void onnx(OnnxMapping& m) { m.since = 11; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    require_square(d, in[0]);
    d.output_without_denotation(in[0].type(), Indices(in[0].shape().begin(), in[0].shape().end() - 2));
    return d;
  }

  std::vector<Tensor> execute(std::span<const Tensor> in) const {
    std::vector<double> results;
    for_each_matrix(in[0], [&](Matrix matrix, std::size_t n) { results.push_back(determinant(std::move(matrix), n)); });
    return {Tensor::from_reals(in[0].type(), Sizes(in[0].sizes().begin(), in[0].sizes().end() - 2), results)};
  }

  // Jacobi's formula. Cofactors also exist where the matrix is singular.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    Indices shape = b.shape_of(call.output_gradients[0]);
    shape.insert(shape.end(), {1, 1});
    return {b.add("Mul", {b.reshaped(call.output_gradients[0], shape), b.add("CofactorMatrix", {call.inputs[0]})})};
  }
};

// Submatrices of matrices with a known size n > 1: [..., i, j] is the matrix without row i and column j. Cofactors are their
// determinants with signs.
class Minors {
 public:
  static std::int64_t size(const GraphBuilder& b, ValueId x) {
    const Index& n = b.shape_of(x).back();
    if (!n.is_constant()) throw Error(ErrorCode::kUnsupported, "the size of the matrices is not known", "CofactorMatrix");
    return n.value();
  }

  Minors(GraphBuilder& b, ValueId x) : b_(b), x_(x), rank_(b.shape_of(x).size()) {
    const std::int64_t n = size(b, x);
    std::vector<std::int64_t> others;
    std::vector<double> signs;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        signs.push_back((i + j) % 2 == 0 ? 1 : -1);
        if (j != i) others.push_back(j);
      }
    signs_ = b.constant(Tensor::from_reals(b.type_of(x).type, {n, n}, signs));
    others_ = b.constant(Tensor::from_integers(DataType::kInt64, {n, n - 1}, others));
    rows_ = b.add("Gather", {x_, others_}, {{"axis", Index(rank_ - 2)}});  // [..., i, row, column]
    both_ = b.add("Gather", {rows_, others_}, {{"axis", Index(rank_)}});   // [..., i, row, j, column]
    for (std::size_t a = 0; a < rank_ + 2; ++a) swap_.emplace_back(a);
    std::swap(swap_[rank_ - 1], swap_[rank_]);
    minors_ = b.transposed(both_, swap_);
  }

  ValueId cofactors() const { return b_.add("Mul", {b_.add("Det", {minors_}), signs_}); }

  // The gradient in x of the sum of g * cofactors: a minor's gradient is its own cofactor matrix, scattered to the places of
  // its elements.
  ValueId gradient(ValueId g) const {
    Indices shape = b_.shape_of(g);
    shape.insert(shape.end(), {1, 1});
    const ValueId of_minors =
        b_.add("Mul", {b_.reshaped(b_.add("Mul", {g, signs_}), shape), b_.add("CofactorMatrix", {minors_})});
    return put_back(x_, rows_, rank_ - 2, put_back(rows_, both_, rank_, b_.transposed(of_minors, swap_)));
  }

 private:
  ValueId put_back(ValueId from, ValueId gathered, std::size_t axis, ValueId g) const {
    const Operator& gather = registry().get("Gather");
    Attributes attributes = gather.defaults();
    attributes.at(gather.field("axis").value()) = Index(axis);
    return add_gradient({b_, gather, std::move(attributes), {from, others_}, {gathered}, {g}, {true, false}}).at(0);
  }

  GraphBuilder& b_;
  const ValueId x_;
  const std::size_t rank_;
  ValueId signs_, others_, rows_, both_, minors_;
  Indices swap_;
};

// y[..., i, j] = (-1)^(i + j) times the determinant of x[...] without row i and column j. For an invertible matrix this is the
// transposed inverse times the determinant.
struct CofactorMatrix {
  static constexpr std::string_view kName = "CofactorMatrix";

  Definition define(const Inputs& in) const {
    Definition d(in);
    require_square(d, in[0]);
    d.output_without_denotation(in[0].type(), in[0].shape());
    return d;
  }

  std::vector<Tensor> execute(std::span<const Tensor> in) const {
    std::vector<double> results;
    for_each_matrix(in[0], [&](Matrix matrix, std::size_t n) {
      const Matrix found = cofactors(std::move(matrix), n);
      results.insert(results.end(), found.begin(), found.end());
    });
    return {Tensor::from_reals(in[0].type(), in[0].sizes(), results)};
  }

  static void onnx(OnnxMapping& m) {
    m.type = {};
    m.write = [](OnnxSink& sink, const Attributes&, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      if (!sink.type_of(inputs[0]).shape.back().is_constant()) return false;
      SinkBuilder b(sink);
      const ValueId x = static_cast<ValueId>(inputs[0]);
      const ValueId y = Minors::size(b, x) < 2 ? b.filled(b.type_of(x), 1) : Minors(b, x).cofactors();
      sink.node("Identity", {}, {static_cast<OnnxValue>(y)}, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    if (Minors::size(call.graph, call.inputs[0]) < 2) return call.none();
    return {Minors(call.graph, call.inputs[0]).gradient(call.output_gradients[0])};
  }
};

}  // namespace

void register_determinant(Registry& r) {
  r.add<Det>();
  r.add<CofactorMatrix>();
}

}  // namespace rewright::operators
