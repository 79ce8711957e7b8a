#include "optimizer/inputs/inputs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "expressions/element.h"
#include "graph/onnx/import/overridable.h"
#include "graph/onnx/string_inputs.h"
#include "optimizer/inputs/missing_numbers.h"
#include "optimizer/inputs/sizes.h"

namespace rewright::optimizer {

namespace {

// Covers tokens of any vocabulary; larger numbers would test nothing more.
constexpr std::int64_t kLargestDrawn = std::int64_t{1} << 20;
// The largest random position that an operator without a denotation also reads, which may take it for a size or a loop count.
constexpr std::int64_t kLargestCount = 255;

bool holds_integers(const Graph& graph, ValueId id) {
  const DataType type = graph.value(id).type.type;
  return id != kNoValue && is_integer(type);
}

// Finds ranges of a graph's integers, from the last node to the first.
class RangeFinder {
 public:
  explicit RangeFinder(const Graph& graph)
      : graph_(graph), ranges_(graph.value_count(), kAnything), counts_(graph.value_count()) {}

  std::vector<IntegerRange> run() {
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) read(*graph_.nodes()[n]);
    std::vector<IntegerRange> result;
    for (const ValueId id : graph_.inputs()) {
      IntegerRange range = ranges_[id];
      if (range == kAnything) range = {};
      range = {std::max<std::int64_t>(range.low, 0), std::min(range.high, counts_[id] ? kLargestCount : kLargestDrawn)};
      if (range.high < range.low) range = {0, std::max<std::int64_t>(0, std::min<std::int64_t>(range.high, 1))};
      result.push_back(range);
    }
    return result;
  }

  // After run(): named sizes of axes that inputs are positions in.
  std::set<std::string> indexed_sizes() const {
    std::set<std::string> result;
    for (const ValueId id : graph_.inputs())
      if (const auto found = indexed_.find(id); found != indexed_.end())
        result.insert(found->second.begin(), found->second.end());
    return result;
  }

  // After run(): is it an input of integers without a known range?
  bool is_without_range(ValueId input) const { return holds_integers(graph_, input) && ranges_[input] == kAnything; }

 private:
  static constexpr IntegerRange kAnything{std::numeric_limits<std::int64_t>::min() / 4,
                                          std::numeric_limits<std::int64_t>::max() / 4};

  void read(const Node& node) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id != kNoValue && holds_integers(graph_, id); }))
      return;
    node_ = &node;
    const bool read_fully = node.op != nullptr && read_definition(node, graph_.operand_types(node));
    const bool counts = !read_fully || std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return id != kNoValue && holds_integers(graph_, id) && counts_[id];
    });
    for (const ValueId id : node.inputs)
      if (id != kNoValue && counts) counts_[id] = true;
  }

  // False if there is no denotation.
  bool read_definition(const Node& node, const std::vector<std::optional<TensorType>>& operands) {
    try {
      const Definition definition = node.op->define(node.attributes, Inputs::of(operands));
      if (!definition.has_denotation()) return false;
      operands_ = &operands;
      for (std::size_t o = 0; o < definition.outputs().size() && o < node.outputs.size(); ++o) {
        const Output& output = definition.outputs()[o];
        seen_.clear();
        visit(output.element);
        const ValueId id = node.outputs[o];
        if (id == kNoValue || ranges_[id] == kAnything) continue;
        const auto found = indexed_.find(id);
        constrain(output.element, ranges_[id], found == indexed_.end() ? std::set<std::string>() : found->second);
      }
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Visits positions anywhere in the element.
  void visit(const Element& element) {
    if (!seen_.insert(element.get()).second) return;
    const ElementNode& e = *element;
    visit(e.index), visit(e.bound);
    for (std::size_t axis = 0; axis < e.position.size(); ++axis) {
      const Atom* const atom = e.position[axis].as_atom();
      const std::optional<TensorType>& operand = operands_->at(static_cast<std::size_t>(e.operand));
      if (atom != nullptr && atom->kind == Atom::Kind::kLoad && operand)
        constrain_position(atom->element, operand->shape[axis]);
      visit(e.position[axis]);
    }
    for (const Condition& condition : e.conditions) visit(condition.left), visit(condition.right);
    for (const Element& argument : e.arguments) visit(argument);
  }

  void visit(const Index& index) {
    if (index.is_constant()) return;
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kLoad) visit(atom.element);
      if (atom.kind != Atom::Kind::kPosition) return;
      const Atom* const inner = atom.arguments[0].as_atom();
      if (inner != nullptr && inner->kind == Atom::Kind::kLoad) constrain_position(inner->element, atom.arguments[1]);
    });
  }

  static std::optional<std::int64_t> size_of(const Index& index) {
    const Atom* const atom = index.as_atom();
    if (atom != nullptr && atom->kind == Atom::Kind::kSymbol) return 1;
    const std::optional<std::int64_t> size = index.constant();
    return size && *size >= 1 ? size : std::nullopt;
  }

  using Kind = ElementNode::Kind;

  // Requires the element to be a position on an axis of this size.
  void constrain_position(const Element& element, const Index& size) {
    const std::optional<std::int64_t> known = size_of(size);
    if (!known) return;
    const Atom* const atom = size.as_atom();
    constrain(
        element, {0, *known - 1},
        atom != nullptr && atom->kind == Atom::Kind::kSymbol ? std::set<std::string>{atom->name} : std::set<std::string>());
  }

  // Requires the element to be within the range, as a position on axes of these named sizes.
  void constrain(const Element& element, IntegerRange range, const std::set<std::string>& axes) {
    const ElementNode& e = *element;
    switch (e.kind) {
      case Kind::kRead: {
        const ValueId id = node_->inputs[static_cast<std::size_t>(e.operand)];
        if (id == kNoValue || !holds_integers(graph_, id)) return;
        const IntegerRange both{std::max(ranges_[id].low, range.low), std::min(ranges_[id].high, range.high)};
        if (both.high < both.low) return;  // one of two choices, as of a position from the end
        ranges_[id] = both;
        if (!axes.empty()) indexed_[id].insert(axes.begin(), axes.end());
        return;
      }
      case Kind::kConvert:
        return constrain(e.arguments[0], range, axes);
      case Kind::kAdd:
      case Kind::kMultiply:
        for (const int side : {0, 1})
          if (const auto constant = constant_range(e.arguments[static_cast<std::size_t>(1 - side)]))
            constrain_other(e, e.arguments[static_cast<std::size_t>(side)], *constant, range, axes);
        return;
      case Kind::kChoose:
      case Kind::kSelect:  // negative positions are mapped first; others stay as they are
        constrain(e.arguments.back(), range, axes);
        return constrain(e.arguments[e.arguments.size() - 2], range, axes);
      default:
        return;
    }
  }

  // Together with any of the constants.
  void constrain_other(const ElementNode& e, const Element& side, IntegerRange constants, IntegerRange range,
                       const std::set<std::string>& axes) {
    if (e.kind == Kind::kAdd) return constrain(side, {range.low - constants.low, range.high - constants.high}, axes);
    if (constants.high < 0) {
      constants = {-constants.high, -constants.low};
      range = {-range.high, -range.low};
    }
    if (constants.low <= 0) return;
    const auto up = [](std::int64_t n, std::int64_t by) { return n > 0 ? (n - 1) / by + 1 : n / by; };
    const auto down = [](std::int64_t n, std::int64_t by) { return n < 0 ? (n + 1) / by - 1 : n / by; };
    constrain(side,
              {up(range.low, range.low > 0 ? constants.low : constants.high),
               down(range.high, range.high > 0 ? constants.high : constants.low)},
              axes);
  }

  // The integers of constants that are read here, and of their sums and products.
  std::optional<IntegerRange> constant_range(const Element& element) const {
    const ElementNode& e = *element;
    if (e.scalar == Scalar::kReal) return std::nullopt;
    switch (e.kind) {
      case Kind::kConvert:
        return constant_range(e.arguments[0]);
      case Kind::kConstant:
        return IntegerRange{e.integer, e.integer};
      case Kind::kAdd:
      case Kind::kMultiply: {
        const auto a = constant_range(e.arguments[0]), b = constant_range(e.arguments[1]);
        if (!a || !b || !is_small(*a) || !is_small(*b)) return std::nullopt;
        if (e.kind == Kind::kAdd) return IntegerRange{a->low + b->low, a->high + b->high};
        const auto [low, high] = std::minmax({a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high});
        return IntegerRange{low, high};
      }
      case Kind::kRead:
        return range_of_constant(node_->inputs[static_cast<std::size_t>(e.operand)]);
      default:
        return std::nullopt;
    }
  }

  static bool is_small(IntegerRange r) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    return -kMost < r.low && r.high < kMost;
  }

  std::optional<IntegerRange> range_of_constant(ValueId id) const {
    if (id == kNoValue || !holds_integers(graph_, id)) return std::nullopt;
    const Value& value = graph_.value(id);
    std::vector<std::int64_t> elements;
    if (value.constant && value.constant.size() <= kLargestDrawn)
      elements = value.constant.integers();
    else if (value.contents && all_constant(*value.contents))
      elements = values(*value.contents);
    if (elements.empty()) return std::nullopt;
    const auto [low, high] = std::minmax_element(elements.begin(), elements.end());
    return IntegerRange{*low, *high};
  }

  const Graph& graph_;
  std::vector<IntegerRange> ranges_;
  std::vector<bool> counts_;                          // read by operators without a denotation
  std::map<ValueId, std::set<std::string>> indexed_;  // by position in what named sizes, by value
  const Node* node_ = nullptr;
  const std::vector<std::optional<TensorType>>* operands_ = nullptr;
  std::set<const ElementNode*> seen_;
};

IntegerRange narrowed_range(IntegerRange range, Draw draw) {
  const auto within = [&](std::int64_t value) { return std::clamp(value, range.low, range.high); };
  switch (draw) {
    case Draw::kUsual:
    case Draw::kMissing:
      return range;
    case Draw::kSmall:
      return {within(0), within(1)};
    case Draw::kZeros:
      return {within(0), within(0)};
    default:
      return {within(1), within(1)};
  }
}

constexpr std::uint64_t kOneIsMissing = 8;  // of so many numbers, where any may be

Tensor drawn_tensor(const TensorType& type, const Sizes& sizes, IntegerRange range, bool may_miss, Draw draw,
                    std::mt19937_64& random) {
  const auto count = static_cast<std::size_t>(element_count(sizes));
  if (is_real(type.type)) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> positive(0.5, 1.5);
    std::vector<double> elements(count);
    for (double& element : elements) element = draw == Draw::kPositive ? positive(random) : normal(random);
    if (may_miss && draw == Draw::kMissing)
      for (double& element : elements)
        if (random() % kOneIsMissing == 0) element = std::numeric_limits<double>::quiet_NaN();
    return Tensor::from_reals(type.type, sizes, elements);
  }
  const IntegerRange drawn = type.type == DataType::kBool ? IntegerRange{} : narrowed_range(range, draw);
  const auto width = static_cast<std::uint64_t>(drawn.high - drawn.low) + 1;
  std::vector<std::int64_t> elements(count);
  for (std::int64_t& element : elements) element = drawn.low + static_cast<std::int64_t>(random() % width);
  if (draw == Draw::kOpen && sizes.size() == 1 && count > 0 && is_integer(type.type)) elements[0] = -1;
  return Tensor::from_integers(type.type, sizes, elements);
}

}  // namespace

std::vector<Attempt> attempts(const Graph& graph) {
  constexpr std::uint64_t kOtherSeeds = 8, kFar = 1000;  // beyond the seeds of several runs
  std::vector<Attempt> result;
  const std::vector<bool> tested = tested_for_missing(graph);
  if (std::any_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId id) { return tested[id]; }))
    result.push_back({Draw::kMissing, 0});
  for (const Draw draw : kDraws) result.push_back({draw, 0});
  if (std::none_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId id) { return holds_integers(graph, id); }))
    return result;
  for (std::uint64_t n = 1; n <= kOtherSeeds; ++n) result.push_back({Draw::kUsual, n * kFar});
  return result;
}

std::vector<IntegerRange> integer_ranges(const Graph& graph) { return RangeFinder(graph).run(); }

std::set<std::string> indexed_sizes(const Graph& graph) {
  RangeFinder finder(graph);
  finder.run();
  return finder.indexed_sizes();
}

std::vector<std::string> inputs_without_range(const Graph& graph) {
  RangeFinder finder(graph);
  finder.run();
  std::vector<std::string> names;
  for (const ValueId id : graph.inputs())
    if (finder.is_without_range(id) && default_of(graph, id) == nullptr) names.push_back(graph.value(id).name);
  return names;
}

std::vector<Tensor> random_inputs(const Graph& graph, const std::map<std::string, std::int64_t>& sizes, std::uint64_t seed,
                                  Draw draw) {
  const Substitution given = sizes_or_one(sizes);
  const auto any_input = [&](const auto& has) {
    return std::any_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId id) { return has(graph.value(id).type); });
  };
  const bool open = any_input([](const TensorType& type) { return !all_constant(type.shape); });
  std::vector<IntegerRange> ranges;
  if (any_input([](const TensorType& type) { return is_integer(type.type); }))
    ranges = integer_ranges(open ? with_sizes(graph, given) : graph);
  const std::vector<bool> may_miss =
      draw == Draw::kMissing ? tested_for_missing(graph) : std::vector<bool>(graph.value_count());
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (!value.shape_known || value.type.type == DataType::kUndefined)
      throw Error(ErrorCode::kUnsupported, "random ones are drawn for tensors of a known rank alone",
                  "input \"" + value.name + "\"");
    if (const Tensor* usual = default_of(graph, graph.inputs()[i])) {
      inputs.push_back(*usual);
      continue;
    }
    const Sizes known = values(substitute(value.type.shape, given));
    if (value.type.type == DataType::kString) {
      inputs.push_back(random_strings(graph, graph.inputs()[i], known, random()));
      continue;
    }
    inputs.push_back(drawn_tensor(value.type, known, ranges.empty() ? IntegerRange{} : ranges[i], may_miss[graph.inputs()[i]],
                                  draw, random));
  }
  return inputs;
}

}  // namespace rewright::optimizer
