#include "runtime/cuda/planning/library_nodes.h"

#include <algorithm>

#include "runtime/planning/grouping.h"
#include "runtime/planning/row_functions.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

constexpr std::int64_t kMostStarts = 1024;

bool of_libraries(DataType type) {
  return type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBfloat16 || type == DataType::kDouble;
}

// y[batch..., m, n] from a[..., m, k] and b[..., k, n], sizes of 1 in the batches repeated.
std::optional<LibraryNode> product(const GraphFacts& facts, const Node& node, bool with_attributes) {
  const ValueInfo a = facts.info(node.inputs[0]), b = facts.info(node.inputs[1]), y = facts.info(node.outputs[0]);
  ProductShape p;
  p.type = a.type;
  if (!of_libraries(a.type) || element_count(y.sizes) == 0 || element_count(a.sizes) == 0) return std::nullopt;
  if (with_attributes) {
    p.alpha = attribute<Real>(node, "alpha").value;
    p.a_transposed = attribute<bool>(node, "transA");
    p.b_transposed = attribute<bool>(node, "transB");
  }
  const std::size_t a_rank = a.sizes.size(), b_rank = b.sizes.size();
  if (a_rank == 0 || b_rank == 0) return std::nullopt;
  const bool has_rows = a_rank > 1, has_columns = b_rank > 1;
  p.k = a.sizes[a_rank - (p.a_transposed ? 2 : 1)];
  if (has_rows) p.m = a.sizes[a_rank - (p.a_transposed ? 1 : 2)];
  if (has_columns) p.n = b.sizes[b_rank - (p.b_transposed ? 2 : 1)];
  p.a_stride = a.sizes.back();
  p.b_stride = has_columns ? b.sizes.back() : 1;
  p.y_stride = p.n;
  LibraryNode result;
  result.inputs = {node.inputs[0], node.inputs[1]};
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    const ValueInfo c = facts.info(node.inputs[2]);
    const bool by_column = !c.sizes.empty() && element_count(c.sizes) == p.n && c.sizes.back() == p.n;
    if (!by_column || attribute<Real>(node, "beta").value != 1) return std::nullopt;
    p.bias = true;
    result.inputs.push_back(node.inputs[2]);
  }

  const Sizes batch(y.sizes.begin(), y.sizes.end() - has_rows - has_columns);
  const std::int64_t count = element_count(batch), size = p.m * p.n;
  // Distances between matrices along each axis of the batch.
  const auto distances = [&](const ValueInfo& v, std::size_t matrix) {
    std::vector<std::int64_t> result(batch.size());
    std::int64_t distance = matrix == 2 ? v.sizes[v.sizes.size() - 2] * v.sizes.back() : v.sizes.back();
    const std::size_t own = v.sizes.size() - matrix;
    for (std::size_t n = 0; n < own; ++n) {
      const std::int64_t s = v.sizes[own - 1 - n];
      result[batch.size() - 1 - n] = s == 1 ? 0 : distance;
      distance *= s;
    }
    return result;
  };
  const auto of_a = distances(a, has_rows ? 2 : 1), of_b = distances(b, has_columns ? 2 : 1);
  const auto repeated = [](const std::vector<std::int64_t>& d) {
    return std::all_of(d.begin(), d.end(), [](std::int64_t v) { return v == 0; });
  };
  const bool all_of_a = element_count(a.sizes) == count * p.m * p.k, all_of_b = element_count(b.sizes) == count * p.k * p.n;
  if (all_of_a && repeated(of_b) && !p.a_transposed && has_rows) {
    p.m *= count;
  } else if ((all_of_a || repeated(of_a)) && (all_of_b || repeated(of_b))) {
    p.batch = count;
    p.a_batch = all_of_a ? p.m * p.k : 0;
    p.b_batch = all_of_b ? p.k * p.n : 0;
    p.y_batch = size;
  } else {
    if (count > kMostStarts) return std::nullopt;
    for (std::int64_t i = 0; i < count; ++i) {
      LibraryStep::Start start{{0, 0}, i * size};
      std::int64_t rest = i;
      for (std::size_t axis = batch.size(); axis-- > 0; rest /= batch[axis]) {
        start.inputs[0] += rest % batch[axis] * of_a[axis];
        start.inputs[1] += rest % batch[axis] * of_b[axis];
      }
      if (p.bias) start.inputs.push_back(0);
      result.starts.push_back(std::move(start));
    }
  }
  result.shape = p;
  return result;
}

std::optional<LibraryNode> convolution(const GraphFacts& facts, const Node& node) {
  ConvolutionShape c;
  const ValueInfo x = facts.info(node.inputs[0]), y = facts.info(node.outputs[0]);
  c.type = x.type;
  c.x = x.sizes;
  c.w = facts.info(node.inputs[1]).sizes;
  c.y = y.sizes;
  if (!of_libraries(c.type) || element_count(c.x) == 0 || element_count(c.w) == 0 || element_count(c.y) == 0)
    return std::nullopt;
  if (c.x.size() < 3 || c.x.size() > 5) return std::nullopt;
  c.strides = values(attribute<Indices>(node, "strides"));
  c.dilations = values(attribute<Indices>(node, "dilations"));
  c.pads_begin = values(attribute<Indices>(node, "pads_begin"));
  c.pads_end = values(attribute<Indices>(node, "pads_end"));
  c.groups = attribute<Index>(node, "group").value();
  const auto negative = [](std::int64_t v) { return v < 0; };
  if (std::any_of(c.pads_begin.begin(), c.pads_begin.end(), negative) ||
      std::any_of(c.pads_end.begin(), c.pads_end.end(), negative))
    return std::nullopt;
  LibraryNode result;
  result.inputs = {node.inputs[0], node.inputs[1]};
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    c.bias = true;
    result.inputs.push_back(node.inputs[2]);
  }
  result.shape = std::move(c);
  return result;
}

// Where a read lies in its operand, sizes of 1 left out.
Index address(const ElementNode& read, const Sizes& sizes) {
  Index at(0);
  std::int64_t stride = 1;
  for (std::size_t a = sizes.size(); a-- > 0; stride *= sizes[a])
    if (sizes[a] > 1) at += read.position[a] * Index(stride);
  return at;
}

Index row_major(const Indices& position, const Sizes& sizes) {
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
  const Element& e = chain.element;
  if (!starts.empty() || activation().activation != Activation::kNone) return false;
  if (absorb_activation(e)) return true;
  if (e->kind != Kind::kAdd) return false;
  for (std::size_t side = 0; side < 2; ++side) {
    const Element &start = e->arguments[side], &other = e->arguments[1 - side];
    if (!is_start(start)) continue;
    if (other->kind != Kind::kRead || other->zero_outside || is_start(other)) return false;
    const ValueId value = chain.operands[static_cast<std::size_t>(other->operand)];
    const ValueInfo added = facts.info(value);
    const Index at = address(*other, added.sizes);
    if (auto* p = std::get_if<ProductShape>(&shape)) {
      if (p->bias || added.type != p->type || element_count(added.sizes) != p->n || p->n == 1 || !(at == chain.position.back()))
        return false;
      p->bias = true;
    } else {
      auto& c = std::get<ConvolutionShape>(shape);
      if (added.type != c.type || c.residual) return false;
      if (added.sizes == c.y && at == row_major(chain.position, c.y))
        c.residual = true;
      else if (!c.bias && element_count(added.sizes) == c.y[1] && c.y[1] > 1 && at == chain.position[1])
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
    const ValueInfo added = facts.info(inputs[i]);
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

std::optional<LibraryNode> pooling(const GraphFacts& facts, const Node& node, bool mean, bool global) {
  PoolingShape p;
  const ValueInfo x = facts.info(node.inputs[0]);
  p.type = x.type;
  p.x = x.sizes;
  p.y = facts.info(node.outputs[0]).sizes;
  if (!in_16_bits_or_float(p.type) || p.x.size() < 4 || p.x.size() > 5 || element_count(p.y) == 0 || element_count(p.x) == 0)
    return std::nullopt;
  const std::size_t rank = p.x.size() - 2;
  if (mean) p.mode = PoolingShape::Mode::kMean;
  if (global) {
    p.kernel.assign(p.x.begin() + 2, p.x.end());
    p.strides.assign(rank, 1);
    p.pads_begin.assign(rank, 0), p.pads_end.assign(rank, 0);
  } else {
    p.kernel = values(attribute<Indices>(node, "kernel"));
    p.strides = values(attribute<Indices>(node, "strides"));
    p.pads_begin = values(attribute<Indices>(node, "pads_begin"));
    p.pads_end = values(attribute<Indices>(node, "pads_end"));
    const bool rounds_up = attribute<bool>(node, "ceil_mode");
    if (rounds_up && mean) return std::nullopt;  // windows beyond the padding count less
    const bool indices = !mean && attribute<bool>(node, "indices");
    for (const std::int64_t d : values(attribute<Indices>(node, "dilations")))
      if (d != 1 || indices) return std::nullopt;
    bool padded = false;
    for (std::size_t a = 0; a < rank; ++a) {
      if (rounds_up) p.pads_end[a] = (p.y[a + 2] - 1) * p.strides[a] + p.kernel[a] - p.x[a + 2] - p.pads_begin[a];
      if (p.pads_begin[a] < 0 || p.pads_end[a] < 0) return std::nullopt;
      padded = padded || p.pads_begin[a] > 0 || p.pads_end[a] > 0;
    }
    if (mean && padded && !attribute<bool>(node, "count_include_pad")) p.mode = PoolingShape::Mode::kMeanInside;
  }
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
  const Definition definition = facts.define(node);
  if (!definition.has_denotation() || !planning::has_reduction(definition.outputs()[0].element)) return std::nullopt;
  const auto found = planning::find_row_normalization(node, operands);
  if (!found || found->centered != (operands.size() == 3) || facts.info(node.outputs[0]).type != operands[0].type)
    return std::nullopt;
  NormalizationShape n;
  n.type = operands[0].type;
  n.columns = operands[0].sizes.back();
  n.rows = element_count(operands[0].sizes) / n.columns;
  n.centered = found->centered;
  n.epsilon = static_cast<double>(static_cast<float>(found->epsilon));  // was found but for rounding
  LibraryNode result;
  result.inputs = node.inputs;
  result.shape = n;
  return result;
}

}  // namespace

std::optional<LibraryNode> library_node(const GraphFacts& facts, const Node& node) {
  if (node.op == nullptr) return std::nullopt;
  if (node.op->name() == "MatMul") return product(facts, node, false);
  if (node.op->name() == "Gemm") return product(facts, node, true);
  if (node.op->name() == "Conv") return convolution(facts, node);
  if (node.op->name() == "MaxPool") return pooling(facts, node, false, false);
  if (node.op->name() == "AveragePool") return pooling(facts, node, true, false);
  if (node.op->name() == "GlobalMaxPool") return pooling(facts, node, false, true);
  if (node.op->name() == "GlobalAveragePool") return pooling(facts, node, true, true);
  return normalization(facts, node);
}

}  // namespace rewright::cuda
