#include "runtime/cuda/planning/library_nodes.h"

#include <algorithm>
#include <iterator>

#include "runtime/planning/attributes.h"
#include "runtime/planning/grouping.h"
#include "runtime/planning/node_shapes.h"
#include "runtime/planning/row_functions.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

constexpr std::int64_t kMostStarts = 1024;

bool of_libraries(DataType type) {
  return type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBfloat16 || type == DataType::kDouble;
}

// The stride between a factor's matrices along each batch axis, in elements; 0 along broadcast axes. `matrix`: the number of
// the factor's own axes after the batch.
std::vector<std::int64_t> batch_distances(const Sizes& factor, std::size_t matrix, std::size_t batch_axes) {
  std::vector<std::int64_t> result(batch_axes);
  std::int64_t distance = matrix == 2 ? factor[factor.size() - 2] * factor.back() : factor.back();
  const std::size_t own = factor.size() - matrix;
  for (std::size_t n = 0; n < own; ++n) {
    const std::int64_t size = factor[own - 1 - n];
    result[batch_axes - 1 - n] = size == 1 ? 0 : distance;
    distance *= size;
  }
  return result;
}

// Adds the batch to a matrix product: as more rows, as the library's batch, or as one start for each matrix. False if that
// needs too many starts.
bool add_batch(LibraryNode& node, ProductShape& p, const planning::ProductNode& product, const Sizes& a, const Sizes& b) {
  const Sizes& batch = product.batch;
  const std::int64_t count = element_count(batch), size = p.m * p.n;
  const auto of_a = batch_distances(a, product.has_rows ? 2 : 1, batch.size()),
             of_b = batch_distances(b, product.has_columns ? 2 : 1, batch.size());
  const auto repeated = [](const std::vector<std::int64_t>& distances) {
    return std::all_of(distances.begin(), distances.end(), [](std::int64_t d) { return d == 0; });
  };
  const bool all_of_a = element_count(a) == count * p.m * p.k, all_of_b = element_count(b) == count * p.k * p.n;
  if (all_of_a && repeated(of_b) && !p.a_transposed && product.has_rows) {
    p.m *= count;
    return true;
  }
  if ((all_of_a || repeated(of_a)) && (all_of_b || repeated(of_b))) {
    p.batch = count;
    p.a_batch = all_of_a ? p.m * p.k : 0;
    p.b_batch = all_of_b ? p.k * p.n : 0;
    p.y_batch = size;
    return true;
  }
  if (count > kMostStarts) return false;
  for (std::int64_t i = 0; i < count; ++i) {
    LibraryStep::Start start{{0, 0}, i * size};
    std::int64_t rest = i;
    for (std::size_t axis = batch.size(); axis-- > 0; rest /= batch[axis]) {
      start.inputs[0] += rest % batch[axis] * of_a[axis];
      start.inputs[1] += rest % batch[axis] * of_b[axis];
    }
    if (p.bias) start.inputs.push_back(0);
    node.starts.push_back(std::move(start));
  }
  return true;
}

// A MatMul or Gemm as a library operation.
std::optional<LibraryNode> product(const GraphFacts& facts, const Node& node) {
  const ValueInfo &a = facts.info(node.inputs[0]), &b = facts.info(node.inputs[1]), &y = facts.info(node.outputs[0]);
  if (!of_libraries(a.type) || element_count(y.sizes) == 0 || element_count(a.sizes) == 0) return std::nullopt;
  if (a.sizes.empty() || b.sizes.empty()) return std::nullopt;
  const planning::ProductNode product = planning::read_product_node(node, a.sizes, b.sizes, y.sizes);
  ProductShape p;
  p.type = a.type;
  p.alpha = product.alpha;
  p.a_transposed = product.a_transposed, p.b_transposed = product.b_transposed;
  p.m = product.m, p.k = product.k, p.n = product.n;
  p.a_stride = a.sizes.back();
  p.b_stride = product.has_columns ? b.sizes.back() : 1;
  p.y_stride = p.n;
  LibraryNode result;
  result.inputs = {node.inputs[0], node.inputs[1]};
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    const ValueInfo& c = facts.info(node.inputs[2]);
    const bool by_column = !c.sizes.empty() && element_count(c.sizes) == p.n && c.sizes.back() == p.n;
    if (!by_column || product.beta != 1) return std::nullopt;
    p.bias = true;
    result.inputs.push_back(node.inputs[2]);
  }
  if (!add_batch(result, p, product, a.sizes, b.sizes)) return std::nullopt;
  result.shape = p;
  return result;
}

// The shape of a Conv, or of its gradients: a ConvTranspose and a ConvWeightGradient.
std::optional<ConvolutionShape> convolution_shape(const GraphFacts& facts, const Node& node) {
  const ValueInfo &a = facts.info(node.inputs[0]), &b = facts.info(node.inputs[1]), &result = facts.info(node.outputs[0]);
  if (!of_libraries(a.type)) return std::nullopt;
  const bool is_forward = node.op->name() == "Conv";
  auto read = is_forward ? planning::read_convolution_node(node, a.sizes, b.sizes, result.sizes)
                         : planning::read_convolution_gradient_node(node, a.sizes, b.sizes, result.sizes);
  if (!read) return std::nullopt;
  ConvolutionShape c;
  c.type = a.type;
  if (!is_forward) {
    c.pass = node.op->name() == "ConvTranspose" ? ConvolutionPass::kBackwardData : ConvolutionPass::kBackwardFilter;
    // cuDNN has more algorithms for equal padding at both ends.
    for (std::size_t axis = 0; axis < read->strides.size(); ++axis)
      if (read->fits(axis, read->pads_begin[axis])) read->pads_end[axis] = read->pads_begin[axis];
  }
  c.x = std::move(read->x), c.w = std::move(read->w), c.y = std::move(read->y);
  c.strides = std::move(read->strides), c.dilations = std::move(read->dilations);
  c.pads_begin = std::move(read->pads_begin), c.pads_end = std::move(read->pads_end);
  c.groups = read->group;
  return c;
}

std::optional<LibraryNode> convolution(const GraphFacts& facts, const Node& node) {
  auto shape = convolution_shape(facts, node);
  if (!shape) return std::nullopt;
  ConvolutionShape& c = *shape;
  LibraryNode result;
  result.inputs = {node.inputs[0], node.inputs[1]};
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    c.bias = true;
    result.inputs.push_back(node.inputs[2]);
  }
  result.shape = std::move(c);
  return result;
}

// The row-major address of a position, without axes of size 1.
Index address(const Indices& position, const Sizes& sizes) {
  Index at(0);
  std::int64_t stride = 1;
  for (std::size_t a = sizes.size(); a-- > 0; stride *= sizes[a])
    if (sizes[a] > 1) at += position[a] * Index(stride);
  return at;
}

bool is_start(const Element& e) { return e->kind == Kind::kRead && e->operand == 0 && !e->zero_outside; }

}  // namespace

bool LibraryNode::absorb_activation(const Element& e) {
  const auto found = find_activation(e);
  if (!found) return false;
  if (auto* p = std::get_if<ProductShape>(&shape)) {
    if (found->activation != Activation::kRelu && found->activation != Activation::kGelu) return false;
    p->activation = found->activation;
  } else {
    auto& c = std::get<ConvolutionShape>(shape);
    c.activation = found->activation;
    c.low = found->low, c.high = found->high;
  }
  return true;
}

bool LibraryNode::absorb(const GraphFacts& facts, const Chain& chain) {
  const Element& e = chain.element();
  if (!starts.empty() || activation().activation != Activation::kNone) return false;
  if (absorb_activation(e)) return true;
  if (e->kind != Kind::kAdd) return false;
  for (std::size_t side = 0; side < 2; ++side) {
    const Element &start = e->arguments[side], &other = e->arguments[1 - side];
    if (!is_start(start)) continue;
    if (other->kind != Kind::kRead || other->zero_outside || is_start(other)) return false;
    const ValueId value = chain.operands()[static_cast<std::size_t>(other->operand)];
    const ValueInfo& added = facts.info(value);
    const Index at = address(other->position, added.sizes);
    if (auto* p = std::get_if<ProductShape>(&shape)) {
      if (p->bias || added.type != p->type || element_count(added.sizes) != p->n || p->n == 1 ||
          !(at == chain.position().back()))
        return false;
      p->bias = true;
    } else {
      auto& c = std::get<ConvolutionShape>(shape);
      if (added.type != c.type || c.residual) return false;
      const Sizes& result = c.result();
      if (added.sizes == result && at == address(chain.position(), result))
        c.residual = true;
      else if (!c.bias && element_count(added.sizes) == result[1] && result[1] > 1 && at == chain.position()[1])
        c.bias = true;
      else
        return false;
    }
    inputs.push_back(value);
    return true;
  }
  return false;
}

FoundActivation LibraryNode::activation() const {
  if (const auto* c = std::get_if<ConvolutionShape>(&shape)) return {c->activation, c->low, c->high};
  if (const auto* p = std::get_if<ProductShape>(&shape)) return {p->activation};
  return {};
}

Element LibraryNode::epilogue(const GraphFacts& facts, const ValueInfo& result, const Indices& position) const {
  const auto* convolution = std::get_if<ConvolutionShape>(&shape);
  if (convolution == nullptr && !std::holds_alternative<ProductShape>(shape)) return nullptr;
  const FoundActivation behind = activation();
  if (inputs.size() == 2 && behind.activation == Activation::kNone) return nullptr;
  const auto operand = [](std::size_t number, const ValueInfo& v) {
    return Operand(static_cast<int>(number), {v.type, to_indices(v.sizes)});
  };
  Element e = operand(0, result)(position);
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    const ValueInfo& added = facts.info(inputs[i]);
    const Operand other = operand(i - 1, added);
    const bool is_bias = i == 2 && (convolution == nullptr || convolution->bias);
    if (!is_bias) {
      e = e + other(position);
      continue;
    }
    // All axes but one have size 1.
    Indices at(added.sizes.size(), Index(0));
    const Index& axis = convolution == nullptr ? position.back() : position[1];
    for (std::size_t a = 0; a < at.size(); ++a)
      if (added.sizes[a] > 1) at[a] = axis;
    e = e + other(at);
  }
  return activated(behind.activation, behind.low, behind.high, e);
}

LibraryShape LibraryNode::without_epilogue() const {
  LibraryShape plain = shape;
  if (auto* p = std::get_if<ProductShape>(&plain)) p->bias = false, p->activation = Activation::kNone;
  if (auto* c = std::get_if<ConvolutionShape>(&plain)) c->bias = c->residual = false, c->activation = Activation::kNone;
  return plain;
}

namespace {

bool in_16_bits_or_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBfloat16;
}

std::optional<LibraryNode> pooling(const GraphFacts& facts, const Node& node) {
  const ValueInfo &x = facts.info(node.inputs[0]), &y = facts.info(node.outputs[0]);
  if (!in_16_bits_or_float(x.type) || x.sizes.size() < 4) return std::nullopt;
  auto read = planning::read_pool_node(node, x.sizes, y.sizes);
  if (!read) return std::nullopt;
  if (read->rounds_up && read->is_mean) return std::nullopt;  // windows beyond the padding have fewer elements
  const planning::AttributeReader attributes(node);
  const bool gives_positions = attributes.has("indices") && attributes.flag("indices");
  bool is_padded = false;
  for (std::size_t a = 0; a < read->kernel.size(); ++a) {
    if (read->dilations[a] != 1 || gives_positions) return std::nullopt;
    if (read->rounds_up) read->pads_end[a] = read->reach(a);
    if (read->pads_begin[a] < 0 || read->pads_end[a] < 0) return std::nullopt;
    is_padded = is_padded || read->pads_begin[a] > 0 || read->pads_end[a] > 0;
  }
  using Mode = PoolingShape::Mode;
  PoolingShape p;
  p.type = x.type;
  if (read->is_mean) p.mode = is_padded && !read->counts_padding ? Mode::kMeanInside : Mode::kMean;
  p.x = std::move(read->x), p.y = std::move(read->y);
  p.kernel = std::move(read->kernel), p.strides = std::move(read->strides);
  p.pads_begin = std::move(read->pads_begin), p.pads_end = std::move(read->pads_end);
  LibraryNode result;
  result.inputs = {node.inputs[0]};
  result.shape = std::move(p);
  return result;
}

std::optional<LibraryNode> normalization(const GraphFacts& facts, const Node& node) {
  std::vector<ValueInfo> operands;
  for (const ValueId v : node.inputs) operands.push_back(v == kNoValue ? ValueInfo{} : facts.info(v));
  if (operands.size() < 2 || operands.size() > 3 || !in_16_bits_or_float(operands[0].type)) return std::nullopt;
  for (const ValueInfo& o : operands)
    if (o.type != operands[0].type) return std::nullopt;
  const planning::Traits traits = facts.traits(node);
  if (!traits.has_denotation || !traits.reduces) return std::nullopt;
  const auto found = planning::find_row_normalization(node, operands);
  if (!found || found->axes != 1 || found->centered != (operands.size() == 3) ||
      facts.info(node.outputs[0]).type != operands[0].type)
    return std::nullopt;
  NormalizationShape n;
  n.type = operands[0].type;
  n.columns = operands[0].sizes.back();
  n.rows = element_count(operands[0].sizes) / n.columns;
  n.centered = found->centered;
  n.epsilon = static_cast<double>(static_cast<float>(found->epsilon));  // sampling determines it only up to rounding
  LibraryNode result;
  result.inputs = node.inputs;
  result.shape = n;
  return result;
}

}  // namespace

bool is_multiplied_by_library(std::string_view operator_name) {
  static constexpr std::string_view kNames[] = {"MatMul", "Gemm", "Conv", "ConvTranspose", "ConvWeightGradient"};
  return std::find(std::begin(kNames), std::end(kNames), operator_name) != std::end(kNames);
}

std::optional<LibraryNode> library_node(const GraphFacts& facts, const Node& node) {
  if (node.op == nullptr) return std::nullopt;
  const std::string& name = node.op->name();
  if (name == "MatMul" || name == "Gemm") return product(facts, node);
  if (is_multiplied_by_library(name)) return convolution(facts, node);
  if (name == "MaxPool" || name == "AveragePool" || name == "GlobalMaxPool" || name == "GlobalAveragePool")
    return pooling(facts, node);
  return normalization(facts, node);
}

}  // namespace rewright::cuda
