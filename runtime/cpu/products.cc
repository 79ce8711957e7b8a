// Matrix products. Constant right operands are packed ahead, others when the product runs; both take in what follows. Operands
// may be strided views, so a transpose before a product costs nothing.
#include <algorithm>

#include "runtime/cpu/blas_product.h"
#include "runtime/cpu/epilogue.h"
#include "runtime/cpu/packed_product.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kWorthPacking = 4;  // rows of the left operand that a right one is packed for while the model runs

std::optional<RowFunction> row_function(const Eltwise& e) {
  switch (e.algorithm) {
    case dnnl::algorithm::eltwise_relu:
      return RowFunction::kRelu;
    case dnnl::algorithm::eltwise_clip:
      return RowFunction::kClip;
    case dnnl::algorithm::eltwise_linear:
      return RowFunction::kLinear;
    case dnnl::algorithm::eltwise_abs:
      return RowFunction::kAbsolute;
    case dnnl::algorithm::eltwise_logistic:
      return RowFunction::kLogistic;
    case dnnl::algorithm::eltwise_swish:
      return RowFunction::kSwish;
    case dnnl::algorithm::eltwise_hardsigmoid:
      return RowFunction::kHardSigmoid;
    case dnnl::algorithm::eltwise_hardswish:
      return RowFunction::kHardSwish;
    case dnnl::algorithm::eltwise_tanh:
      return RowFunction::kTanh;
    case dnnl::algorithm::eltwise_gelu_erf:
      return RowFunction::kGelu;
    case dnnl::algorithm::eltwise_gelu_tanh:
      return RowFunction::kGeluTanh;
    default:
      return std::nullopt;
  }
}

std::vector<std::int64_t> plain_strides(const Sizes& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t a = sizes.size(); a-- > 1;) strides[a - 1] = strides[a] * sizes[a];
  return strides;
}

// How a product is computed.
enum class Way {
  kConstant,  // b is packed ahead
  kPacked,    // b is packed when the product runs
  kBlas,
};

class ProductPlan final : public NodePlan {
 public:
  ProductPlan(const Node& node, Product product, DataType type, double beta, bool trans_a, bool trans_b, Way way,
              std::size_t result_rank)
      : node_(node),
        p_(std::move(product)),
        type_(type),
        beta_(beta),
        trans_a_(trans_a),
        trans_b_(trans_b),
        way_(way),
        epilogue_(result_rank - 1, [](const Eltwise& e) { return row_function(e).has_value(); }) {}

  bool absorb(Planner& planner, const Chain& chain) override { return way_ != Way::kBlas && epilogue_.absorb(planner, chain); }

  void emit(Planner& planner, ValueId result) override {
    if (way_ == Way::kConstant) return emit_constant(planner, result);
    if (way_ == Way::kPacked) return emit_packed(planner, result);
    std::vector<int> inputs{operand(planner, node_.inputs[0], true), operand(planner, node_.inputs[1], false)};
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
    planner.add_step(make_blas_product(type_, p_, std::move(addend), beta_), std::move(inputs), {target});
  }

 private:
  // Sets the strides of an operand, as a view of another value if its producer only moves elements.
  int operand(Planner& planner, ValueId value, bool left) {
    const Sizes sizes = planner.info(value).sizes;
    Matrix& matrix = left ? p_.a : p_.b;
    if (const auto view = planner.view(value)) {
      matrix.offset = view->offset;
      set_strides(matrix, sizes, view->strides, left);
      const bool blas = left ? blas_reads(matrix, p_.m, p_.k) : blas_reads(matrix, p_.k, p_.n);
      if (way_ == Way::kConstant ? rows_are_even() : way_ == Way::kPacked || blas) return planner.storage(view->source, kPlain);
      matrix.offset = 0;
    }
    set_strides(matrix, sizes, plain_strides(sizes), left);
    return planner.storage(value, kPlain);
  }

  // Do the rows of all matrices of `a` follow each other at one distance?
  bool rows_are_even() const {
    std::int64_t distance = p_.m * p_.a.rows;
    for (std::size_t axis = p_.batch.size(); axis-- > 0; distance *= p_.batch[axis])
      if (p_.batch[axis] != 1 && p_.a.batch[axis] != distance) return false;
    return true;
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

  ProductTask task(const Planner& planner, std::int64_t rows) const {
    ProductTask t;
    t.loops = &product_loops(planner.options().isa);
    t.b = packed_shape(*t.loops, rows, p_.k, p_.n);
    t.rows = rows;
    t.a_rows = p_.a.rows;
    t.a_columns = p_.a.columns;
    t.y_rows = p_.n;
    return t;
  }

  // All rows of a in one product.
  void emit_constant(Planner& planner, ValueId result) {
    std::vector<int> inputs{operand(planner, node_.inputs[0], true)};
    if (p_.m == 1 && p_.a.batch.size() > 0) p_.a.rows = row_distance();
    const ProductTask t = task(planner, p_.batch_count() * p_.m);
    const StridedMatrix b{p_.k, p_.n, trans_b_ ? 1 : p_.n, trans_b_ ? p_.k : 1};
    const std::vector<float> factors = column_factors();
    const float* const source = planner.constant(node_.inputs[1]).data<float>().data();
    const auto fill = [&](float* target) { pack(source, b, t.b, factors, target, 0, t.b.panels()); };
    const std::shared_ptr<PackedConstants> constants = planner.packed_constants();
    std::optional<PackedConstants::Key> key;
    if (factors.empty()) key.emplace(source, b.row_stride, b.column_stride, t.b.vectors);
    const float* packed = key ? constants->find(*key) : nullptr;
    if (packed == nullptr) packed = constants->add(key, t.b.floats(), fill);
    ProductExtras extras = this->extras(planner, inputs);
    const int target = planner.add_value(result, kPlain);
    planner.add_step(make_packed_product(t, p_.a.offset, packed, constants, std::move(extras)), std::move(inputs), {target});
  }

  void emit_packed(Planner& planner, ValueId result) {
    std::vector<int> inputs{operand(planner, node_.inputs[0], true), operand(planner, node_.inputs[1], false)};
    ProductBatch batch{p_.batch, p_.a.batch, p_.b.batch, p_.a.offset, p_.b.offset, {}, column_factors()};
    batch.b = {p_.k, p_.n, p_.b.rows, p_.b.columns};
    ProductExtras extras = this->extras(planner, inputs);
    const int target = planner.add_value(result, kPlain);
    planner.add_step(make_batch_product(task(planner, p_.m), std::move(batch), std::move(extras)), std::move(inputs), {target});
  }

  // Where each matrix has one row: the distance of the rows.
  std::int64_t row_distance() const {
    for (std::size_t axis = p_.batch.size(); axis-- > 0;)
      if (p_.batch[axis] != 1) return p_.a.batch[axis];
    return 0;
  }

  std::vector<float> column_factors() const {
    std::vector<float> factors;
    if (!epilogue_.affine() && p_.alpha == 1) return factors;
    for (std::int64_t c = 0; c < p_.n; ++c)
      factors.push_back(
          static_cast<float>(p_.alpha * (epilogue_.affine() ? epilogue_.affine()->scale[static_cast<std::size_t>(c)] : 1.0)));
    return factors;
  }

  // Bias and operations; what they read is added to the inputs.
  ProductExtras extras(Planner& planner, std::vector<int>& inputs) const {
    ProductExtras result;
    if (planner.has(node_, 2) || epilogue_.affine()) {
      for (std::size_t c = 0; c < static_cast<std::size_t>(p_.n); ++c) {
        double b = 0;
        if (planner.has(node_, 2)) {
          const auto given = planner.constant(node_.inputs[2]).data<float>();
          b = beta_ * given[given.size() == 1 ? 0 : c];
        }
        if (epilogue_.affine()) b = b * epilogue_.affine()->scale[c] + epilogue_.affine()->shift[c];
        result.bias.push_back(static_cast<float>(b));
      }
    }
    std::size_t addition = 0;
    for (const Epilogue::Operation& o : epilogue_.operations()) {
      if (o.eltwise) {
        result.operations.push_back({row_function(*o.eltwise), o.eltwise->alpha, o.eltwise->beta, -1});
        continue;
      }
      result.operations.push_back({std::nullopt, 0, 0, static_cast<int>(inputs.size())});
      inputs.push_back(planner.storage(epilogue_.additions()[addition++], kPlain));
    }
    return result;
  }

  const Node& node_;
  Product p_;
  DataType type_;
  double beta_;
  bool trans_a_, trans_b_;
  Way way_;
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

  Way way = Way::kBlas;
  if (a.type == DataType::kFloat && !planner.constant(node.inputs[0])) {
    if (b.sizes.size() == 2 && planner.constant(node.inputs[1]))
      way = Way::kConstant;
    else if (p.m >= kWorthPacking && p.n > 1)
      way = Way::kPacked;
  }
  if (planner.has(node, 2)) {
    const Tensor& c = planner.constant(node.inputs[2]);
    const bool by_column = c && (c.size() == 1 || (c.size() == p.n && c.sizes().back() == p.n));
    if (!by_column) way = Way::kBlas;
  }
  return std::make_unique<ProductPlan>(node, std::move(p), a.type, beta, trans_a, trans_b, way, y.sizes.size());
}

}  // namespace

void register_products(KernelTable& table) {
  table.emplace("MatMul", [](Planner& p, const Node& n) { return plan_product(p, n, false); });
  table.emplace("Gemm", [](Planner& p, const Node& n) { return plan_product(p, n, true); });
}

}  // namespace rewright::cpu
