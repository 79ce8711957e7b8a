#include <functional>
#include <random>
#include <set>
#include <unordered_map>

#include "optimizer/cost.h"

namespace rewright {

namespace {

void for_each(const Element& element, const std::function<void(const ElementNode&)>& visit) {
  visit(*element);
  for (const Element& argument : element->arguments) for_each(argument, visit);
}

double count_of(const Indices& shape) {
  double count = 1;
  for (const Index& size : shape) count *= static_cast<double>(size.constant().value_or(1));
  return count;
}

double bytes_of(const TensorType& type) { return count_of(type.shape) * static_cast<double>(byte_size(type.type)); }

// A sum over products in which two different operands are read.
bool is_contraction(const Element& element) {
  bool found = false;
  for_each(element, [&](const ElementNode& node) {
    if (found || node.kind != ElementNode::Kind::kReduce || node.reduction != Reduction::kSum) return;
    int first = -1;
    for_each(node.arguments[0], [&](const ElementNode& inner) {
      if (inner.kind != ElementNode::Kind::kRead) return;
      if (first < 0) first = inner.operand;
      if (inner.operand != first) found = true;
    });
  });
  return found;
}

// Operations for all elements of an output, each counted once for every value of the variables that it depends on: what is
// the same for a whole row, like its mean, is computed once a row.
class Operations {
 public:
  explicit Operations(const Output& output) {
    for (std::size_t axis = 0; axis < output.position.size(); ++axis)
      if (const Atom* variable = output.position[axis].as_atom())
        extents_[variable->id] = static_cast<double>(output.type.shape[axis].constant().value_or(1));
    total_ = count(output.element).operations;
  }
  double total() const { return total_; }

 private:
  using Variables = std::set<std::uint64_t>;
  struct Count {
    double operations = 0;
    Variables variables;
  };

  void add(const Index& index, Count& to) {
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kBound) to.variables.insert(atom.id);
      if (atom.kind == Atom::Kind::kLoad) add(count(atom.element), to);
    });
  }
  static void add(const Count& from, Count& to) {
    to.operations += from.operations;
    to.variables.insert(from.variables.begin(), from.variables.end());
  }
  double times(const Variables& variables) const {
    double product = 1;
    for (const std::uint64_t id : variables)
      if (const auto extent = extents_.find(id); extent != extents_.end()) product *= extent->second;
    return product;
  }

  Count count(const Element& element) {
    if (const auto known = variables_of_.find(element.get()); known != variables_of_.end()) return {0, known->second};
    const Atom* const variable = element->index.as_atom();
    if (element->kind == ElementNode::Kind::kReduce)
      extents_[variable->id] = static_cast<double>(element->bound.constant().value_or(1));
    Count result;
    for (const Index& index : element->position) add(index, result);
    add(element->index, result);
    for (const Condition& condition : element->conditions) {
      add(condition.left, result);
      add(condition.right, result);
    }
    double most = 0;
    for (const Element& argument : element->arguments) {
      const Count part = count(argument);
      most = std::max(most, part.operations);
      add(part, result);
    }
    switch (element->kind) {
      case ElementNode::Kind::kReduce: {
        const Element& body = element->arguments[0];
        const bool nested = body->kind == ElementNode::Kind::kReduce && body->reduction == element->reduction;
        if (!nested) result.operations += times(result.variables);  // a nest of loops accumulates in its innermost one
        result.variables.erase(variable->id);
        break;
      }
      case ElementNode::Kind::kChoose:
        result.operations = most;
        break;
      case ElementNode::Kind::kAdd:
      case ElementNode::Kind::kMultiply:
      case ElementNode::Kind::kDivide:
      case ElementNode::Kind::kMaximum:
      case ElementNode::Kind::kMinimum:
      case ElementNode::Kind::kSelect:
        result.operations += times(result.variables);
        break;
      case ElementNode::Kind::kApply:
        result.operations += element->function->flops * times(result.variables);
        break;
      default:
        break;
    }
    variables_of_.emplace(element.get(), result.variables);
    return result;
  }

  std::unordered_map<std::uint64_t, double> extents_;               // of variables, by their atoms
  std::unordered_map<const ElementNode*, Variables> variables_of_;  // of what has been counted
  double total_ = 0;
};

Index flat(const Indices& position, const Indices& shape) {
  Index index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) index = index * shape[axis] + position[axis];
  return index;
}

// Is every element found at the same place of memory as before? Sizes are known; positions are sampled, since this decides a
// cost and nothing else.
bool keeps_places(const Output& output, const TensorType& operand) {
  if (output.element->kind != ElementNode::Kind::kRead || output.element->zero_outside) return false;
  if (!all_constant(output.type.shape) || !all_constant(operand.shape) || output.type.type != operand.type) return false;
  if (count_of(output.type.shape) != count_of(operand.shape)) return false;
  const Index from = flat(output.element->position, operand.shape);
  std::mt19937_64 random(1);
  for (int sample = 0; sample < 24; ++sample) {
    Indices position;
    for (const Index& size : output.type.shape) {
      const std::int64_t n = size.value();
      if (n == 0) return true;
      position.push_back(sample == 0 ? n - 1 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)));
    }
    const Substitution values = [&](const Atom& atom) -> std::optional<Index> {
      for (std::size_t axis = 0; axis < output.position.size(); ++axis) {
        const Atom* variable = output.position[axis].as_atom();
        if (variable && compare(*variable, atom) == 0) return position[axis];
      }
      return std::nullopt;
    };
    if (substitute(from, values) != flat(position, output.type.shape)) return false;
  }
  return true;
}

}  // namespace

OperatorTraits operator_traits(const Operator& op, const Attributes& attributes,
                               std::span<const std::optional<TensorType>> operands) {
  OperatorTraits traits;
  traits.aligned.assign(operands.size(), false);
  traits.reduced.assign(operands.size(), false);
  for (const std::optional<TensorType>& operand : operands)
    if (operand) traits.bytes += bytes_of(*operand);
  const Definition definition = op.define(attributes, Inputs::of(operands));
  for (const Output& output : definition.outputs()) {
    traits.output_elements += count_of(output.type.shape);
    traits.bytes += bytes_of(output.type);
    traits.output_bytes += bytes_of(output.type);
    if (output.element) traits.operations += Operations(output).total();
  }
  if (definition.outputs().size() != 1 || !definition.has_denotation()) return traits;

  const Output& output = definition.outputs()[0];
  traits.pointwise = true;
  std::vector<bool> elsewhere(operands.size(), false);
  for_each(output.element, [&](const ElementNode& node) {
    if (node.kind == ElementNode::Kind::kReduce) {
      traits.pointwise = false;
      for_each(node.arguments[0], [&](const ElementNode& inner) {
        if (inner.kind == ElementNode::Kind::kRead) traits.reduced[static_cast<std::size_t>(inner.operand)] = true;
      });
    }
    if (node.kind != ElementNode::Kind::kRead) return;
    const auto operand = static_cast<std::size_t>(node.operand);
    traits.aligned[operand] = true;
    if (node.position != output.position) elsewhere[operand] = true;
  });
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (elsewhere[i] || !operands[i] || operands[i]->shape != output.type.shape) traits.aligned[i] = false;
  traits.contraction = is_contraction(output.element);
  for_each(output.element, [&](const ElementNode& node) {
    if (!traits.pointwise || node.kind != ElementNode::Kind::kApply) return;
    for (const Element& argument : node.arguments)
      for_each(argument, [&](const ElementNode& inner) {
        if (inner.kind == ElementNode::Kind::kRead && traits.aligned[static_cast<std::size_t>(inner.operand)])
          traits.applies = true;
      });
  });
  if (output.element->kind == ElementNode::Kind::kRead) {
    const std::optional<TensorType>& operand = operands[static_cast<std::size_t>(output.element->operand)];
    traits.free = operand && keeps_places(output, *operand);
  }
  return traits;
}

}  // namespace rewright
