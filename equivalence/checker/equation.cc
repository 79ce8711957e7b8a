#include "equivalence/checker/equation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "equivalence/checker/constants.h"
#include "equivalence/checker/ranges.h"
#include "expressions/division.h"
#include "expressions/exact_number.h"
#include "expressions/free_variables.h"
#include "expressions/function.h"

namespace rewright::equivalence {

namespace {

bool has_denotation(const Graph& graph, const Node& node) try {
  return node.op != nullptr && !node.op->random() &&
         node.op->define(node.attributes, Inputs::of(graph.operand_types(node))).has_denotation();
} catch (const Error&) {
  return false;
}

class StatementBuilder {
 public:
  StatementBuilder(const Joint& joint, const Equation& equation, std::size_t most) : joint_(joint), most_(most) {
    for (const ValueId leaf : equation.leaves) leaves_.insert(joint.find(leaf));
  }

  // A node that may wrap around becomes a leaf: an unknown function of what it reads.
  Statement run(const Equation& equation) {
    build(equation);
    const std::vector<bool> wraps = wrapping_nodes(result_.graph);
    if (std::find(wraps.begin(), wraps.end(), true) == wraps.end()) return std::move(result_);
    for (std::size_t n = 0; n < wraps.size(); ++n)
      if (wraps[n])
        for (const ValueId id : joint_.graph().nodes()[static_cast<std::size_t>(result_.positions[n])]->outputs)
          if (id != kNoValue) leaves_.insert(joint_.find(id));
    result_ = {}, known_.clear();
    build(equation);
    return std::move(result_);
  }

 private:
  void build(const Equation& equation) {
    const ValueId a = value(equation.a);
    result_.nodes_of_a = result_.graph.nodes().size();
    const ValueId b = value(equation.b);
    result_.graph.add_output("a", a);
    result_.graph.add_output("b", b);
  }

  ValueId value(ValueId id) {
    struct Open {
      ValueId id;
      bool operands_done;
    };
    std::vector<Open> open{{joint_.find(id), false}};
    while (!open.empty()) {
      const auto [next, ready] = open.back();
      open.pop_back();
      if (known_.count(next)) continue;
      const ValueId made = joint_.defined_by(next);
      const std::int32_t position = joint_.producer(made);
      const Node* node = position < 0 ? nullptr : joint_.graph().nodes()[static_cast<std::size_t>(position)].get();
      if (leaves_.count(next) || !node || !has_denotation(joint_.graph(), *node)) {
        add_leaf(next, made);
      } else if (!ready) {
        open.push_back({next, true});
        for (const ValueId input : node->inputs)
          if (input != kNoValue) open.push_back({joint_.find(input), false});
      } else {
        add_node(*node);
        result_.positions.push_back(position);
      }
    }
    return known_.at(joint_.find(id));
  }

  void remember(ValueId of_class, ValueId made) {
    known_.emplace(of_class, made);
    if (result_.classes.size() <= made) result_.classes.resize(made + 1, kNoValue);
    result_.classes[made] = of_class;
  }

  void add_leaf(ValueId of_class, ValueId made) {
    if (joint_.is_constant(made) && !leaves_.count(of_class)) {
      if (!joint_.is_known(of_class) && !is_one_number(joint_.graph().value(made).constant)) result_.unexplained = made;
      remember(of_class, result_.graph.add_constant(joint_.graph().value(made).constant));
      return;
    }
    const Value& value = joint_.graph().value(made);
    if (!value.shape_known || value.type.type == DataType::kUndefined)
      throw Error(ErrorCode::kUnsupported, "a value of unknown shape");
    remember(of_class, result_.graph.add_input("x" + std::to_string(result_.leaves.size()), value.type));
    result_.leaves.push_back(of_class);
  }

  void add_node(const Node& node) {
    if (result_.graph.nodes().size() >= most_) throw Error(ErrorCode::kUnsupported, "the equation has too many nodes");
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input == kNoValue ? input : known_.at(joint_.find(input)));
    const std::vector<ValueId> outputs = result_.graph.add_node(*node.op, node.attributes, std::move(inputs));
    for (std::size_t o = 0; o < node.outputs.size() && o < outputs.size(); ++o) {
      if (node.outputs[o] == kNoValue || outputs[o] == kNoValue) continue;
      if (!(result_.graph.value(outputs[o]).type == joint_.graph().value(node.outputs[o]).type))
        throw Error(ErrorCode::kUnsupported, "a type follows from more than the equation");
      if (!known_.count(joint_.find(node.outputs[o]))) remember(joint_.find(node.outputs[o]), outputs[o]);
    }
  }

  const Joint& joint_;
  std::size_t most_;
  std::set<ValueId> leaves_;
  std::unordered_map<ValueId, ValueId> known_;  // by class
  Statement result_;
};

constexpr std::int64_t kSmallNumber = 7;  // an axis, a stride, the size of a window

class RuleWriter {
 public:
  RuleWriter(const Graph& graph, SizesInRule sizes) : graph_(graph), sizes_(sizes) {
    // A rule about one type of reals is one about all of them.
    std::set<DataType> reals;
    for (ValueId id = 0; id < graph.value_count(); ++id)
      if (is_real(graph.value(id).type.type)) reals.insert(graph.value(id).type.type);
    for (const auto& node : graph.nodes())
      for (const AttributeValue& value : node->attributes)
        if (const auto* type = std::get_if<DataType>(&value); type && is_real(*type)) reals.insert(*type);
    const bool is_input = std::any_of(graph.inputs().begin(), graph.inputs().end(),
                                      [&](ValueId id) { return is_real(graph.value(id).type.type); });
    if (reals.size() == 1 && is_input) any_real_ = *reals.begin();
  }

  Rule run() {
    for (const ValueId id : graph_.inputs()) add_input(id, "x" + std::to_string(rule_.inputs.size()));
    rule_.name = "equation";
    rule_.description = "of two models";
    rule_.source = side(graph_.outputs()[0].value);
    rule_.target = side(graph_.outputs()[1].value);
    complete_source();
    rule_.source = canonical(rule_.source);
    rule_.target = canonical(rule_.target);
    check_rule(rule_);
    return std::move(rule_);
  }

 private:
  void add_input(ValueId id, const std::string& name) {
    PatternInput input;
    input.name = name;
    for (const Index& size : graph_.value(id).type.shape) input.shape.front.push_back(renamed(size));
    input.shape.open = false;
    const DataType type = graph_.value(id).type.type;
    input.type = {TypePattern::Kind::kFixed, type, ""};
    if (any_real_ != DataType::kUndefined && type == any_real_)
      input.type = {TypePattern::Kind::kReal, DataType::kUndefined, "T"};
    numbers_.emplace(id, static_cast<std::uint32_t>(rule_.inputs.size()));
    rule_.inputs.push_back(std::move(input));
  }

  // Names of sizes become names of variables.
  Index renamed(const Index& index) {
    if (const auto number = index.constant(); number && sizes_ == SizesInRule::kAny && *number > kSmallNumber)
      return numbers_as_names_.try_emplace(*number, Index::symbol("s" + std::to_string(numbers_as_names_.size())))
          .first->second;
    return substitute(index, [&](const Atom& a) -> std::optional<Index> {
      if (a.kind == Atom::Kind::kLoad) throw Error(ErrorCode::kUnsupported, "a size that is an element");
      if (a.kind != Atom::Kind::kSymbol) return std::nullopt;
      return names_.try_emplace(a.name, Index::symbol("n" + std::to_string(names_.size()))).first->second;
    });
  }

  Expression literal(AttributeValue value) {
    const auto* type = std::get_if<DataType>(&value);
    if (type && *type != DataType::kUndefined && *type == any_real_) return Expression::variable("T");
    if (auto* index = std::get_if<Index>(&value)) *index = renamed(*index);
    if (auto* list = std::get_if<Indices>(&value))
      for (Index& index : *list) index = renamed(index);
    return Expression::literal(std::move(value));
  }

  Pattern side(ValueId output) {
    Pattern pattern;
    std::unordered_map<ValueId, PatternValue> made;
    const std::vector<std::int32_t> producers = graph_.producers();
    std::set<std::int32_t> needed;
    std::vector<ValueId> open{output};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (producers[id] < 0 || !needed.insert(producers[id]).second) continue;
      for (const ValueId input : graph_.nodes()[static_cast<std::size_t>(producers[id])]->inputs)
        if (input != kNoValue) open.push_back(input);
    }
    const auto value = [&](ValueId id) {
      if (id == kNoValue) return PatternValue::absent();
      if (const auto known = made.find(id); known != made.end()) return known->second;
      return made.emplace(id, leaf(id, pattern)).first->second;
    };
    for (const std::int32_t position : needed) {
      const Node& node = *graph_.nodes()[static_cast<std::size_t>(position)];
      PatternNode added{node.op, {}, {}, static_cast<std::uint32_t>(node.outputs.size())};
      for (const AttributeValue& attribute : node.attributes) added.attributes.push_back(literal(attribute));
      for (const ValueId input : node.inputs) added.inputs.push_back(value(input));
      while (!added.inputs.empty() && added.inputs.back().kind == PatternValue::Kind::kAbsent) added.inputs.pop_back();
      const auto number = static_cast<std::uint32_t>(pattern.nodes.size());
      pattern.nodes.push_back(std::move(added));
      for (std::uint32_t o = 0; o < node.outputs.size(); ++o)
        if (node.outputs[o] != kNoValue) made.emplace(node.outputs[o], PatternValue::node(number, o));
    }
    pattern.outputs.push_back(value(output));
    return pattern;
  }

  // The source of a rule is an operator, and reads all inputs: what only the target reads is an output of both sides.
  void complete_source() {
    const auto identity = [&](const PatternValue& value) {
      const Operator& op = registry().get("Identity");
      PatternNode node{&op, {}, {value}, 1};
      Attributes defaults = op.defaults();
      for (AttributeValue& attribute : defaults) node.attributes.push_back(Expression::literal(std::move(attribute)));
      rule_.source.nodes.push_back(std::move(node));
      return PatternValue::node(static_cast<std::uint32_t>(rule_.source.nodes.size() - 1));
    };
    std::vector<bool> read(rule_.inputs.size());
    for (const PatternNode& node : rule_.source.nodes)
      for (const PatternValue& value : node.inputs)
        if (value.kind == PatternValue::Kind::kInput) read[value.number] = true;
    PatternValue& output = rule_.source.outputs[0];
    if (output.kind == PatternValue::Kind::kInput) {
      read[output.number] = true;
      output = identity(output);
    }
    for (std::uint32_t i = 0; i < rule_.inputs.size(); ++i) {
      if (read[i]) continue;
      rule_.target.outputs.push_back(PatternValue::input(i));
      rule_.source.outputs.push_back(identity(PatternValue::input(i)));
    }
  }

  // An input, or a constant: as a number if it is one, else any tensor.
  PatternValue leaf(ValueId id, Pattern& pattern) {
    if (const auto known = numbers_.find(id); known != numbers_.end()) return PatternValue::input(known->second);
    const Tensor& tensor = graph_.value(id).constant;
    if (is_one_number(tensor)) {
      const Operator& fill = registry().get("Fill");
      PatternNode node{&fill, {}, {}, 1};
      const auto place = [&](std::string_view field) { return fill.field(field).value(); };
      Attributes attributes = fill.defaults();
      attributes[place("value")] = Real(tensor.reals()[0]);
      attributes[place("shape")] = to_indices(tensor.sizes());  // renamed by literal()
      attributes[place("type")] = tensor.type();
      for (const AttributeValue& value : attributes) node.attributes.push_back(literal(value));
      pattern.nodes.push_back(std::move(node));
      return PatternValue::node(static_cast<std::uint32_t>(pattern.nodes.size() - 1));
    }
    add_input(id, "c" + std::to_string(rule_.inputs.size()));
    return PatternValue::input(numbers_.at(id));
  }

  const Graph& graph_;
  SizesInRule sizes_;
  std::map<std::int64_t, Index> numbers_as_names_;
  DataType any_real_ = DataType::kUndefined;  // the only type of reals, which may be any
  Rule rule_;
  std::unordered_map<ValueId, std::uint32_t> numbers_;
  std::map<std::string, Index> names_;
};

// Operands of a node that are constants; null for others.
using ConstantOperands = std::function<const Tensor*(std::size_t operand)>;

ConstantOperands constant_operands(const Graph& graph, const Node& node) {
  return [&graph, &node](std::size_t i) -> const Tensor* {
    if (i >= node.inputs.size() || node.inputs[i] == kNoValue || !graph.is_constant(node.inputs[i])) return nullptr;
    const Tensor& constant = graph.value(node.inputs[i]).constant;
    return constant && constant.type() != DataType::kString && fits_real(constant) ? &constant : nullptr;
  };
}

// Does the element read a constant, whatever type it makes of that, whose elements are all so?
bool reads_only(const Element& e, const ConstantOperands& constants, bool (*is_so)(double)) {
  const ElementNode* read = e.get();
  while (read->kind == ElementNode::Kind::kConvert && read->scalar == Scalar::kReal) read = read->arguments[0].get();
  if (read->kind != ElementNode::Kind::kRead || read->zero_outside) return false;
  const Tensor* constant = constants(static_cast<std::size_t>(read->operand));
  if (!constant) return false;
  const std::vector<double> elements = constant->reals();
  return std::all_of(elements.begin(), elements.end(), is_so);
}

void collect_reads(const Element& e, std::set<std::size_t>& operands, std::set<const ElementNode*>& seen) {
  if (!e || !seen.insert(e.get()).second) return;
  if (e->kind == ElementNode::Kind::kRead) operands.insert(static_cast<std::size_t>(e->operand));
  for (const Element& argument : e->arguments) collect_reads(argument, operands, seen);
}

// The conditions under which a node is undefined.
struct Partial {
  // The names of functions that are not defined everywhere, "/" for a division, and "integer /" for one of integers or a
  // remainder: the interpreter says 0 where the divisor is 0.
  std::set<std::string> found;
  std::set<std::size_t> operands;  // that this depends on

  void add(std::string name, std::span<const Element> arguments) {
    found.insert(std::move(name));
    std::set<const ElementNode*> seen;
    for (const Element& argument : arguments) collect_reads(argument, operands, seen);
  }
};

void collect_partial(const Element& e, const ConstantOperands& constants, Partial& partial,
                     std::set<const ElementNode*>& seen) {
  if (!e || !seen.insert(e.get()).second) return;
  if (divides(*e)) {
    const ElementNode& by = *e->arguments[1];
    const bool is_constant = by.kind == ElementNode::Kind::kConstant;
    const bool is_zero =
        is_constant && (by.scalar == Scalar::kReal ? by.real.symbol.empty() && by.real.value == 0 : by.integer == 0);
    const bool is_never_zero = reads_only(e->arguments[1], constants, [](double x) { return x != 0 && std::isfinite(x); });
    if (is_zero || (!is_constant && by.kind != ElementNode::Kind::kFromIndex && !is_never_zero))
      partial.add(e->scalar == Scalar::kReal ? "/" : "integer /", std::span(e->arguments).subspan(1, 1));
  }
  const bool is_product = e->kind == ElementNode::Kind::kApply && e->function == &functions::pow &&
                          reads_only(e->arguments[1], constants, [](double x) { return x >= 0 && x == std::floor(x); });
  if (e->kind == ElementNode::Kind::kApply && e->function->partial && !is_product)
    partial.add(std::string(e->function->name), e->arguments);
  for (const Element& argument : e->arguments) collect_partial(argument, constants, partial, seen);
}

Partial partial_of(const Graph& graph, const Node& node) {
  const Definition definition = node.op->define(node.attributes, Inputs::of(graph.operand_types(node)));
  std::set<const ElementNode*> seen;
  Partial partial;
  for (const Output& output : definition.outputs())
    collect_partial(output.element, constant_operands(graph, node), partial, seen);
  return partial;
}

// The inputs of a graph that values are computed from.
class InputsOf {
 public:
  explicit InputsOf(const Graph& graph) : graph_(graph), producers_(graph.producers()), seen_(graph.value_count(), false) {}

  void add(ValueId value) {
    std::vector<ValueId> open{value};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (id == kNoValue || seen_[id] || graph_.is_constant(id)) continue;
      seen_[id] = true;
      if (producers_[id] < 0) {
        inputs_.insert(id);
        continue;
      }
      const std::vector<ValueId>& read = graph_.nodes()[static_cast<std::size_t>(producers_[id])]->inputs;
      open.insert(open.end(), read.begin(), read.end());
    }
  }
  const std::set<ValueId>& all() const { return inputs_; }

 private:
  const Graph& graph_;
  const std::vector<std::int32_t> producers_;
  std::vector<bool> seen_;
  std::set<ValueId> inputs_;
};

// Does it read at a position that is an element? Whether that is within the tensor is only known in execution.
bool reads_at_elements(const Element& e, std::set<const ElementNode*>& seen) {
  if (!e || !seen.insert(e.get()).second) return false;
  bool found = false;
  for_each_index(*e, [&](const Index& index) {
    for_each_atom(index,
                  [&](const Atom& a) { found = found || a.kind == Atom::Kind::kPosition || a.kind == Atom::Kind::kLoad; });
  });
  return found || std::any_of(e->arguments.begin(), e->arguments.end(),
                              [&](const Element& argument) { return reads_at_elements(argument, seen); });
}

// Are the positions constants that are within the axis?
bool has_known_positions(const Graph& graph, const Node& node) {
  const auto field = node.op->field("axis");
  const Index* axis = field ? std::get_if<Index>(&node.attributes[*field]) : nullptr;
  if (!axis || !axis->is_constant() || node.inputs.size() != 2 || !graph.is_constant(node.inputs[1])) return false;
  const Indices& shape = graph.value(node.inputs[0]).type.shape;
  const std::int64_t at = axis->value() < 0 ? axis->value() + std::ssize(shape) : axis->value();
  if (at < 0 || at >= std::ssize(shape)) return false;
  const auto size = shape[static_cast<std::size_t>(at)].constant();
  const std::vector<std::int64_t> positions = graph.value(node.inputs[1]).constant.integers();
  return size && std::all_of(positions.begin(), positions.end(), [&](std::int64_t p) { return p >= -*size && p < *size; });
}

// Equal for nodes that read at the same positions of tensors of the same sizes.
std::string positions_of(const Graph& graph, const Node& node) {
  std::string text = "positions of " + node.op->name();
  for (const AttributeValue& value : node.attributes) text += " " + to_string(value);
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const TensorType& type = graph.value(id).type;
    text += " " + to_string(type) + (is_real(type.type) ? "" : "#" + std::to_string(id));
  }
  return text;
}

// A node reads on an axis of this size at positions that are elements of one of its operands: at all of them, or at some.
struct PositionsRead {
  std::size_t operand;
  Index size;
  bool all;
};

void collect_element_atoms(const Element& e, std::set<const Atom*>& positions, std::set<const Atom*>& loads,
                           std::set<const ElementNode*>& seen) {
  if (!e || !seen.insert(e.get()).second) return;
  for_each_index(*e, [&](const Index& index) {
    for_each_atom(index, [&](const Atom& a) {
      if (a.kind == Atom::Kind::kPosition) positions.insert(&a);
      if (a.kind == Atom::Kind::kLoad) loads.insert(&a);
    });
  });
  for (const Element& argument : e->arguments) collect_element_atoms(argument, positions, loads, seen);
}

// Are all elements of an operand read, each for some element of the output? Its axes are axes of the output.
bool reads_all(const ElementNode& read, const Output& output, const Indices& shape) {
  std::set<std::size_t> used;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (read.position[k] == Index(0) && shape[k] == Index(1)) continue;
    std::size_t axis = 0;
    while (axis < output.position.size() && !(output.position[axis] == read.position[k])) ++axis;
    if (axis == output.position.size() || !(output.type.shape[axis] == shape[k]) || !used.insert(axis).second) return false;
  }
  return true;
}

// Positions at which a node of one output reads and that are elements of its operands; nullopt if one is more than that.
std::optional<std::vector<PositionsRead>> positions_read(const Graph& graph, const Node& node, const Definition& definition) {
  if (definition.outputs().size() != 1) return std::nullopt;
  const Output& output = definition.outputs()[0];
  std::set<const Atom*> positions, loads;
  std::set<const ElementNode*> seen;
  collect_element_atoms(output.element, positions, loads, seen);
  std::vector<PositionsRead> result;
  for (const Atom* position : positions) {
    const Atom* load = position->arguments[0].as_atom();
    if (!load || load->kind != Atom::Kind::kLoad || loads.erase(load) == 0) return std::nullopt;
    const ElementNode& read = *load->element;
    if (read.kind != ElementNode::Kind::kRead || read.zero_outside) return std::nullopt;
    const auto operand = static_cast<std::size_t>(read.operand);
    const Indices& shape = graph.value(node.inputs.at(operand)).type.shape;
    result.push_back({operand, position->arguments[1], reads_all(read, output, shape)});
  }
  return loads.empty() ? std::optional(std::move(result)) : std::nullopt;
}

// The value whose elements those of this one are: followed through nodes that only move elements; with `all`, of all elements.
ValueId moved_from(const Graph& graph, const std::vector<std::int32_t>& producers, ValueId id, bool all) {
  for (;;) {
    if (producers[id] < 0) return id;
    const Node& node = *graph.nodes()[static_cast<std::size_t>(producers[id])];
    const Definition definition = node.op->define(node.attributes, Inputs::of(graph.operand_types(node)));
    if (definition.outputs().size() != 1) return id;
    const Output& output = definition.outputs()[0];
    const ElementNode* e = output.element.get();
    const auto is_integer_of_integer = [](const ElementNode& c) {
      return c.kind == ElementNode::Kind::kConvert && c.scalar == Scalar::kInteger &&
             c.arguments[0]->scalar == Scalar::kInteger;
    };
    while (e && is_integer_of_integer(*e)) e = e->arguments[0].get();
    if (!e || e->kind != ElementNode::Kind::kRead || e->zero_outside) return id;
    const ValueId from = node.inputs.at(static_cast<std::size_t>(e->operand));
    if (all && node.op->name() != "Reshape" && !reads_all(*e, output, graph.value(from).type.shape)) return id;
    id = from;
  }
}

bool is_finite(const Tensor& tensor) {
  if (!is_real(tensor.type())) return true;
  const std::vector<double> elements = tensor.reals();
  return std::all_of(elements.begin(), elements.end(), [](double e) { return std::isfinite(e); });
}

}  // namespace

bool is_one_number(const Tensor& tensor) {
  const std::size_t size = byte_size(tensor.type());
  const std::span<const std::byte> bytes = tensor.bytes();
  if (tensor.type() == DataType::kString || size == 0 || bytes.size() < size || !fits_real(tensor)) return false;
  return std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(), bytes.begin()) &&
         std::isfinite(Tensor(tensor.type(), {}, nullptr, bytes.data()).reals()[0]);
}

bool leads_from_first(const Joint& joint, const Equation& equation) {
  const auto [a, b] = std::pair(equation.a, equation.b);
  // A class of the second model's values that has a term is defined by that: a second one would not be looked at.
  return joint.is_known(a) ||
         (!joint.is_of_first(a) && !joint.is_of_second(a) && !joint.is_known(b) && joint.is_of_second(joint.defined_by(b)));
}

Statement statement_of(const Joint& joint, const Equation& equation, std::size_t most) {
  return StatementBuilder(joint, equation, most).run(equation);
}

void keep_numbers(Joint& joint, const Statement& statement) {
  for (ValueId id = 0; id < statement.graph.value_count(); ++id) {
    const ValueId of_class = id < statement.classes.size() ? statement.classes[id] : kNoValue;
    if (of_class != kNoValue && statement.graph.is_constant(id) && joint.is_constant(joint.defined_by(of_class)))
      joint.keep(joint.defined_by(of_class));
  }
}

Rule rule_of(const Statement& statement, SizesInRule sizes) { return RuleWriter(statement.graph, sizes).run(); }

bool may_read_outside(const Statement& statement) {
  const Graph& graph = statement.graph;
  const std::vector<std::int32_t> producers = graph.producers();
  std::set<std::string> known;                                            // of `a`, whose nodes stand first
  std::set<std::pair<ValueId, std::string>, std::less<>> known_elements;  // all are positions on an axis of this size
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    const Definition definition = node.op->define(node.attributes, Inputs::of(graph.operand_types(node)));
    std::set<const ElementNode*> seen;
    const bool at_elements = std::any_of(definition.outputs().begin(), definition.outputs().end(),
                                         [&](const Output& output) { return reads_at_elements(output.element, seen); });
    if (!at_elements || has_known_positions(graph, node)) continue;
    const std::string positions = positions_of(graph, node);
    const auto read = positions_read(graph, node, definition);
    if (n < statement.nodes_of_a) {
      known.insert(positions);
      for (const PositionsRead& p : read.value_or(std::vector<PositionsRead>()))
        if (p.all) known_elements.emplace(moved_from(graph, producers, node.inputs[p.operand], true), p.size.to_string());
      continue;
    }
    const bool are_known =
        read && std::all_of(read->begin(), read->end(), [&](const PositionsRead& p) {
          return known_elements.count({moved_from(graph, producers, node.inputs[p.operand], false), p.size.to_string()}) > 0;
        });
    if (!are_known && !known.count(positions)) return true;
  }
  return false;
}

bool is_partial(const Graph& graph, const Node& node) { return !partial_of(graph, node).found.empty(); }

bool may_be_less_defined(const Statement& statement) {
  const Graph& graph = statement.graph;
  std::set<std::string> a, b;
  InputsOf of_a(graph), of_b(graph);
  const std::vector<bool> constant = graph.constant_values();
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    const Partial partial = partial_of(graph, node);
    // A node on constants is evaluated: it is defined where the result is finite.
    const auto is_finite_constant = [&](ValueId id) {
      return id == kNoValue || (constant[id] && is_finite(evaluate_constant(graph, id)));
    };
    const bool defined = partial.found.empty() || (!partial.found.contains("integer /") &&
                                                   std::all_of(node.outputs.begin(), node.outputs.end(), is_finite_constant));
    const bool is_of_a = n < statement.nodes_of_a;
    if (defined && !is_of_a) continue;
    (is_of_a ? a : b).insert(partial.found.begin(), partial.found.end());
    for (const std::size_t operand : partial.operands)
      if (operand < node.inputs.size()) (is_of_a ? of_a : of_b).add(node.inputs[operand]);
  }
  // Nothing that `a` divides by depends on such an input of `b`: where that is 0, `a` has a value.
  const bool depends_on_more = !std::includes(of_a.all().begin(), of_a.all().end(), of_b.all().begin(), of_b.all().end());
  return !std::includes(a.begin(), a.end(), b.begin(), b.end()) || depends_on_more || may_read_outside(statement);
}

}  // namespace rewright::equivalence
