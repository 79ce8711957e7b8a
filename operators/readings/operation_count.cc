#include "operators/readings/operation_count.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "expressions/free_variables.h"

namespace rewright::operators {

namespace {

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
    if (element->kind == ElementNode::Kind::kReduce) result.variables.insert(variable->id);
    for_each_index(*element, [&](const Index& index) { add(index, result); });
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
        if (!nested) result.operations += times(result.variables);  // the innermost loop of a nest accumulates
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

  std::unordered_map<std::uint64_t, double> extents_;               // by a variable's atom
  std::unordered_map<const ElementNode*, Variables> variables_of_;  // of what has been counted
  double total_ = 0;
};

}  // namespace

double operation_count(const Output& output) { return Operations(output).total(); }

}  // namespace rewright::operators
