#include "optimizer/inputs/missing_numbers.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "base/error.h"
#include "expressions/element.h"

namespace rewright::optimizer {

namespace {

using Kind = ElementNode::Kind;

// From the last node to the first.
class MissingFinder {
 public:
  explicit MissingFinder(const Graph& graph) : graph_(graph), tested_(graph.value_count()) {}

  std::vector<bool> run() {
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) {
      node_ = graph_.nodes()[n].get();
      if (node_->op != nullptr) read(graph_.operand_types(*node_));
    }
    return std::move(tested_);
  }

 private:
  void read(const std::vector<std::optional<TensorType>>& operands) {
    try {
      const Definition definition = node_->op->define(node_->attributes, Inputs::of(operands));
      if (!definition.has_denotation()) return;
      for (std::size_t o = 0; o < definition.outputs().size() && o < node_->outputs.size(); ++o) {
        const Element& element = definition.outputs()[o].element;
        look_for_test(element);
        if (node_->outputs[o] != kNoValue && tested_[node_->outputs[o]]) mark(element);
      }
    } catch (const Error&) {  // ill-typed: it says nothing
    }
  }

  // An operator that asks for more (the positions of a pool's maxima) fills nothing.
  void look_for_test(const Element& element) {
    if (element->kind == Kind::kConvert) return look_for_test(element->arguments[0]);
    if (element->kind == Kind::kApply && element->function == &functions::is_nan) mark(element->arguments[0]);
  }

  void mark(const Element& element) {
    const ElementNode& e = *element;
    if (e.kind == Kind::kRead) {
      const ValueId id = node_->inputs[static_cast<std::size_t>(e.operand)];
      if (id != kNoValue) tested_[id] = true;
    } else if (e.kind == Kind::kConvert) {
      mark(e.arguments[0]);
    } else if (e.kind == Kind::kChoose || e.kind == Kind::kSelect) {
      mark(e.arguments[e.arguments.size() - 2]);
      mark(e.arguments.back());
    }
  }

  const Graph& graph_;
  std::vector<bool> tested_;
  const Node* node_ = nullptr;
};

}  // namespace

std::vector<bool> tested_for_missing(const Graph& graph) { return MissingFinder(graph).run(); }

}  // namespace rewright::optimizer
