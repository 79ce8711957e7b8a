#include <functional>
#include <random>

#include "operators/readings/operation_count.h"
#include "optimizer/costs/parts.h"

namespace rewright::optimizer {

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

// Is it a sum over products that read two different operands?
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

Index flat(const Indices& position, const Indices& shape) {
  Index index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) index = index * shape[axis] + position[axis];
  return index;
}

// Does every element keep its place in memory? Sizes are known; positions are sampled, since this only affects a cost.
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

// Is each axis of a read's position a variable, a multiple of one, or a number?
bool along_axes(const Indices& position) {
  return std::all_of(position.begin(), position.end(), [](const Index& index) {
    int variables = 0;
    bool others = false;
    for_each_atom(index, [&](const Atom& atom) { atom.kind == Atom::Kind::kBound ? ++variables : others = true; });
    return variables <= 1 && !others;
  });
}

bool moves_elements(const Definition& definition) {
  return std::all_of(definition.outputs().begin(), definition.outputs().end(), [](const Output& output) {
    return output.element && output.element->kind == ElementNode::Kind::kRead && !output.element->zero_outside &&
           along_axes(output.element->position);
  });
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
    if (output.element) traits.operations += operation_count(output);
  }
  if (!definition.has_denotation()) return traits;
  traits.moves = moves_elements(definition);
  if (definition.outputs().size() != 1) return traits;

  const Output& output = definition.outputs()[0];
  traits.pointwise = true;
  std::vector<bool> elsewhere(operands.size(), false);
  traits.axes.assign(operands.size(), true);
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
    if (!along_axes(node.position)) traits.axes[operand] = false;
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

}  // namespace rewright::optimizer
