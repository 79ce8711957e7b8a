#include "rules/taso/side.h"

#include <algorithm>

#include "base/error.h"

namespace rewright::rules::taso {

namespace {

constexpr std::int32_t kMaximumStride = 64;

constexpr std::size_t kMaximumJoints = 64;  // TASO allows 32

[[noreturn]] void bad_side(const std::string& what) { throw Error(ErrorCode::kBadInput, what); }

// The padding of TASO's mode SAME, which is ONNX's SAME_UPPER: a window at every stride-th position. In total (ceil(size /
// stride) - 1) * stride + kernel - size, if that is positive.
Index same_padding(const Index& size, const Index& kernel, std::int32_t stride) {
  if (stride == 1) return kernel - 1;
  const Index total = kernel - 1 - mod(size - 1, stride);
  return kernel.is_constant() && kernel.value() >= stride ? total : max(total, 0);
}

}  // namespace

SplitTreePointer unknown_tree() { return std::make_shared<SplitTree>(); }

std::vector<SplitTreePointer> unknown_trees(std::size_t count) {
  std::vector<SplitTreePointer> trees;
  for (std::size_t i = 0; i < count; ++i) trees.push_back(unknown_tree());
  return trees;
}

TensorShape four(Indices sizes, SplitTreePointer first, SplitTreePointer second) {
  return {std::move(sizes), {std::move(first), std::move(second), nullptr, nullptr}};
}

// ---- Nodes

PatternValue SideBuilder::node(const char* op, std::vector<PatternValue> inputs, std::vector<Attribute> attributes,
                               std::uint32_t outputs) {
  drafts_.push_back({&registry().get(op), std::move(inputs), std::move(attributes), outputs});
  return PatternValue::node(static_cast<std::uint32_t>(drafts_.size() - 1));
}

SideBuilder::Attribute SideBuilder::index(std::string name, Index value) const {
  return {std::move(name), [this, value] { return Expression::literal(context_.sizes.resolved(value)); }};
}

SideBuilder::Attribute SideBuilder::list(std::string name, Indices values) const {
  return {std::move(name), [this, values] { return Expression::literal(context_.sizes.resolved(values)); }};
}

SideBuilder::Attribute SideBuilder::literal(std::string name, AttributeValue value) {
  return {std::move(name), [value] { return Expression::literal(value); }};
}

SideBuilder::Attribute SideBuilder::element_type() const {
  return {"type", [this] { return context_.element_type; }};
}

PatternValue SideBuilder::filled(double value, const Value& shape) {
  return node("Fill", {}, {literal("value", Real(value)), {"shape", shape}, element_type()});
}

PatternValue SideBuilder::activated(std::int32_t activation, PatternValue value) {
  if (activation == kSigmoidActivation) return node("Sigmoid", {value});
  if (activation == kReluActivation) return node("Relu", {value});
  if (activation == kTanhActivation) return node("Tanh", {value});
  return value;
}

Pattern SideBuilder::pattern() const {
  Pattern result;
  for (const Draft& draft : drafts_) {
    PatternNode n{draft.op, {}, draft.inputs, draft.outputs};
    for (const Field& field : draft.op->fields()) n.attributes.push_back(Expression::literal(field.default_value));
    for (const Attribute& a : draft.attributes) n.attributes[*draft.op->field(a.name)] = a.value();
    result.nodes.push_back(std::move(n));
  }
  for (const auto& [source, target] : context_.rule.outputs) result.outputs.push_back(value(target_ ? target : source));
  return canonical(result);
}

// ---- Tensors

PatternValue SideBuilder::value(const Reference& tensor) const {
  if (!tensor.is_input()) return results_[static_cast<std::size_t>(tensor.op)].values[static_cast<std::size_t>(tensor.output)];
  const auto found = context_.inputs.find(tensor.op);
  if (found == context_.inputs.end()) bad_side("input " + std::to_string(tensor.op) + " of the target is not in the source");
  return PatternValue::input(found->second);
}

// Names for an input's sizes, given by its first use.
std::vector<std::string> SideBuilder::letters(std::int32_t input, std::size_t rank) const {
  for (const Operation& op : context_.rule.source)
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i].op != input) continue;
      const bool kernel = op.type == Type::kEnlarge || op.type == Type::kMergeGroups || (op.type == Type::kConv && i == 1);
      if (rank == 4 && kernel) return {"K", "D", "R", "S"};
      if (op.type == Type::kMatMul && i == 0) return {"M", "K"};
      if (op.type == Type::kMatMul) return {"K", "N"};
    }
  if (rank == 4) return {"N", "C", "H", "W"};
  if (rank == 3) return {"B", "M", "N"};
  return {"M", "N"};
}

TensorShape SideBuilder::shape_of_unknowns(const RankClass& ranks, const std::vector<std::string>& letters) const {
  TensorShape shape;
  shape.open = !ranks.rank;
  shape.front = ranks.rank ? 0 : ranks.front;
  if (shape.open) {
    const std::size_t known = context_.lists.size();
    shape.list = context_.lists.try_emplace(ranks.number, known == 0 ? "Z" : "Z" + std::to_string(known + 1)).first->second;
  }
  const std::size_t count = ranks.rank ? *ranks.rank : ranks.front + (ranks.is_product ? 2 : 0);
  for (std::size_t i = 0; i < count; ++i) {
    // The last letters name the last axes.
    const std::size_t from_back = count - i;
    shape.sizes.push_back(context_.sizes.unknown(from_back <= letters.size() ? letters[letters.size() - from_back] : "B"));
  }
  shape.trees = unknown_trees(count);
  return shape;
}

const TensorShape& SideBuilder::shape(const Reference& tensor) {
  if (!tensor.is_input()) return results_[static_cast<std::size_t>(tensor.op)].shapes[static_cast<std::size_t>(tensor.output)];
  const auto found = context_.inputs.find(tensor.op);
  if (found != context_.inputs.end()) return context_.shapes[found->second];
  if (target_) bad_side("input " + std::to_string(tensor.op) + " of the target is not in the source");
  const RankClass& ranks = context_.ranks.of(target_, tensor);
  context_.inputs.emplace(tensor.op, static_cast<std::uint32_t>(context_.shapes.size()));
  context_.shapes.push_back(shape_of_unknowns(ranks, letters(tensor.op, ranks.rank.value_or(2))));
  return context_.shapes.back();
}

void SideBuilder::equate_shapes(const TensorShape& a, const TensorShape& b, const std::string& what) {
  for (std::size_t i = 0; i < a.sizes.size(); ++i)
    context_.sizes.equate(a.sizes[i], b.sizes[i], false, what + " of tensors of other shapes");
}

SplitTreePointer SideBuilder::combined(const SplitTreePointer& a, const SplitTreePointer& b) const {
  if (!a || !b) return nullptr;
  if (a == b || !b->known) return a;
  if (!a->known) return b;
  const auto result = std::make_shared<SplitTree>(*a);
  result->equal.insert(result->equal.end(), b->equal.begin(), b->equal.end());
  result->equal.emplace_back(a->left, b->left);
  result->lower = combined(a->lower, b->lower);
  result->upper = combined(a->upper, b->upper);
  // A part that is split on one side only makes the trees different.
  const auto joined = [](const SplitTreePointer& t) { return t && t->known; };
  if (joined(a->lower) != joined(b->lower) || joined(a->upper) != joined(b->upper)) return nullptr;
  return result;
}

void SideBuilder::expand(SplitTree& tree, const Index& size) {
  if (!tree.known) {
    tree.known = true;
    tree.joints = 1;
    tree.left = context_.sizes.unknown("A"), tree.right = context_.sizes.unknown("A");
    tree.lower = unknown_tree(), tree.upper = unknown_tree();
    context_.sizes.equate(size, tree.left + tree.right, !target_, "split in parts");
  }
  for (const auto& [a, b] : tree.equal) context_.sizes.equate(a, b, false, "split of what was joined at different places");
}

Index Context::quotient(const Index& channels, const Index& depth) const {
  const Index c = sizes.resolved(channels), d = sizes.resolved(depth), result = floor_div(c, d);
  if (result * d == c) return result;
  for (const Groups& g : groups)
    if (sizes.resolved(g.channels) == c && sizes.resolved(g.depth) == d) return sizes.resolved(g.groups);
  return result;
}

// ---- Operators

void SideBuilder::build() {
  const Side& side = target_ ? context_.rule.target : context_.rule.source;
  for (std::size_t i = 0; i < side.size(); ++i) results_.push_back(visit(side[i], static_cast<std::int32_t>(i)));
}

SideBuilder::Result SideBuilder::visit(const Operation& op, std::int32_t number) {
  for (const Reference& r : op.inputs) shape(r);
  switch (op.type) {
    case Type::kConv:
      return convolution(op);
    case Type::kMaxPool:
    case Type::kAveragePool:
      return pool(op);
    case Type::kConcat:
      return concatenation(op);
    case Type::kSplit:
      return split(op);
    case Type::kTranspose:
      return transpose(op);
    case Type::kMatMul:
      return product(op);
    case Type::kScale:
      return scale(op);
    case Type::kEnlarge:
      return enlarge(op);
    case Type::kMergeGroups:
      return merge_groups(op);
    case Type::kIdentityMatrix:
      return identity_matrix();
    case Type::kIdentityKernel:
      return identity_kernel(op);
    case Type::kOnes:
      return ones(op, number);
    case Type::kPoolKernel:
      return pool_kernel(op);
    default:
      return elementwise(op);
  }
}

SideBuilder::Result SideBuilder::elementwise(const Operation& op) {
  static const std::map<Type, const char*> names = {
      {Type::kRelu, "Relu"},    {Type::kSigmoid, "Sigmoid"}, {Type::kTanh, "Tanh"},  {Type::kAdd, "Add"},
      {Type::kMultiply, "Mul"}, {Type::kSubtract, "Sub"},    {Type::kDivide, "Div"}, {Type::kMaximum, "Max"},
      {Type::kMinimum, "Min"},  {Type::kExp, "Exp"},         {Type::kLog, "Log"},    {Type::kSqrt, "Sqrt"}};
  TensorShape result = shape(op.inputs[0]);
  std::vector<PatternValue> values{value(op.inputs[0])};
  if (op.inputs.size() == 2) {
    const TensorShape& other = shape(op.inputs[1]);
    equate_shapes(result, other, op.name);
    for (std::size_t i = 0; i < result.trees.size(); ++i) result.trees[i] = combined(result.trees[i], other.trees[i]);
    values.push_back(value(op.inputs[1]));
  }
  return {{node(names.at(op.type), std::move(values))}, {std::move(result)}};
}

void SideBuilder::window(const Operation& op, const Indices& sizes, const Indices& kernel, std::vector<Attribute>& attributes,
                         Indices& counts) const {
  const std::int32_t stride[2] = {op.get(Key::kStrideHeight, 1, kMaximumStride), op.get(Key::kStrideWidth, 1, kMaximumStride)};
  const bool same = op.get(Key::kPadding, kSamePadding, kValidPadding) == kSamePadding;
  if (stride[0] != 1 || stride[1] != 1) attributes.push_back(literal("strides", Indices{stride[0], stride[1]}));
  for (std::size_t a = 0; a < 2; ++a)
    counts.push_back(same ? ceil_div(sizes[a], stride[a]) : floor_div(sizes[a] - kernel[a], stride[a]) + 1);
  if (!same) return;
  for (const bool end : {false, true})
    attributes.push_back({end ? "pads_end" : "pads_begin", [=, this, s0 = stride[0], s1 = stride[1]] {
                            Indices pads;
                            for (std::size_t a = 0; a < 2; ++a) {
                              const Index total = same_padding(context_.sizes.resolved(sizes[a]),
                                                               context_.sizes.resolved(kernel[a]), a == 0 ? s0 : s1);
                              pads.push_back(end ? total - floor_div(total, 2) : floor_div(total, 2));
                            }
                            const bool none =
                                std::all_of(pads.begin(), pads.end(), [](const Index& p) { return p == Index(0); });
                            return Expression::literal(none ? Indices{} : pads);
                          }});
}

// The file does not give the number of groups: it is the input's channels divided by the kernel's.
SideBuilder::Result SideBuilder::convolution(const Operation& op) {
  const TensorShape x = shape(op.inputs[0]), w = shape(op.inputs[1]);
  Sizes& sizes = context_.sizes;
  if (context_.fixed_kernels && op.has(Key::kKernelHeight) && op.has(Key::kKernelWidth)) {
    sizes.equate(w.sizes[2], op.get(Key::kKernelHeight, 1, kMaximumKernel), false, "conv2d with a kernel of another height");
    sizes.equate(w.sizes[3], op.get(Key::kKernelWidth, 1, kMaximumKernel), false, "conv2d with a kernel of another width");
  }
  const Index channels = x.sizes[1], depth = w.sizes[1];
  const std::string what = "conv2d of channels that its kernel does not have";
  const Index merged = op.inputs[1].is_input() ? Index(0) : results_[static_cast<std::size_t>(op.inputs[1].op)].groups;
  // A constant kernel is as deep as its input.
  if (!op.inputs[1].is_input()) {
    const Side& side = target_ ? context_.rule.target : context_.rule.source;
    const Type type = side[static_cast<std::size_t>(op.inputs[1].op)].type;
    if (type == Type::kIdentityKernel || type == Type::kPoolKernel)
      sizes.equate(w.sizes[0], channels, false, "conv2d with a constant kernel of other channels");
  }
  if (merged == Index(0)) {
    const Index c = sizes.resolved(channels), d = sizes.resolved(depth);
    if (!(floor_div(c, d) * d == c)) {
      if (context_.one_group) {
        sizes.equate(channels, depth, !target_, what);
      } else {
        const Index group = sizes.unknown("g");
        sizes.equate(channels, depth * group, true, what);
        if (!target_) context_.groups.push_back({channels, depth, group});
        if (!target_ && context_.split_kernels) sizes.equate(w.sizes[0], sizes.unknown("L") * group, true, what);
      }
    }
  } else {
    sizes.equate(channels, depth * merged, !target_, what);
  }
  std::vector<Attribute> attributes;
  Indices result{x.sizes[0], w.sizes[0]};
  window(op, {x.sizes[2], x.sizes[3]}, {w.sizes[2], w.sizes[3]}, attributes, result);
  attributes.push_back({"group", [=, this] { return Expression::literal(context_.quotient(channels, depth)); }});
  const std::int32_t activation = op.get(Key::kActivation, kNoActivation, kTanhActivation, kNoActivation);
  const PatternValue y = node("Conv", {value(op.inputs[0]), value(op.inputs[1])}, std::move(attributes));
  return {{activated(activation, y)}, {four(std::move(result), x.trees[0], w.trees[0])}};
}

// Averages count the padding, as in TASO's verifier, which defines them by convolutions.
SideBuilder::Result SideBuilder::pool(const Operation& op) {
  const TensorShape& x = shape(op.inputs[0]);
  const Indices kernel{op.get(Key::kKernelHeight, 1, kMaximumKernel), op.get(Key::kKernelWidth, 1, kMaximumKernel)};
  std::vector<Attribute> attributes{literal("kernel", kernel)};
  Indices result{x.sizes[0], x.sizes[1]};
  window(op, {x.sizes[2], x.sizes[3]}, kernel, attributes, result);
  if (op.type == Type::kAveragePool) attributes.push_back(literal("count_include_pad", true));
  const std::int32_t activation = op.get(Key::kActivation, kNoActivation, kTanhActivation, kNoActivation);
  const auto first = x.trees[0], second = x.trees[1];
  const PatternValue y =
      node(op.type == Type::kMaxPool ? "MaxPool" : "AveragePool", {value(op.inputs[0])}, std::move(attributes));
  return {{activated(activation, y)}, {four(std::move(result), first, second)}};
}

SideBuilder::Result SideBuilder::product(const Operation& op) {
  const TensorShape a = shape(op.inputs[0]), b = shape(op.inputs[1]);
  const std::size_t rank = a.sizes.size();
  TensorShape result = a;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    context_.sizes.equate(a.sizes[i], b.sizes[i], false, "matmul of other batches");
    result.trees[i] = combined(a.trees[i], b.trees[i]);
  }
  context_.sizes.equate(a.sizes[rank - 1], b.sizes[rank - 2], !target_, "matmul of columns and rows of other numbers");
  result.sizes[rank - 1] = b.sizes[rank - 1];
  result.trees[rank - 1] = b.trees[rank - 1];
  const std::int32_t activation = op.get(Key::kActivation, kNoActivation, kTanhActivation, kNoActivation);
  return {{activated(activation, node("MatMul", {value(op.inputs[0]), value(op.inputs[1])}))}, {std::move(result)}};
}

SideBuilder::Result SideBuilder::concatenation(const Operation& op) {
  TensorShape result = shape(op.inputs[0]);
  const auto axis = static_cast<std::size_t>(op.get(Key::kAxis, 0, static_cast<std::int32_t>(result.sizes.size()) - 1));
  std::vector<PatternValue> values{value(op.inputs[0])};
  for (std::size_t k = 1; k < op.inputs.size(); ++k) {
    const TensorShape& next = shape(op.inputs[k]);
    for (std::size_t i = 0; i < result.sizes.size(); ++i) {
      if (i != axis) {
        context_.sizes.equate(result.sizes[i], next.sizes[i], !target_, "concat of other shapes");
        result.trees[i] = combined(result.trees[i], next.trees[i]);
        continue;
      }
      const auto count = [](const SplitTreePointer& t) { return t ? t->joints : 0; };
      const std::size_t joints = 1 + count(result.trees[i]) + count(next.trees[i]);
      if (joints > kMaximumJoints) bad_side("a tensor is joined of more than " + std::to_string(kMaximumJoints) + " parts");
      const auto tree = std::make_shared<SplitTree>();
      *tree = {true, joints, result.sizes[i], next.sizes[i], result.trees[i], next.trees[i], {}};
      result.trees[i] = tree;
      result.sizes[i] += next.sizes[i];
    }
    values.push_back(value(op.inputs[k]));
  }
  return {{node("Concat", std::move(values), {literal("axis", Index(axis))})}, {std::move(result)}};
}

// Undoes the last concatenation along the axis.
SideBuilder::Result SideBuilder::split(const Operation& op) {
  const TensorShape x = shape(op.inputs[0]);
  const auto axis = static_cast<std::size_t>(op.get(Key::kAxis, 0, static_cast<std::int32_t>(x.sizes.size()) - 1));
  std::vector<TensorShape> parts(op.outputs, x);
  Indices lengths(op.outputs);
  SplitTreePointer tree = x.trees[axis];
  Index size = x.sizes[axis];
  for (std::size_t k = op.outputs - 1; k > 0; --k) {
    if (!tree) bad_side("split of an axis that was not joined");
    expand(*tree, size);
    lengths[k] = tree->right;
    parts[k].trees[axis] = tree->upper;
    size = tree->left;
    tree = tree->lower;
  }
  lengths[0] = size;
  parts[0].trees[axis] = tree;
  Result result;
  const auto count = static_cast<std::uint32_t>(op.outputs);
  const PatternValue y = node("Split", {value(op.inputs[0])}, {literal("axis", Index(axis)), list("sizes", lengths)}, count);
  for (std::uint32_t k = 0; k < count; ++k) {
    parts[k].sizes[axis] = lengths[k];
    result.values.push_back(PatternValue::node(y.number, k));
    result.shapes.push_back(std::move(parts[k]));
  }
  return result;
}

// The permutation is a number in base `rank`, with the first axis as the first digit. PM_OUTSHUFFLE (move elements, or change
// strides) does not affect the result.
SideBuilder::Result SideBuilder::transpose(const Operation& op) {
  const TensorShape& x = shape(op.inputs[0]);
  const auto rank = static_cast<std::int32_t>(x.sizes.size());
  std::int32_t number = op.get(Key::kPermutation, 0, INT32_MAX);
  Indices perm(x.sizes.size());
  std::vector<bool> seen(x.sizes.size());
  TensorShape result = x;
  for (std::size_t i = x.sizes.size(); i-- > 0; number /= rank) {
    const auto from = static_cast<std::size_t>(number % rank);
    perm[i] = from;
    seen[from] = true;
    result.sizes[i] = x.sizes[from];
    result.trees[i] = x.trees[from];
  }
  if (number != 0 || std::find(seen.begin(), seen.end(), false) != seen.end())
    bad_side("parameter 12 of transpose, " + std::to_string(op.get(Key::kPermutation, 0, INT32_MAX)) +
             ", is no permutation of " + std::to_string(rank) + " axes");
  return {{node("Transpose", {value(op.inputs[0])}, {literal("perm", perm)})}, {std::move(result)}};
}

SideBuilder::Result SideBuilder::scale(const Operation& op) {
  return {{node("Mul", {value(op.inputs[0]), value(op.inputs[1])})}, {shape(op.inputs[0])}};
}

}  // namespace rewright::rules::taso
