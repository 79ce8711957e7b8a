#include "runtime/planning/composer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/planning/traits.h"

namespace rewright::planning {

namespace {

// Composes each node once per position, so that results share common parts.
class Composer {
 public:
  // `shorten`: write affine functions by channel with two constants.
  Composer(Facts& facts, const std::vector<std::int32_t>& producers, const std::vector<int>& nodes, ValueId first, bool shorten)
      : facts_(facts), producers_(producers), nodes_(nodes.begin(), nodes.end()), shorten_(shorten) {
    if (first != kNoValue) operands.push_back(first);
    started_ = first != kNoValue;
  }

  std::vector<ValueId> operands;

  Element compose(int node, const Indices& position) {
    for (const auto& [key, element] : done_)
      if (key.first == node && key.second == position) return element;
    if (const auto affine = affine_of(node)) {
      const Element result = shortened(node, position, *affine);
      done_.emplace_back(std::pair(node, position), result);
      return result;
    }
    const Definition& definition = facts_.define(*facts_.graph().nodes()[node]);
    const Output& output = definition.outputs()[0];
    std::map<std::uint64_t, Index> atoms;
    for (std::size_t a = 0; a < position.size(); ++a)
      if (const Atom* atom = output.position[a].as_atom()) atoms.emplace(atom->id, position[a]);
    const Element result = rewrite(
        output.element, [&](const ElementNode& read) { return operand(*facts_.graph().nodes()[node], read); },
        [&](const Atom& atom) -> std::optional<Index> {
          const auto found = atom.kind == Atom::Kind::kBound ? atoms.find(atom.id) : atoms.end();
          return found == atoms.end() ? std::nullopt : std::optional(found->second);
        });
    done_.emplace_back(std::pair(node, position), result);
    return result;
  }

 private:
  Element operand(const Node& node, const ElementNode& read) {
    const ValueId value = node.inputs[static_cast<std::size_t>(read.operand)];
    const ValueInfo& info = facts_.info(value);
    const int producer = producers_[value];
    const bool first = started_ && value == operands[0];
    if (!first && producer >= 0 && nodes_.contains(producer)) {
      const Element inner = compose(producer, read.position);
      if (!read.zero_outside) return inner;
      const Operand shape(0, {info.type, to_indices(info.sizes)});
      return choose(shape.inside(read.position), inner, constant(scalar(info.type), 0));
    }
    // A read at a position given as data is not replaced: a position outside of its axis must end the run.
    if (const auto number = facts_.known_number(value); number && !read.zero_outside && !has_position(read)) {
      if (scalar(info.type) == Scalar::kReal) return real(*number);
      const std::int64_t exact = facts_.constant(value).integers()[0];
      return scalar(info.type) == Scalar::kBoolean ? boolean(exact != 0) : integer(exact);
    }
    auto at = std::find(operands.begin(), operands.end(), value);
    if (at == operands.end()) at = operands.insert(at, value);
    const Operand external(static_cast<int>(at - operands.begin()), {info.type, to_indices(info.sizes)});
    return read.zero_outside ? external.padded(read.position) : external(read.position);
  }

  // The affine function by channel that a node applies to its first input, such as a batch normalization.
  std::shared_ptr<const ChannelAffine> affine_of(int n) const {
    const Node& node = *facts_.graph().nodes()[n];
    if (!shorten_ || node.inputs.size() < 4 || facts_.info(node.outputs[0]).sizes.size() < 2) return nullptr;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == kNoValue || (i > 0) != facts_.is_constant(node.inputs[i])) return nullptr;
    if (facts_.info(node.inputs[0]).sizes != facts_.info(node.outputs[0]).sizes) return nullptr;
    Chain chain;
    chain.start = node.inputs[0];
    chain.nodes = {n};
    chain.result = node.outputs[0];
    chain.set_expression([&](const Chain&) {
      const Output& output = facts_.define(node).outputs()[0];
      return Chain::Expression{output.element, output.position, node.inputs};
    });
    return facts_.channel_affine(chain);
  }

  Element shortened(int n, const Indices& position, const ChannelAffine& affine) {
    const Node& node = *facts_.graph().nodes()[n];
    const DataType type = facts_.info(node.outputs[0]).type;
    const Operand x(0, {type, to_indices(facts_.info(node.inputs[0]).sizes)});
    const auto by_channel = [&](const std::vector<double>& values) {
      const Sizes sizes{static_cast<std::int64_t>(values.size())};
      operands.push_back(facts_.add_constant_value(Tensor::from_reals(type, sizes, values)));
      return Operand(static_cast<int>(operands.size()) - 1, {type, to_indices(sizes)})({position[1]});
    };
    const Element start = operand(node, *x(position));
    const Element scale = by_channel(affine.scale);
    return start * scale + by_channel(affine.shift);
  }

  Facts& facts_;
  const std::vector<std::int32_t>& producers_;
  std::set<int> nodes_;
  bool shorten_ = false, started_ = false;
  std::vector<std::pair<std::pair<int, Indices>, Element>> done_;
};

Chain::Expression composed(Facts& facts, const std::vector<std::int32_t>& producers, const Chain& chain, bool shorten) {
  return facts.composed(chain.nodes, chain.start, shorten, [&] {
    Chain::Expression e;
    for (std::size_t a = 0; a < facts.info(chain.result).sizes.size(); ++a)
      e.position.push_back(Index::fresh("i" + std::to_string(a)));
    Composer composer(facts, producers, chain.nodes, chain.start, shorten);
    e.element = composer.compose(chain.nodes.back(), e.position);
    e.operands = std::move(composer.operands);
    return e;
  });
}

}  // namespace

Chain compose(Facts& facts, const std::vector<std::int32_t>& producers, std::vector<int> nodes, ValueId start, bool shorten) {
  Chain chain;
  chain.start = start;
  chain.nodes = std::move(nodes);
  chain.result = facts.graph().nodes()[static_cast<std::size_t>(chain.nodes.back())]->outputs[0];
  // Functions with two references need no memory, and most are never called.
  if (shorten)
    chain.set_expression([&facts, &producers](const Chain& c) { return composed(facts, producers, c, true); });
  else
    chain.set_expression([&facts, &producers](const Chain& c) { return composed(facts, producers, c, false); });
  return chain;
}

}  // namespace rewright::planning
