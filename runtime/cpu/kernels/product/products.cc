// Matrix products. Constant right operands are packed in advance, others when the product runs; following operators are fused.
// Operands may be strided views, so transposes before products are free.
#include <algorithm>

#include "runtime/cpu/kernels/epilogue.h"
#include "runtime/cpu/kernels/product/attention.h"
#include "runtime/cpu/kernels/product/blas_product.h"
#include "runtime/cpu/kernels/product/block_product.h"
#include "runtime/cpu/kernels/product/packed_product.h"
#include "runtime/cpu/kernels/rows/row_functions.h"
#include "runtime/cpu/planning/split_view.h"
#include "runtime/planning/node_shapes.h"
#include "runtime/planning/strided_read.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kWorthPacking = 4;  // rows of the left operand for which packing the right one at run time pays

std::vector<std::int64_t> plain_strides(const Sizes& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t a = sizes.size(); a-- > 1;) strides[a - 1] = strides[a] * sizes[a];
  return strides;
}

// A tensor added to a product with broadcast axes (stride 0); by axis of the product.
struct RepeatedAddend {
  ValueId value;
  std::vector<std::int64_t> strides;
};

std::optional<RepeatedAddend> match_repeated_addition(const Planner& planner, const Chain& chain) {
  const ElementNode& e = *chain.element();
  if (e.kind != ElementNode::Kind::kAdd || planner.info(chain.result).type != DataType::kFloat) return std::nullopt;
  const Sizes& sizes = planner.info(chain.result).sizes;
  for (int side = 0; side < 2; ++side) {
    const ElementNode &start = *e.arguments[side], &other = *e.arguments[1 - side];
    if (start.kind != ElementNode::Kind::kRead || other.kind != ElementNode::Kind::kRead) continue;
    if (start.operand != 0 || other.operand == 0 || other.zero_outside) continue;
    const ValueId value = chain.operands()[static_cast<std::size_t>(other.operand)];
    const ValueInfo& info = planner.info(value);
    const auto here = read_strides(start, chain.position(), sizes, sizes);
    const auto there = read_strides(other, chain.position(), sizes, info.sizes);
    if (!here || !there || there->constant != 0 || info.type != DataType::kFloat) continue;
    RepeatedAddend result{value, {}};
    bool fits = here->constant == 0;
    const auto plain = plain_strides(sizes);
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      fits = fits && (sizes[a] == 1 || here->coefficient(a) == plain[a]);
      result.strides.push_back(sizes[a] == 1 ? 0 : there->coefficient(a));
    }
    if (fits && (sizes.back() == 1 || result.strides.back() == 1)) return result;
  }
  return std::nullopt;
}

// The strides of a product's addend (Gemm's third operand) by rows and columns, 0 for broadcast axes; nullopt if its columns
// are not contiguous.
std::optional<std::vector<std::int64_t>> addend_strides(const ValueInfo& c, std::int64_t m, std::int64_t n) {
  const std::size_t rank = c.sizes.size();
  if (c.type != DataType::kFloat || rank > 2 || (rank == 0 ? 1 : c.sizes.back()) != n) return std::nullopt;
  return std::vector<std::int64_t>{rank == 2 && c.sizes[0] == m && m > 1 ? n : 0, 1};
}

// How to compute a product.
enum class Way {
  kConstant,  // b is packed in advance
  kBlocks,    // likewise, as integers of a few bits
  kPacked,    // b is packed when the product runs
  kBlas,
};

class ProductPlan final : public NodePlan {
 public:
  // `few`: with kBlas, functions and additions may follow. `addend`: addend_strides of the node's third operand, if it is added
  // elementwise; otherwise it is a bias, or BLAS adds it.
  ProductPlan(const Node& node, Product product, DataType type, double beta, bool trans_a, bool trans_b, Way way, bool few,
              std::size_t result_rank, std::optional<std::vector<std::int64_t>> addend)
      : node_(node),
        p_(std::move(product)),
        type_(type),
        beta_(beta),
        trans_a_(trans_a),
        trans_b_(trans_b),
        way_(way),
        few_(few),
        epilogue_(result_rank - 1, [](const Eltwise& e) { return row_function(e).has_value(); }),
        addend_(std::move(addend)) {
    if (addend_) epilogue_.begin_with_addition(node.inputs[2]);
  }

  // The weights of kBlocks. `precise`: as sums of floats.
  void set_blocks(BlockWeights weights, bool precise) { blocks_ = std::move(weights), precise_ = precise; }

  bool absorb(Planner& planner, const Chain& chain) override {
    if ((way_ == Way::kBlas && !few_) || values_ || moved_) return false;
    if (repeated_.empty() && epilogue_.absorb(planner, chain)) return true;
    if (!may_attend() || repeated_.size() >= kMostRepeated) return false;
    const auto addend = match_repeated_addition(planner, chain);
    if (addend) repeated_.push_back(*addend);
    return addend.has_value();
  }

  // Absorbs the softmax of the product's rows, times other values.
  bool absorb_rows(Planner& planner, const Node& rows, const NodePlan& next) override {
    const auto* const product = dynamic_cast<const ProductPlan*>(&next);
    if (product == nullptr || !may_attend() || !product->may_attend() || values_ || moved_) return false;
    const Node& node = product->node_;
    if (node.inputs[0] != rows.outputs[0] || node.inputs[1] == rows.outputs[0] || planner.has(node, 2)) return false;
    if (product->p_.alpha != 1 || product->trans_a_ || product->p_.batch != p_.batch) return false;
    if (addend_ && beta_ != 1) return false;
    if (!is_row_softmax(planner, rows)) return false;
    values_.emplace(node.inputs[1], product->p_, product->trans_b_);
    return true;
  }

  bool absorb_move(Planner& planner, const Node& node) override {
    if (!(way_ == Way::kPacked || values_) || moved_ || planner.info(node.outputs[0]).type != type_) return false;
    const Definition& definition = planner.define(node);
    const Output& output = definition.outputs()[0];
    Sizes from = p_.batch;
    from.push_back(p_.m);
    from.push_back(values_ ? values_->product.n : p_.n);
    const Sizes& to = planner.info(node.outputs[0]).sizes;
    if (output.element->kind != ElementNode::Kind::kRead || output.element->zero_outside || to.size() != from.size() ||
        element_count(to) != element_count(from))
      return false;
    const auto read = read_strides(*output.element, output.position, to, from);
    if (!read || read->constant != 0) return false;
    const auto source = plain_strides(from), target = plain_strides(to);
    std::vector<std::int64_t> strides;
    for (std::size_t a = 0; a < from.size(); ++a) {
      std::int64_t stride = from[a] == 1 ? 0 : -1;
      for (std::size_t b = 0; b < to.size(); ++b)
        if (from[a] != 1 && to[b] == from[a] && read->coefficient(b) == source[a]) stride = target[b];
      if (stride < 0) return false;
      strides.push_back(stride);
    }
    if (from.back() != 1 && strides.back() != 1) return false;
    moved_ = std::move(strides);
    return true;
  }

  void emit(Planner& planner, ValueId result) override {
    if (values_) return emit_attention(planner, result);
    if (way_ == Way::kConstant) return emit_constant(planner, result);
    if (way_ == Way::kBlocks) return emit_blocks(planner, result);
    if (way_ == Way::kPacked) return emit_packed(planner, result);
    std::vector<int> inputs = operands(planner);
    std::vector<std::int64_t> addend;
    if (planner.has(node_, 2)) {
      const Sizes& c = planner.info(node_.inputs[2]).sizes;
      const auto strides = plain_strides(c);
      addend = {0, 0};
      for (std::size_t back = 0; back < c.size() && back < 2; ++back)
        if (c[c.size() - 1 - back] != 1) addend[1 - back] = strides[c.size() - 1 - back];
      inputs.push_back(planner.storage(node_.inputs[2], kPlain));
    }
    if (few_ && (epilogue_.affine() || !epilogue_.operations().empty() || !repeated_.empty())) {
      std::vector<float> factors = column_factors();
      ProductExtras extras = this->extras(planner, inputs);
      const int target = planner.add_value(result, kPlain);
      Product product = p_;
      product.alpha = 1;  // it is in the factors
      planner.add_step(make_finished_blas_product(product, std::move(factors), std::move(extras), planner.options().isa),
                       std::move(inputs), {target});
      return;
    }
    const int target = planner.add_value(result, kPlain);
    planner.add_step(make_blas_product(type_, p_, std::move(addend), beta_, planner.options().isa), std::move(inputs),
                     {target});
  }

 private:
  static constexpr std::size_t kMostRepeated = 2;

  // Floats, and neither operand is packed before: may be the scores of an attention, or what multiplies them.
  bool may_attend() const { return way_ == Way::kPacked || few_; }
  // Then there is one product with all rows of a.
  bool is_packed_before() const { return way_ == Way::kConstant || way_ == Way::kBlocks; }

  std::vector<int> operands(Planner& planner) {
    const int a = operand(planner, node_.inputs[0], p_, true, trans_a_);
    return {a, operand(planner, node_.inputs[1], p_, false, trans_b_)};
  }

  // Sets the strides of an operand: as a view of another value if its producer only moves elements.
  int operand(Planner& planner, ValueId value, Product& p, bool left, bool transposed) const {
    const Sizes& sizes = planner.info(value).sizes;
    Matrix& matrix = left ? p.a : p.b;
    if (const auto view = planner.view(value)) {
      matrix.offset = view->offset;
      set_strides(p, sizes, view->strides, left, transposed);
      const bool blas = left ? blas_reads(matrix, p.m, p.k) : blas_reads(matrix, p.k, p.n);
      if (is_packed_before() ? rows_are_even() : way_ == Way::kPacked || values_ || blas)
        return planner.storage(view->source, kPlain);
      matrix.offset = 0;
    }
    set_strides(p, sizes, plain_strides(sizes), left, transposed);
    return planner.storage(value, kPlain);
  }

  // Are the rows of all matrices of `a` at one common stride?
  bool rows_are_even() const {
    std::int64_t distance = p_.m * p_.a.rows;
    for (std::size_t axis = p_.batch.size(); axis-- > 0; distance *= p_.batch[axis])
      if (p_.batch[axis] != 1 && p_.a.batch[axis] != distance) return false;
    return true;
  }

  static void set_strides(Product& p, const Sizes& sizes, std::vector<std::int64_t> strides, bool left, bool transposed) {
    const std::size_t rank = sizes.size();
    Matrix& matrix = left ? p.a : p.b;
    strides.resize(rank);
    if (rank == 1) {
      matrix.rows = left ? 0 : strides[0];
      matrix.columns = left ? strides[0] : 0;
      matrix.batch.assign(p.batch.size(), 0);
      return;
    }
    matrix.rows = strides[rank - 2];
    matrix.columns = strides[rank - 1];
    if (transposed) std::swap(matrix.rows, matrix.columns);
    matrix.batch.assign(p.batch.size(), 0);
    for (std::size_t back = 0; back + 2 < rank; ++back) {
      const std::size_t axis = rank - 3 - back;
      if (sizes[axis] != 1) matrix.batch[p.batch.size() - 1 - back] = strides[axis];
    }
  }

  // `any_rows`: packed for any number of rows.
  ProductTask task(const Planner& planner, std::int64_t rows, bool any_rows = false) const {
    ProductTask t;
    t.loops = &loops_for<ProductLoops>(planner.options().isa);
    t.b = any_rows ? packed_shape(*t.loops, p_.k, p_.n) : packed_shape(*t.loops, rows, p_.k, p_.n);
    t.rows = rows;
    t.a_rows = p_.a.rows;
    t.a_columns = p_.a.columns;
    t.y_rows = p_.n;
    return t;
  }

  // The left operand of a product with all rows of a.
  int all_rows(Planner& planner) {
    const int a = operand(planner, node_.inputs[0], p_, true, trans_a_);
    if (p_.m == 1 && p_.a.batch.size() > 0) p_.a.rows = row_distance();
    return a;
  }

  void emit_blocks(Planner& planner, ValueId result) {
    std::vector<int> inputs{all_rows(planner)};
    const ProductTask t = task(planner, p_.batch_count() * p_.m, true);
    const BlockLoops& loops = BlockLoops::best(planner.options().isa);
    const BlockShape shape = block_shape(*blocks_, t.b);
    const std::vector<float> factors = column_factors();
    ConstantOrigin origin(blocks_->integers);
    origin.add(blocks_->scales);
    if (blocks_->zeros) origin.add(blocks_->zeros);
    if (!factors.empty()) origin.add(std::span(factors));
    const Tensor packed = planner.prepared(origin,
                                           "blocks of " + std::to_string(shape.block) + ", " + std::to_string(shape.bits) +
                                               " bits, " + std::to_string(shape.width),
                                           static_cast<std::size_t>(shape.bytes()),
                                           [&](std::byte* target) { pack(*blocks_, shape, factors, target); });
    ProductExtras extras = this->extras(planner, inputs);
    const int target = planner.add_value(result, kPlain);
    planner.add_step(make_block_product(t, loops, shape, precise_, p_.a.offset, packed, std::move(extras)), std::move(inputs),
                     {target});
  }

  void emit_constant(Planner& planner, ValueId result) {
    std::vector<int> inputs{all_rows(planner)};
    // For plans of several sizes the same form.
    ProductTask t = task(planner, p_.batch_count() * p_.m, static_cast<bool>(planner.options().constants));
    const Planner::ConstantMatrix matrix = planner.constant_matrix(node_.inputs[1]);
    StridedMatrix b{p_.k, p_.n, matrix.row_stride, matrix.column_stride};
    if (trans_b_) std::swap(b.row_stride, b.column_stride);
    const std::vector<float> factors = column_factors();
    const float* const source = matrix.in.data<float>().data() + matrix.offset;
    const auto fill = [&](float* target) { pack(*t.loops, source, b, t.b, factors, target, 0, t.b.panels()); };
    ConstantOrigin origin(matrix.in);
    origin.add(matrix.offset).add(b.rows).add(b.columns).add(b.row_stride).add(b.column_stride);
    if (!factors.empty()) origin.add(std::span(factors));
    t.is_short = factors.empty() && is_worth_shortening(planner) && fits(planner, origin, source, b);
    const std::string form = "panels " + std::to_string(t.b.vectors) + (t.is_short ? " of 16 bits" : "");
    const Tensor packed = planner.prepared(
        origin, form, static_cast<std::size_t>(t.b.floats()) * (t.is_short ? sizeof(std::uint16_t) : sizeof(float)),
        [&](std::byte* target) {
          if (t.is_short)
            pack_short(*t.loops, source, b, t.b, reinterpret_cast<std::uint16_t*>(target));
          else
            fill(reinterpret_cast<float*>(target));
        });
    ProductExtras extras = this->extras(planner, inputs);
    const int target = planner.add_value(result, kPlain);
    planner.add_step(make_packed_product(t, p_.a.offset, packed, std::move(extras)), std::move(inputs), {target});
  }

  // Are the weights read from memory, by so few rows that this takes as long as multiplying? Plans of several sizes share one
  // form.
  bool is_worth_shortening(const Planner& planner) const {
    constexpr std::int64_t kFewRows = 64, kLeastWeights = 1 << 16;
    return p_.k * p_.n >= kLeastWeights && (planner.options().constants || p_.batch_count() * p_.m <= kFewRows);
  }

  // Do the weights fit into 16 bits? Found once, and kept as packed constants are.
  static bool fits(Planner& planner, const ConstantOrigin& origin, const float* source, const StridedMatrix& weights) {
    const Tensor kept = planner.prepared(origin, "fits into 16 bits", 1,
                                         [&](std::byte* answer) { *answer = std::byte{fits_16_bits(source, weights)}; });
    return kept.bytes()[0] != std::byte{0};
  }

  void emit_packed(Planner& planner, ValueId result) {
    std::vector<int> inputs = operands(planner);
    ProductBatch batch{p_.batch, p_.a.batch, p_.b.batch, y_strides().batch, p_.a.offset, p_.b.offset, {}, column_factors()};
    batch.b = {p_.k, p_.n, p_.b.rows, p_.b.columns};
    batch.threads = planner.options().threads;
    ProductExtras extras = this->extras(planner, inputs);
    ProductTask t = task(planner, p_.m);
    t.y_rows = y_strides().rows;
    const int target = planner.add_value(result, kPlain);
    planner.add_step(make_batch_product(t, std::move(batch), std::move(extras)), std::move(inputs), {target});
  }

  // Keys or values that repeat along an axis of the batch, for heads that share them; the axis is one of p_.batch.
  std::optional<SplitView> repeated(const Planner& planner, ValueId value) const {
    auto view = planner.view(value) ? std::nullopt : split_view(planner, value);
    if (!view) return std::nullopt;
    const Sizes& sizes = planner.info(value).sizes;
    if (view->strides.axis + 2 >= sizes.size()) return std::nullopt;
    const std::size_t axis = p_.batch.size() - (sizes.size() - 2) + view->strides.axis;
    if (p_.batch[axis] != sizes[view->strides.axis]) return std::nullopt;
    return view;
  }

  void emit_attention(Planner& planner, ValueId result) {
    Product& values = values_->product;
    const ValueId v = values_->value, k = node_.inputs[1];
    auto of_k = repeated(planner, k), of_v = repeated(planner, v);
    const auto batch_axis = [&](const SplitView& view, ValueId value) {
      return p_.batch.size() - (planner.info(value).sizes.size() - 2) + view.strides.axis;
    };
    if (of_k && of_v && (batch_axis(*of_k, k) != batch_axis(*of_v, v) || of_k->strides.inner != of_v->strides.inner))
      of_v.reset();
    std::vector<int> inputs{operand(planner, node_.inputs[0], p_, true, trans_a_)};
    // The value that holds the elements, and their strides; `narrow`: of 16 bits, if they are there.
    const auto place = [&](const std::optional<SplitView>& split, ValueId value, Product& p, bool transposed, bool narrow) {
      const Sizes& sizes = planner.info(value).sizes;
      auto view = split ? std::nullopt : narrow ? narrow_view(planner, value) : std::nullopt;
      if (!split && !view) view = planner.view(value);
      p.b.offset = split ? split->strides.address.constant : view ? view->offset : 0;
      set_strides(p, sizes,
                  split  ? split->strides.address.coefficients
                  : view ? view->strides
                         : plain_strides(sizes),
                  false, transposed);
      const ValueId source = split ? split->source : view ? view->source : value;
      const ValueId converted = split && narrow ? planner.narrow_source(source) : kNoValue;
      return converted == kNoValue ? source : converted;
    };
    // A few queries read keys and values in place, of 16 bits as well.
    const std::vector<float> factors = column_factors();
    const bool is_one_factor = std::all_of(factors.begin(), factors.end(), [&](float f) { return f == factors[0]; });
    ValueId sources[2];
    for (bool narrow = p_.m < kWorthPacking && is_one_factor;; narrow = false) {
      sources[0] = place(of_k, k, p_, trans_b_, narrow), sources[1] = place(of_v, v, values, values_->transposed, narrow);
      const bool in_place = (p_.b.rows == 1 || p_.k == 1) && (values.b.columns == 1 || values.n == 1);
      if (!narrow || in_place) break;
    }
    const DataType types[] = {planner.info(sources[0]).type, planner.info(sources[1]).type};
    for (const ValueId source : sources) inputs.push_back(planner.storage(source, kPlain));
    const auto lies = [](const Matrix& m, DataType type = DataType::kFloat) {
      return AttentionTask::Operand{m.offset, m.batch, m.rows, m.columns, type};
    };
    AttentionTask t;
    t.loops = &loops_for<ProductLoops>(planner.options().isa);
    t.threads = planner.options().threads;
    t.batch = p_.batch;
    t.queries = p_.m;
    t.keys = p_.n;
    t.depth = p_.k;
    t.width = values.n;
    t.q = lies(p_.a);
    t.k = lies(p_.b, types[0]);
    t.v = lies(values.b, types[1]);
    t.y = lies(y_strides());
    t.key_factors = factors;
    ProductExtras extras = this->extras(planner, inputs);
    if (of_k || of_v) {
      const std::size_t axis = of_k ? batch_axis(*of_k, k) : batch_axis(*of_v, v);
      split_batch(t, extras, axis, (of_k ? of_k : of_v)->strides.inner);
      const auto set = [&](AttentionTask::Operand& operand, const std::optional<SplitView>& view) {
        if (view) operand.batch[axis] = view->strides.outer_stride, operand.batch[axis + 1] = view->strides.inner_stride;
      };
      set(t.k, of_k), set(t.v, of_v);
    }
    const int target = planner.add_value(result, kPlain);
    planner.add_step(make_attention(std::move(t), std::move(extras), planner.options().isa), std::move(inputs), {target});
  }

  // Strides of the result.
  Matrix y_strides() const {
    Sizes sizes = p_.batch;
    sizes.push_back(p_.m);
    sizes.push_back(values_ ? values_->product.n : p_.n);
    std::vector<std::int64_t> strides = moved_ ? *moved_ : plain_strides(sizes);
    Matrix y;
    y.columns = 1;
    y.rows = strides[sizes.size() - 2];
    y.batch.assign(strides.begin(), strides.end() - 2);
    return y;
  }

  // If each matrix has one row: the stride between rows.
  std::int64_t row_distance() const {
    for (std::size_t axis = p_.batch.size(); axis-- > 0;)
      if (p_.batch[axis] != 1) return p_.a.batch[axis];
    return 0;
  }

  // Empty: all are 1, as those of a bias.
  std::vector<float> column_factors() const {
    const ChannelAffine* const affine = epilogue_.affine().get();
    const auto is_one = [](double scale) { return scale == 1; };
    if (p_.alpha == 1 && (affine == nullptr || std::all_of(affine->scale.begin(), affine->scale.end(), is_one))) return {};
    std::vector<float> factors(static_cast<std::size_t>(p_.n));
    for (std::size_t c = 0; c < factors.size(); ++c)
      factors[c] = static_cast<float>(p_.alpha * (affine != nullptr ? affine->scale[c] : 1.0));
    return factors;
  }

  std::vector<float> bias(const Planner& planner, bool is_given) const {
    const auto count = static_cast<std::size_t>(p_.n);
    std::vector<float> result(count);
    const ChannelAffine* const affine = epilogue_.affine().get();
    if (!is_given) {
      for (std::size_t c = 0; c < count; ++c) result[c] = static_cast<float>(affine->shift[c]);
      return result;
    }
    const auto given = planner.constant(node_.inputs[2]).data<float>();
    for (std::size_t c = 0; c < count; ++c) {
      const double b = beta_ * given[given.size() == 1 ? 0 : c];
      result[c] = static_cast<float>(affine == nullptr ? b : b * affine->scale[c] + affine->shift[c]);
    }
    return result;
  }

  // Bias and operations; appends the tensors they read to `inputs`.
  ProductExtras extras(Planner& planner, std::vector<int>& inputs) const {
    ProductExtras result;
    const bool has_bias = planner.has(node_, 2) && !addend_;
    if (has_bias || epilogue_.affine()) result.bias = bias(planner, has_bias);
    std::size_t addition = 0;
    const auto add = [&](ValueId value, const std::vector<std::int64_t>& strides, double factor = 1) {
      RowOperation operation;
      operation.alpha = static_cast<float>(factor);
      operation.input = static_cast<int>(inputs.size());
      operation.row_stride = strides[strides.size() - 2];
      operation.batch_strides.assign(strides.begin(), strides.end() - 2);
      if (is_packed_before() && strides.size() > 2) {  // all rows in one product
        operation.row_stride = p_.n;
        operation.batch_strides.clear();
      }
      result.operations.push_back(std::move(operation));
      inputs.push_back(planner.storage(value, kPlain));
    };
    Sizes sizes = p_.batch;
    sizes.push_back(p_.m);
    sizes.push_back(p_.n);
    for (const Epilogue::Operation& o : epilogue_.operations()) {
      if (o.eltwise)
        result.operations.push_back({row_function(*o.eltwise), o.eltwise->alpha, o.eltwise->beta, -1, 0, {}});
      else if (addend_ && addition == 0)
        add(epilogue_.additions()[addition++], *addend_, beta_);
      else
        add(epilogue_.additions()[addition++], plain_strides(sizes));
    }
    for (const RepeatedAddend& a : repeated_) add(a.value, a.strides);
    return result;
  }

  const Node& node_;
  Product p_;
  DataType type_;
  double beta_;
  bool trans_a_, trans_b_;
  Way way_;
  bool few_;  // kBlas, for floats and less rows than are worth packing
  Epilogue epilogue_;
  std::optional<BlockWeights> blocks_;
  bool precise_ = true;
  std::optional<std::vector<std::int64_t>> addend_;  // of the epilogue's first addition
  std::vector<RepeatedAddend> repeated_;             // added after the epilogue
  struct Values {
    Values(ValueId v, const Product& p, bool t) : value(v), product(p), transposed(t) {}
    ValueId value;
    Product product;  // the softmax times these values
    bool transposed;
  };
  std::optional<Values> values_;
  std::optional<std::vector<std::int64_t>> moved_;  // strides of the result's axes before they were moved
};

}  // namespace

std::unique_ptr<NodePlan> plan_product(Planner& planner, const Node& node) {
  const ValueInfo &a = planner.info(node.inputs[0]), &b = planner.info(node.inputs[1]), &y = planner.info(node.outputs[0]);
  if (a.type != DataType::kFloat && a.type != DataType::kDouble) return nullptr;
  if (element_count(y.sizes) == 0) return nullptr;
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;  // BLAS counts in int
  for (const ValueInfo* const v : {&a, &b, &y})
    for (const std::int64_t s : v->sizes)
      if (s >= kLimit) return nullptr;
  const planning::ProductNode product = planning::read_product_node(node, a.sizes, b.sizes, y.sizes);
  Product p;
  p.alpha = product.alpha;
  p.m = product.m, p.k = product.k, p.n = product.n;
  p.batch = product.batch;

  constexpr std::int64_t kWorthMatrix = 64;
  Way way = Way::kBlas;
  if (a.type == DataType::kFloat) {
    // One column would fill one lane of a vector.
    const bool is_column = p.n == 1 && p.m >= kWorthMatrix && !planner.has(node, 2);
    if (b.sizes.size() == 2 && planner.is_constant(node.inputs[1]) && !is_column)
      way = Way::kConstant;
    else if (p.m >= kWorthPacking && p.n > 1)
      way = Way::kPacked;
  }
  std::optional<std::vector<std::int64_t>> addend;
  if (planner.has(node, 2)) {
    const Tensor& c = planner.constant(node.inputs[2]);
    const bool by_column = c && (c.size() == 1 || (c.size() == p.n && c.sizes().back() == p.n));
    if (!by_column && way != Way::kBlas) addend = addend_strides(planner.info(node.inputs[2]), p.m, p.n);
    if (!by_column && !addend) way = Way::kBlas;
  }
  // The result of a vector has no axis of rows, by which addends are read.
  const bool few = way == Way::kBlas && a.type == DataType::kFloat && a.sizes.size() > 1 && p.m < kWorthPacking && p.n > 1 &&
                   !planner.has(node, 2);
  return std::make_unique<ProductPlan>(node, std::move(p), a.type, product.beta, product.a_transposed, product.b_transposed,
                                       way, few, y.sizes.size(), std::move(addend));
}

std::unique_ptr<NodePlan> plan_block_product(Planner& planner, const Node& node) {
  const AttributeReader attributes(node);
  const Sizes &a = planner.info(node.inputs[0]).sizes, &y = planner.info(node.outputs[0]).sizes;
  Product p;
  p.k = a.back(), p.n = y.back();
  if (y.size() > 1) p.m = y[y.size() - 2], p.batch.assign(y.begin(), y.end() - 2);
  BlockWeights weights{planner.constant(node.inputs[1]), planner.constant(node.inputs[3]), {}};
  if (planner.has(node, 4)) weights.zeros = planner.constant(node.inputs[4]);
  weights.rows = p.k, weights.columns = p.n, weights.block = attributes.number("block"),
  weights.bits = attributes.number("bits");
  constexpr std::int64_t kRounded = 4;  // accuracy_level: the left operand may even be rounded to 8 bits
  auto plan = std::make_unique<ProductPlan>(node, std::move(p), DataType::kFloat, 1, false, false, Way::kBlocks, false,
                                            y.size(), std::nullopt);
  plan->set_blocks(std::move(weights), attributes.number("accuracy") != kRounded);
  return plan;
}

}  // namespace rewright::cpu
