#include "runtime/planning/node_shapes.h"

#include <algorithm>
#include <string>

#include "runtime/planning/attributes.h"

namespace rewright::planning {

namespace {

bool has_spatial_axes(const Sizes& x) { return x.size() >= 3 && x.size() <= 5; }

}  // namespace

std::optional<ConvolutionNode> read_convolution_node(const Node& node, const Sizes& x, const Sizes& w, const Sizes& y) {
  if (!has_spatial_axes(x) || element_count(x) == 0 || element_count(w) == 0 || element_count(y) == 0) return std::nullopt;
  const AttributeReader attributes(node);
  ConvolutionNode c{x,
                    w,
                    y,
                    attributes.list("strides"),
                    attributes.list("dilations"),
                    attributes.list("pads_begin"),
                    attributes.list("pads_end"),
                    attributes.number("group")};
  for (const auto* pads : {&c.pads_begin, &c.pads_end})
    if (std::any_of(pads->begin(), pads->end(), [](std::int64_t p) { return p < 0; })) return std::nullopt;
  return c;
}

bool ConvolutionNode::fits(std::size_t axis, std::int64_t end) const {
  const std::int64_t room = x[axis + 2] + pads_begin[axis] + end - dilations[axis] * (w[axis + 2] - 1) - 1;
  return room >= 0 && room / strides[axis] + 1 == y[axis + 2];
}

std::optional<ConvolutionNode> read_convolution_gradient_node(const Node& node, const Sizes& a, const Sizes& b,
                                                              const Sizes& result) {
  if (!has_spatial_axes(a) || element_count(a) == 0 || element_count(b) == 0 || element_count(result) == 0) return std::nullopt;
  const AttributeReader attributes(node);
  const bool is_of_weight = node.op->name() == "ConvWeightGradient";
  ConvolutionNode c{is_of_weight ? a : result,
                    is_of_weight ? result : b,
                    is_of_weight ? b : a,
                    attributes.list("strides"),
                    attributes.list("dilations"),
                    attributes.list("pads_begin"),
                    {},
                    attributes.number("group")};
  for (std::size_t axis = 0; axis < c.strides.size(); ++axis) {
    const std::int64_t reach = (c.y[axis + 2] - 1) * c.strides[axis] + c.dilations[axis] * (c.w[axis + 2] - 1) + 1;
    const std::int64_t least = std::max<std::int64_t>(reach - c.x[axis + 2] - c.pads_begin[axis], 0);
    if (c.pads_begin[axis] < 0 || !c.fits(axis, least)) return std::nullopt;
    c.pads_end.push_back(least);
  }
  return c;
}

std::optional<PoolNode> read_pool_node(const Node& node, const Sizes& x, const Sizes& y) {
  if (!has_spatial_axes(x) || element_count(x) == 0 || element_count(y) == 0) return std::nullopt;
  const AttributeReader attributes(node);
  const std::size_t axes = x.size() - 2;
  PoolNode p;
  p.is_mean = node.op->name().ends_with("AveragePool");
  p.x = x;
  p.y = y;
  if (node.op->name().starts_with("Global")) {
    p.kernel.assign(x.begin() + 2, x.end());
    p.strides.assign(axes, 1);
    p.dilations.assign(axes, 1);
    p.pads_begin.assign(axes, 0);
    p.pads_end.assign(axes, 0);
    return p;
  }
  p.kernel = attributes.list("kernel");
  p.strides = attributes.list("strides");
  p.dilations = attributes.list("dilations");
  p.pads_begin = attributes.list("pads_begin");
  p.pads_end = attributes.list("pads_end");
  p.counts_padding = p.is_mean && attributes.flag("count_include_pad");
  p.rounds_up = attributes.flag("ceil_mode");
  return p;
}

ProductAttributes read_product_attributes(const Node& node) {
  const AttributeReader attributes(node);
  if (!attributes.has("transA")) return {};
  return {attributes.real("alpha"), attributes.real("beta"), attributes.flag("transA"), attributes.flag("transB")};
}

ProductNode read_product_node(const Node& node, const Sizes& a, const Sizes& b, const Sizes& y) {
  ProductNode p;
  static_cast<ProductAttributes&>(p) = read_product_attributes(node);
  p.has_rows = a.size() > 1;
  p.has_columns = b.size() > 1;
  if (!a.empty()) p.k = a[a.size() - (p.a_transposed ? 2 : 1)];
  if (p.has_rows) p.m = a[a.size() - (p.a_transposed ? 1 : 2)];
  if (p.has_columns) p.n = b[b.size() - (p.b_transposed ? 2 : 1)];
  p.batch.assign(y.begin(), y.end() - (p.has_rows ? 1 : 0) - (p.has_columns ? 1 : 0));
  return p;
}

}  // namespace rewright::planning
