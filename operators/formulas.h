// Arithmetic on tensors of one real type: short names for adding its nodes to a graph.
#pragma once

#include "operators/gradient.h"

namespace rewright::operators {

//   Formulas f(graph, DataType::kFloat);
//   const ValueId y = f.scaled(f.difference(x, mean), 0.5);   // (x - mean) * 0.5
class Formulas {
 public:
  Formulas(GraphBuilder& graph, DataType type) : b(graph), type_(type) {}
  DataType type() const { return type_; }
  ValueId number(double v) { return b.scalar(type_, v); }
  ValueId numbers(Sizes sizes, std::span<const double> values) {
    return b.constant(Tensor::from_reals(type_, std::move(sizes), values));
  }
  ValueId sum(ValueId x, ValueId y) { return b.add("Add", {x, y}); }
  ValueId plus(ValueId x, double y) { return y == 0 ? x : sum(x, number(y)); }
  ValueId difference(ValueId x, ValueId y) { return b.add("Sub", {x, y}); }
  ValueId times(ValueId x, ValueId y) { return b.add("Mul", {x, y}); }
  ValueId scaled(ValueId x, double y) { return y == 1 ? x : times(x, number(y)); }
  ValueId quotient(ValueId x, ValueId y) { return b.add("Div", {x, y}); }
  ValueId floor(ValueId x) { return b.add("Floor", {x}); }
  ValueId at_least(ValueId x, double low) { return b.add("Max", {x, number(low)}); }
  ValueId clamped(ValueId x, double low, double high) { return b.add("Clip", {x, number(low), number(high)}); }
  ValueId where(ValueId condition, ValueId x, ValueId y) { return b.add("Where", {condition, x, y}); }
  ValueId less(ValueId x, ValueId y) { return b.add("Less", {x, y}); }
  ValueId inside(ValueId x, double low, double high) {
    return b.add("And", {b.add("LessOrEqual", {number(low), x}), b.add("LessOrEqual", {x, number(high)})});
  }
  GraphBuilder& b;

 private:
  DataType type_;
};

}  // namespace rewright::operators
