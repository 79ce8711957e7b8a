#include "runtime/cpu/planning/matching.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/hash_mix.h"
#include "runtime/cpu/tile/program.h"

namespace rewright::cpu {

namespace {

// Sample points for testing whether a function is affine: the first two give shift and scale.
constexpr double kAffinePoints[] = {0, 1, -37.5, -0.7, 2.3, 91.0};

}  // namespace

bool at_result_position(const ElementNode& read, const Indices& position, const Sizes& sizes) {
  if (read.position.size() != position.size()) return false;
  for (std::size_t a = 0; a < position.size(); ++a)
    if (!(read.position[a] == position[a]) && !(sizes[a] == 1 && read.position[a] == Index(0))) return false;
  return true;
}

namespace {

std::shared_ptr<const ChannelAffine> find_channel_affine(const KnownValues& known, const Chain& chain, std::size_t axis,
                                                         std::size_t channels) {
  const std::uint64_t channel_atom = chain.position()[axis].as_atom() ? chain.position()[axis].as_atom()->id : 0;
  bool fits = true;
  std::vector<TileOperand> operands;
  std::vector<const std::byte*> data;
  for (std::size_t k = 1; k < chain.operands().size(); ++k) {
    const Tensor& t = known.constant(chain.operands()[k]);
    if (!t || !is_real(t.type())) return nullptr;
    operands.push_back({t.type(), t.sizes(), kPlain});
    data.push_back(t.bytes().data());
  }
  const Sizes& sizes = known.info(chain.result).sizes;
  // f(y) by channel, for all sample points at once.
  const Index c = Index::fresh("c"), p = Index::fresh("p");
  const auto y = static_cast<int>(operands.size());
  const Operand points(y, {DataType::kDouble, {Index(std::ssize(kAffinePoints))}});
  const Element e =
      rewrite(chain.element(),
              [&](const ElementNode& read) -> Element {
                if (read.operand == 0) {
                  fits = fits && at_result_position(read, chain.position(), sizes);
                  return points({p});
                }
                Indices position = read.position;
                for (Index& i : position) {
                  for_each_atom(i, [&](const Atom& a) { fits = fits && a.kind == Atom::Kind::kBound && a.id == channel_atom; });
                  i = substitute(i, [&](const Atom&) { return std::optional<Index>(c); });
                }
                const Tensor& t = known.constant(chain.operands()[static_cast<std::size_t>(read.operand)]);
                return Operand(read.operand - 1, {t.type(), to_indices(t.sizes())})(position);
              },
              {});
  if (!fits) return nullptr;
  operands.push_back({DataType::kDouble, {std::ssize(kAffinePoints)}, kPlain});
  data.push_back(reinterpret_cast<const std::byte*>(kAffinePoints));
  const Sizes results{std::ssize(kAffinePoints), static_cast<std::int64_t>(channels)};
  const auto program = compile_tiles(e, {p, c}, {DataType::kDouble, results, kPlain}, operands, {Isa::kBaseline, true});
  if (!program) return nullptr;
  std::vector<double> f(std::size(kAffinePoints) * channels);
  program->run(data.data(), reinterpret_cast<std::byte*>(f.data()), Workers(1));
  ChannelAffine affine;
  affine.shift.assign(f.begin(), f.begin() + static_cast<std::ptrdiff_t>(channels));
  for (std::size_t n = 0; n < channels; ++n) affine.scale.push_back(f[channels + n] - affine.shift[n]);
  for (std::size_t k = 2; k < std::size(kAffinePoints); ++k)
    for (std::size_t n = 0; n < channels; ++n) {
      const double expected = affine.scale[n] * kAffinePoints[k] + affine.shift[n];
      const double size = std::fabs(affine.scale[n] * kAffinePoints[k]) + std::fabs(affine.shift[n]);
      if (!(std::fabs(f[k * channels + n] - expected) <= 1e-9 * size)) return nullptr;
    }
  return std::make_shared<const ChannelAffine>(std::move(affine));
}

}  // namespace

namespace {

std::uint64_t exact_sizes(const Sizes& sizes) {
  std::uint64_t name = sizes.size();
  for (const std::int64_t size : sizes) name = hash_mix(name, static_cast<std::uint64_t>(size));
  return name;
}

// Sizes as they count in a name.
class ExactSizes {
 public:
  explicit ExactSizes(const KnownValues& known) : known_(known) {}
  std::uint64_t operator()(ValueId value) { return exact_sizes(known_.info(value).sizes); }
  std::uint64_t operation(const Node& node) const { return known_.operation(node); }

 private:
  const KnownValues& known_;
};

// The axes along which a tensor is broadcast to the result, as bits behind the rank.
class BroadcastAxes {
 public:
  BroadcastAxes(const KnownValues& known, ValueId result) : known_(known), result_(known.info(result).sizes) {}
  std::uint64_t operator()(ValueId value) {
    const Sizes& sizes = known_.info(value).sizes;
    std::uint64_t pattern = sizes.size();
    for (std::size_t back = 1; back <= sizes.size(); ++back) {
      const std::int64_t size = sizes[sizes.size() - back];
      const bool same = back <= result_.size() && size == result_[result_.size() - back];
      pattern = hash_mix(pattern, (size == 1 ? 1 : 0) + (same ? 2 : 0));
    }
    return pattern;
  }
  std::uint64_t operation(const Node& node) const { return known_.operation(node); }

 private:
  const KnownValues& known_;
  const Sizes& result_;
};

// For nodes that are free of open sizes: those that are open only count as far as they are 0, 1, or equal to others.
class SizesWhereKnown {
 public:
  explicit SizesWhereKnown(const KnownValues& known) : known_(known) {
    constexpr std::size_t kUsual = 32;
    seen_.reserve(kUsual);
  }
  std::uint64_t operator()(ValueId value) {
    const Sizes& sizes = known_.info(value).sizes;
    std::uint64_t name = sizes.size();
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      const auto first = std::find(seen_.begin(), seen_.end(), sizes[a]);
      name = hash_mix(name, static_cast<std::uint64_t>(first - seen_.begin()));
      if (first == seen_.end()) seen_.push_back(sizes[a]);
      const bool counts = sizes[a] < 2 || !known_.open_nodes().is_open(value, a);
      name = hash_mix(name, counts ? 1 + static_cast<std::uint64_t>(sizes[a]) : 0);
    }
    return name;
  }
  std::uint64_t operation(const Node& node) const { return known_.recognitions().nodes.operation(*known_.free_node(node)); }

 private:
  const KnownValues& known_;
  Sizes seen_;
};

// A matrix that is a view of another one is named without being made.
std::uint64_t constant_name(const KnownValues& known, ValueId value) {
  const ValueInfo& info = known.info(value);
  if (info.type != DataType::kFloat || info.sizes.size() != 2) return known.constant(value).content_hash();
  const KnownValues::ConstantMatrix m = known.constant_matrix(value);
  std::uint64_t name = exact_sizes(info.sizes);
  name = hash_mix(name, m.in.content_hash());
  for (const std::int64_t number : {m.offset, m.row_stride, m.column_stride})
    name = hash_mix(name, static_cast<std::uint64_t>(number));
  return name;
}

// A name for what nodes compute, and the values that it numbers: the start, then in the order in which nodes name them.
// `sizes` says how they count.
struct NamedNodes {
  std::uint64_t name = 0;
  std::vector<ValueId> values;
};
template <class HowSizes>
NamedNodes name_nodes(const KnownValues& known, const std::vector<int>& nodes, ValueId start, ValueId result, HowSizes sizes) {
  constexpr std::size_t kUsual = 16;  // values
  std::uint64_t name = sizes(result);
  std::vector<ValueId> values;
  values.reserve(kUsual);
  values.push_back(start);
  const auto add_value = [&](ValueId value) {
    if (value == kNoValue) return void(name = hash_mix(name, 1));
    const auto number = static_cast<std::uint64_t>(std::find(values.begin(), values.end(), value) - values.begin());
    name = hash_mix(name, number + 2);
    if (number < values.size()) return;
    values.push_back(value);
    const ValueInfo& info = known.info(value);
    const bool is_leaf = value < known.graph().value_count() && known.graph().is_constant(value);
    name = hash_mix(name, is_leaf                    ? known.graph().value(value).constant_hash()
                          : known.is_constant(value) ? constant_name(known, value)
                                                     : static_cast<std::uint64_t>(info.type));
    name = hash_mix(name, sizes(value));
  };
  if (start != kNoValue) {
    const ValueInfo& info = known.info(start);
    name = hash_mix(hash_mix(name, static_cast<std::uint64_t>(info.type)), sizes(start));
  }
  for (const int n : nodes) {
    const Node& node = *known.graph().nodes()[static_cast<std::size_t>(n)];
    name = hash_mix(name, sizes.operation(node));
    for (const ValueId input : node.inputs) add_value(input);
    for (const ValueId output : node.outputs) add_value(output);
  }
  return {name, std::move(values)};
}

std::uint64_t chain_name(const KnownValues& known, const Chain& chain) {
  return name_nodes(known, chain.nodes, chain.start, chain.result, BroadcastAxes(known, chain.result)).name;
}

// An expression whose operands are numbers of NamedNodes::values, or constants that it brings.
struct KnownExpression {
  struct From {
    std::size_t number = 0;
    Tensor constant;  // empty: a value
  };
  Element element;
  Indices position;
  std::vector<From> operands;
};

std::shared_ptr<const KnownExpression> known_expression(const KnownValues& known, const Chain::Expression& e,
                                                        const std::vector<ValueId>& values) {
  auto result = std::make_shared<KnownExpression>(KnownExpression{e.element, e.position, {}});
  for (const ValueId operand : e.operands) {
    const auto at = std::find(values.begin(), values.end(), operand);
    if (at == values.end())
      result->operands.push_back({0, known.constant(operand)});
    else
      result->operands.push_back({static_cast<std::size_t>(at - values.begin()), {}});
  }
  return result;
}

}  // namespace

Chain::Expression recalled_expression(KnownValues& known, const std::vector<int>& nodes, ValueId start, bool shorten,
                                      const std::function<Chain::Expression()>& compose) {
  const auto node = [&](int n) -> const Node& { return *known.graph().nodes()[static_cast<std::size_t>(n)]; };
  const ValueId result = node(nodes.back()).outputs[0];
  std::optional<Chain::Expression> expression;
  // False if there is none under this name. One of any sizes brings no constants, which were made for those of this plan.
  const auto recall = [&](std::string_view kind, const NamedNodes& named, bool of_any_sizes, const auto& may_compose) {
    const std::uint64_t name = hash_mix(hash_mix(hash_text(kind), named.name), shorten ? 1 : 0);
    const auto found = known.recognitions().expressions.recall(name, [&]() -> std::shared_ptr<const KnownExpression> {
      if (!may_compose()) return nullptr;
      expression = compose();
      expression->name = name;
      std::shared_ptr<const KnownExpression> result = known_expression(known, *expression, named.values);
      const auto is_constant = [](const KnownExpression::From& from) { return static_cast<bool>(from.constant); };
      if (of_any_sizes && std::any_of(result->operands.begin(), result->operands.end(), is_constant)) {
        expression.reset();
        return nullptr;
      }
      return result;
    });
    if (!found || expression) return found != nullptr;
    expression = Chain::Expression{found->element, found->position, {}, name};
    for (const KnownExpression::From& from : found->operands)
      expression->operands.push_back(from.constant ? known.add_constant_value(from.constant) : named.values[from.number]);
    return true;
  };
  // A constant that was computed for these sizes is no other plan's.
  const auto is_of_sizes = [&](ValueId v) {
    if (v == kNoValue || !known.is_constant(v) || known.is_of_model(v)) return false;
    const std::size_t rank = known.info(v).sizes.size();
    for (std::size_t a = 0; a < rank; ++a)
      if (known.open_nodes().is_open(v, a)) return true;
    return false;
  };
  const bool free = std::all_of(nodes.begin(), nodes.end(), [&](int n) {
    return known.free_node(node(n)) != nullptr && std::none_of(node(n).inputs.begin(), node(n).inputs.end(), is_of_sizes);
  });
  // Are the nodes' elements at these sizes those that they have at any?
  const auto is_general = [&] {
    return std::all_of(nodes.begin(), nodes.end(), [&](int n) {
      const Definition open = planning::define(known.open_nodes().graph(), **known.free_node(node(n)));
      return is_same_element(known.define(node(n)).outputs()[0], open.outputs()[0]);
    });
  };
  if (free &&
      recall("expression of any sizes", name_nodes(known, nodes, start, result, SizesWhereKnown(known)), true, is_general))
    return *std::move(expression);
  recall("expression", name_nodes(known, nodes, start, result, ExactSizes(known)), false, [] { return true; });
  return *std::move(expression);
}

std::uint64_t function_name(std::string_view what, const KnownValues& known, const Chain& chain) {
  if (!chain.name) chain.name = chain_name(known, chain);
  return hash_mix(hash_text(what), *chain.name);
}

namespace {

// Does the chain read known numbers alone, besides its start?
bool reads_numbers(const KnownValues& known, const Chain& chain) {
  const auto is_computed_within = [&](ValueId v) {
    return std::find(chain.nodes.begin(), chain.nodes.end(), known.producer_number(v)) != chain.nodes.end();
  };
  for (const int n : chain.nodes)
    for (const ValueId v : known.graph().nodes()[static_cast<std::size_t>(n)]->inputs) {
      if (v == kNoValue || v == chain.start || is_computed_within(v)) continue;
      if (const Tensor& constant = known.constant(v); !constant || constant.size() != 1) return false;
    }
  return true;
}

}  // namespace

std::shared_ptr<const ChannelAffine> match_channel_affine(const KnownValues& known, const Chain& chain, std::size_t axis) {
  const auto channels = static_cast<std::size_t>(known.info(chain.result).sizes[axis]);
  // A function that is the same for all channels is found once, however many there are.
  const std::size_t different = reads_numbers(known, chain) ? std::min<std::size_t>(channels, 1) : channels;
  const std::uint64_t name = hash_mix(hash_mix(function_name("affine", known, chain), axis), different);
  const auto found =
      known.recognitions().functions.recall(name, [&] { return find_channel_affine(known, chain, axis, different); });
  if (!found || different == channels) return found;
  return std::make_shared<const ChannelAffine>(
      ChannelAffine{std::vector<double>(channels, found->scale[0]), std::vector<double>(channels, found->shift[0])});
}

namespace {

// An input of one of a chain's nodes: the node's place in the chain, and the input's number.
using InputOfChain = std::pair<std::size_t, std::size_t>;

std::optional<InputOfChain> find_addition(const KnownValues& known, const Chain& chain) {
  const ElementNode& e = *chain.element();
  if (e.kind != ElementNode::Kind::kAdd) return std::nullopt;
  const Sizes& sizes = known.info(chain.result).sizes;
  for (int side = 0; side < 2; ++side) {
    const ElementNode &start = *e.arguments[side], &other = *e.arguments[1 - side];
    if (start.kind != ElementNode::Kind::kRead || other.kind != ElementNode::Kind::kRead || start.operand != 0 ||
        other.operand == 0)
      continue;
    if (!at_result_position(start, chain.position(), sizes)) continue;
    const ValueId operand = chain.operands()[static_cast<std::size_t>(other.operand)];
    if (known.info(operand).sizes != sizes || !at_result_position(other, chain.position(), sizes)) continue;
    if (known.info(operand).type != known.info(chain.result).type) continue;
    for (std::size_t n = 0; n < chain.nodes.size(); ++n) {
      const std::vector<ValueId>& inputs = known.graph().nodes()[static_cast<std::size_t>(chain.nodes[n])]->inputs;
      const auto at = std::find(inputs.begin(), inputs.end(), operand);
      if (at != inputs.end()) return InputOfChain(n, static_cast<std::size_t>(at - inputs.begin()));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ValueId> match_addition(const KnownValues& known, const Chain& chain) {
  const std::optional<InputOfChain> found = known.recognitions().functions.recall(function_name("addition", known, chain),
                                                                                  [&] { return find_addition(known, chain); });
  if (!found) return std::nullopt;
  return known.graph().nodes()[static_cast<std::size_t>(chain.nodes[found->first])]->inputs[found->second];
}

}  // namespace rewright::cpu
