#include "runtime/cuda/planning/float8.h"

#include <algorithm>

#include "runtime/planning/composer.h"
#include "runtime/planning/strided_read.h"
#include "runtime/planning/value_uses.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

bool is_multiplied(DataType type) { return type == DataType::kFloat8e4m3fn || type == DataType::kFloat8e5m2; }

// factor * x + shift, where x is the only operand that the element reads.
struct Affine {
  double factor = 0, shift = 0;
};
std::optional<Affine> affine(const Element& e) {
  if (e->scalar != Scalar::kReal) return std::nullopt;
  const auto argument = [&](std::size_t n) { return affine(e->arguments[n]); };
  switch (e->kind) {
    case Kind::kConstant:
      return e->real.symbol.empty() ? std::optional(Affine{0, e->real.value}) : std::nullopt;
    case Kind::kRead:
      return e->operand == 0 && !e->zero_outside ? std::optional(Affine{1, 0}) : std::nullopt;
    case Kind::kConvert:
      return e->arguments[0]->scalar == Scalar::kReal ? argument(0) : std::nullopt;
    case Kind::kAdd:
    case Kind::kMultiply: {
      const auto a = argument(0), b = argument(1);
      if (!a || !b) return std::nullopt;
      if (e->kind == Kind::kAdd) return Affine{a->factor + b->factor, a->shift + b->shift};
      if (a->factor != 0 && b->factor != 0) return std::nullopt;
      return Affine{a->factor * b->shift + b->factor * a->shift, a->shift * b->shift};
    }
    default:
      return std::nullopt;
  }
}

void find_read(const Element& e, const ElementNode*& found) {
  if (e->kind == Kind::kRead) found = e.get();
  for (const Element& a : e->arguments) find_read(a, found);
}

class Multiplication {
 public:
  Multiplication(GraphFacts& facts, std::vector<Group>& groups)
      : facts_(facts),
        producers_(facts.graph().producers()),
        uses_(facts.graph(), [&](std::size_t n) { return facts.needed(n); }),
        groups_(groups) {}

  void make() {
    for (Group& group : groups_)
      if (auto direct = product_of_sources(group)) merge(group, std::move(*direct));
    std::erase_if(groups_, [](const Group& g) { return g.nodes.empty(); });
  }

 private:
  struct Source {
    ValueId value;
    double factor;
  };

  // The float8 tensor and the factor whose product a value is.
  std::optional<Source> source(ValueId value) {
    const int p = value < producers_.size() ? producers_[value] : -1;
    if (p < 0 || facts_.graph().nodes()[static_cast<std::size_t>(p)]->op == nullptr) return std::nullopt;
    const Node& node = *facts_.graph().nodes()[static_cast<std::size_t>(p)];
    if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs[0] != value) return std::nullopt;
    if (!is_multiplied(facts_.info(node.inputs[0]).type) || !facts_.define(node).has_denotation()) return std::nullopt;
    const Chain chain = planning::compose(facts_, producers_, {p}, node.inputs[0], false);
    const auto found = affine(chain.element());
    const ElementNode* read = nullptr;
    find_read(chain.element(), read);
    if (!found || found->shift != 0 || found->factor == 0 || read == nullptr) return std::nullopt;
    const Sizes& sizes = facts_.info(value).sizes;
    if (facts_.info(node.inputs[0]).sizes != sizes) return std::nullopt;
    const auto strides = read_strides(*read, chain.position(), sizes, sizes);
    std::int64_t stride = 1;
    for (std::size_t a = sizes.size(); strides && a-- > 0; stride *= sizes[a])
      if (sizes[a] != 1 && strides->coefficient(a) != stride) return std::nullopt;
    return strides ? std::optional(Source{node.inputs[0], found->factor}) : std::nullopt;
  }

  // cuBLASLt needs sums along both operands' last axis, so a constant is transposed once.
  ValueId transposed(ValueId value) {
    const Tensor& known = facts_.constant(value);
    const Sizes sizes = known.sizes();
    Tensor other(known.type(), {sizes[1], sizes[0]});
    for (std::int64_t r = 0; r < sizes[0]; ++r)
      for (std::int64_t c = 0; c < sizes[1]; ++c)
        other.mutable_bytes()[static_cast<std::size_t>(c * sizes[0] + r)] =
            known.bytes()[static_cast<std::size_t>(r * sizes[1] + c)];
    return facts_.add_constant_value(std::move(other));
  }

  // The product on the float8 tensors themselves.
  std::optional<Group> product_of_sources(const Group& group) {
    const auto* plain =
        group.library && group.alternatives.empty() ? std::get_if<ProductShape>(&group.library->shape) : nullptr;
    if (plain == nullptr || !group.library->starts.empty() || plain->type == DataType::kDouble) return std::nullopt;
    const auto a = source(group.library->inputs[0]), b = source(group.library->inputs[1]);
    if (!a || !b) return std::nullopt;
    Group one = group;
    one.element = nullptr;
    auto& p = std::get<ProductShape>(one.library->shape);
    p.a_type = facts_.info(a->value).type, p.b_type = facts_.info(b->value).type;
    p.alpha *= a->factor * b->factor;
    one.library->inputs[0] = a->value, one.library->inputs[1] = b->value;
    if (!p.b_transposed && p.batch == 1 && facts_.constant(b->value) && facts_.info(b->value).sizes.size() == 2) {
      one.library->inputs[1] = transposed(b->value);
      p.b_transposed = true;
      p.b_stride = p.k;
    }
    return one;
  }

  // Conversions before the product that only it needs go into the other alternative.
  void merge(Group& group, Group direct) {
    std::vector<Group> apart;
    const std::vector<ValueId> factors(group.library->inputs.begin(), group.library->inputs.begin() + 2);
    for (Group& before : groups_) {
      if (&before == &group || before.nodes.empty() || before.view || !before.alternatives.empty()) continue;
      if (before.library || std::find(factors.begin(), factors.end(), before.result) == factors.end()) continue;
      if (!is_read_once(before.result)) continue;
      apart.push_back(before);
      before.nodes.clear();
    }
    apart.push_back(group);
    Group all;
    all.result = group.result;
    for (const Group& part : apart) all.nodes.insert(all.nodes.end(), part.nodes.begin(), part.nodes.end());
    std::sort(all.nodes.begin(), all.nodes.end());
    all.alternatives = {{std::move(direct)}, std::move(apart)};
    group = std::move(all);
  }

  // Is it read by one node only, as one input?
  bool is_read_once(ValueId value) const {
    const int reader = uses_.only_node(value);
    if (reader < 0) return false;
    const std::vector<ValueId>& inputs = facts_.graph().nodes()[static_cast<std::size_t>(reader)]->inputs;
    return std::count(inputs.begin(), inputs.end(), value) == 1;
  }

  GraphFacts& facts_;
  const std::vector<std::int32_t> producers_;
  ValueUses uses_;
  std::vector<Group>& groups_;
};

}  // namespace

void multiply_in_float8(GraphFacts& facts, std::vector<Group>& groups) { Multiplication(facts, groups).make(); }

}  // namespace rewright::cuda
