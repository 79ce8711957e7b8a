// Kernels computed from other kernels, and constants.
#include "rules/taso/side.h"

namespace rewright::rules::taso {

namespace {

constexpr std::int32_t kMaximumMerge = 1 << 16;

}  // namespace

// Surrounds a kernel with zeros, an odd one at the end. The size is a parameter, or that of a second kernel.
SideBuilder::Result SideBuilder::enlarge(const Operation& op) {
  const TensorShape& w = shape(op.inputs[0]);
  TensorShape result = four(w.sizes, w.trees[0], w.trees[1]);
  for (const std::size_t a : {0, 1}) {
    const Key key = a == 0 ? Key::kKernelHeight : Key::kKernelWidth;
    const Index size = op.inputs.size() == 2 ? shape(op.inputs[1]).sizes[a + 2] : Index(op.get(key, 1, kMaximumKernel));
    context_.sizes.require(less_equal(w.sizes[a + 2], size));
    result.sizes[a + 2] = size;
  }
  std::vector<Attribute> attributes;
  for (const bool end : {false, true})
    attributes.push_back({end ? "pads_end" : "pads_begin", [=, this, from = w.sizes, to = result.sizes] {
                            Indices pads{0, 0};
                            for (const std::size_t a : {2, 3}) {
                              const Index more = context_.sizes.resolved(to[a] - from[a]);
                              pads.push_back(end ? more - floor_div(more, 2) : floor_div(more, 2));
                            }
                            return Expression::literal(pads);
                          }});
  return {{node("Pad", {value(op.inputs[0])}, std::move(attributes))}, {std::move(result)}};
}

// Merges `count` neighbouring groups into one: the m-th kernel is placed at the m-th block of channels.
SideBuilder::Result SideBuilder::merge_groups(const Operation& op) {
  const TensorShape& w = shape(op.inputs[0]);
  const Index count = op.get(Key::kMergeCount, 1, kMaximumMerge);
  const Index groups = context_.sizes.unknown("G"), kernels = context_.sizes.unknown("K");
  const Index depth = w.sizes[1], height = w.sizes[2], width = w.sizes[3];
  context_.sizes.equate(w.sizes[0], groups * count * kernels, false, "merge_gconv of kernels that are not so many groups");
  TensorShape result = four({w.sizes[0], depth * count, height, width}, w.trees[0], nullptr);
  const PatternValue blocks =
      node("Reshape", {value(op.inputs[0])}, {list("shape", {groups, count, kernels, 1, depth, height, width})});
  const PatternValue eye = node("Eye", {}, {index("size", count), element_type()});
  const PatternValue places = node("Reshape", {eye}, {list("shape", {1, count, 1, count, 1, 1, 1})});
  const PatternValue placed = node("Mul", {blocks, places});
  return {{node("Reshape", {placed}, {list("shape", result.sizes)})}, {std::move(result)}, groups};
}

void SideBuilder::choose_groups() {
  for (const auto& [channels, depth] : identity_kernels_)
    context_.sizes.equate(channels, depth, false, "an identity kernel of other channels");
}

// The kernel of the identity convolution.
SideBuilder::Result SideBuilder::identity_kernel(const Operation& op) {
  const Index depth = context_.sizes.unknown("D");
  const Index channels = context_.one_group || !context_.split_kernels ? depth : context_.sizes.unknown("K");
  identity_kernels_.emplace_back(channels, depth);
  Indices kernel, centre;
  for (const Key key : {Key::kKernelHeight, Key::kKernelWidth}) {
    kernel.push_back(op.get(key, 1, kMaximumKernel));
    centre.push_back(floor_div(kernel.back(), 2));
  }
  const Attribute group{"group", [=, this] { return Expression::literal(context_.quotient(channels, depth)); }};
  const PatternValue y =
      node("DiracKernel", {},
           {index("channels", channels), group, literal("kernel", kernel), literal("centre", centre), element_type()});
  return {{y}, {four({channels, depth, kernel[0], kernel[1]}, unknown_tree(), unknown_tree())}};
}

// The kernel (one channel deep) of the convolution that is an average pool.
SideBuilder::Result SideBuilder::pool_kernel(const Operation& op) {
  const Index height = op.get(Key::kKernelHeight, 1, kMaximumKernel), width = op.get(Key::kKernelWidth, 1, kMaximumKernel);
  const Indices shape{context_.sizes.unknown("C"), 1, height, width};
  const PatternValue ones = filled(1, list("shape", shape).value);
  const PatternValue count =
      filled(static_cast<double>((height * width).value()), [] { return Expression::literal(Indices{}); });
  return {{node("Div", {ones, count})}, {four(shape, unknown_tree(), unknown_tree())}};
}

SideBuilder::Result SideBuilder::ones(const Operation&, std::int32_t number) {
  const RankClass& ranks = context_.ranks.of(target_, {number, 0});
  TensorShape shape = shape_of_unknowns(ranks, letters(number, ranks.rank.value_or(2)));
  const Value value = [=, this] {
    const Indices sizes = context_.sizes.resolved(shape.sizes);
    if (!shape.open) return Expression::literal(sizes);
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(shape.front);
    Expression result = Expression::variable(shape.list);
    if (shape.front > 0) result = Expression::call("join", {Expression::literal(Indices(sizes.begin(), middle)), result});
    if (middle != sizes.end()) result = Expression::call("join", {result, Expression::literal(Indices(middle, sizes.end()))});
    return result;
  };
  return {{filled(1, value)}, {std::move(shape)}};
}

SideBuilder::Result SideBuilder::identity_matrix() {
  const Index size = context_.sizes.unknown("N");
  return {{node("Eye", {}, {index("size", size), element_type()})}, {TensorShape{{size, size}, unknown_trees(2)}}};
}

}  // namespace rewright::rules::taso
