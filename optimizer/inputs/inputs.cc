#include "optimizer/inputs/inputs.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "expressions/element.h"
#include "graph/onnx/import/overridable.h"
#include "graph/onnx/string_inputs.h"
#include "optimizer/inputs/sizes.h"

namespace rewright::optimizer {

namespace {

// Covers tokens of any vocabulary; larger numbers would test nothing more.
constexpr std::int64_t kLargestDrawn = std::int64_t{1} << 20;

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
      range = {std::max<std::int64_t>(range.low, 0), std::min(range.high, counts_[id] ? 1 : kLargestDrawn)};
      if (range.high < range.low) range = {0, std::max<std::int64_t>(0, std::min<std::int64_t>(range.high, 1))};
      result.push_back(range);
    }
    return result;
  }

  // After run(): is it an input of integers without a known range?
  bool is_without_range(ValueId input) const {
    return holds_integers(graph_, input) && (ranges_[input] == kAnything || counts_[input]);
  }

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
        if (id != kNoValue && ranges_[id] != kAnything) constrain(output.element, ranges_[id]);
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
        if (const auto size = size_of(operand->shape[axis])) constrain(atom->element, {0, *size - 1});
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
      const std::optional<std::int64_t> size = size_of(atom.arguments[1]);
      if (inner != nullptr && inner->kind == Atom::Kind::kLoad && size) constrain(inner->element, {0, *size - 1});
    });
  }

  static std::optional<std::int64_t> size_of(const Index& index) {
    const Atom* const atom = index.as_atom();
    if (atom != nullptr && atom->kind == Atom::Kind::kSymbol) return 1;
    const std::optional<std::int64_t> size = index.constant();
    return size && *size >= 1 ? size : std::nullopt;
  }

  using Kind = ElementNode::Kind;

  // Requires the element to be within the range.
  void constrain(const Element& element, IntegerRange range) {
    const ElementNode& e = *element;
    switch (e.kind) {
      case Kind::kRead: {
        const ValueId id = node_->inputs[static_cast<std::size_t>(e.operand)];
        if (id == kNoValue || !holds_integers(graph_, id)) return;
        ranges_[id] = {std::max(ranges_[id].low, range.low), std::min(ranges_[id].high, range.high)};
        return;
      }
      case Kind::kConvert:
        return constrain(e.arguments[0], range);
      case Kind::kAdd:
      case Kind::kMultiply:
        for (const int side : {0, 1})
          if (const auto constant = largest(e.arguments[static_cast<std::size_t>(1 - side)]))
            constrain_other(e, e.arguments[static_cast<std::size_t>(side)], *constant, range);
        return;
      case Kind::kChoose:
      case Kind::kSelect:  // negative positions are mapped first; others stay as they are
        return constrain(e.arguments.back(), range);
      default:
        return;
    }
  }

  void constrain_other(const ElementNode& e, const Element& side, std::int64_t constant, IntegerRange range) {
    if (e.kind == Kind::kAdd) {
      constrain(side, {range.low - constant, range.high - constant});
    } else if (constant > 0) {
      constrain(side, {range.low > 0 ? (range.low - 1) / constant + 1 : range.low / constant, range.high / constant});
    }
  }

  // The largest element of a constant that is read here, or the constant itself.
  std::optional<std::int64_t> largest(const Element& element) const {
    const ElementNode& e = *element;
    if (e.kind == Kind::kConvert) return largest(e.arguments[0]);
    if (e.kind == Kind::kConstant && e.scalar != Scalar::kReal) return e.integer;
    if (e.kind != Kind::kRead) return std::nullopt;
    const ValueId id = node_->inputs[static_cast<std::size_t>(e.operand)];
    if (id == kNoValue || !holds_integers(graph_, id)) return std::nullopt;
    const Value& value = graph_.value(id);
    std::vector<std::int64_t> elements;
    if (value.constant && value.constant.size() <= kLargestDrawn)
      elements = value.constant.integers();
    else if (value.contents && all_constant(*value.contents))
      elements = values(*value.contents);
    if (elements.empty()) return std::nullopt;
    return *std::max_element(elements.begin(), elements.end());
  }

  const Graph& graph_;
  std::vector<IntegerRange> ranges_;
  std::vector<bool> counts_;  // read by operators without a denotation
  const Node* node_ = nullptr;
  const std::vector<std::optional<TensorType>>* operands_ = nullptr;
  std::set<const ElementNode*> seen_;
};

IntegerRange narrowed_range(IntegerRange range, Draw draw) {
  const auto within = [&](std::int64_t value) { return std::clamp(value, range.low, range.high); };
  switch (draw) {
    case Draw::kUsual:
      return range;
    case Draw::kSmall:
      return {within(0), within(1)};
    case Draw::kZeros:
      return {within(0), within(0)};
    default:
      return {within(1), within(1)};
  }
}

Tensor drawn_tensor(const TensorType& type, const Sizes& sizes, IntegerRange range, Draw draw, std::mt19937_64& random) {
  const auto count = static_cast<std::size_t>(element_count(sizes));
  if (is_real(type.type)) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> positive(0.5, 1.5);
    std::vector<double> elements(count);
    for (double& element : elements) element = draw == Draw::kPositive ? positive(random) : normal(random);
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
  for (const Draw draw : kDraws) result.push_back({draw, 0});
  if (std::none_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId id) { return holds_integers(graph, id); }))
    return result;
  for (std::uint64_t n = 1; n <= kOtherSeeds; ++n) result.push_back({Draw::kUsual, n * kFar});
  return result;
}

std::vector<IntegerRange> integer_ranges(const Graph& graph) { return RangeFinder(graph).run(); }

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
    inputs.push_back(drawn_tensor(value.type, known, ranges.empty() ? IntegerRange{} : ranges[i], draw, random));
  }
  return inputs;
}

}  // namespace rewright::optimizer
