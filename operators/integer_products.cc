#include "operators/integer_products.h"

#include <vector>

namespace rewright::operators {

ValueId integer_product(GraphBuilder& b, ValueId a, ValueId c, ValueId a_zero, ValueId c_zero) {
  std::vector<ValueId> inputs{a, c};
  const auto zero_or_given = [&](ValueId zero, ValueId of) {
    return zero != kNoGradient ? zero : b.scalar(b.type_of(of).type, 0);
  };
  if (a_zero != kNoGradient || c_zero != kNoGradient) {
    inputs.push_back(zero_or_given(a_zero, a));
    inputs.push_back(zero_or_given(c_zero, c));
  }
  return b.add("MatMulInteger", inputs);
}

ValueId scaled_integer_product(GraphBuilder& b, ValueId a, ValueId c, ValueId a_scale, ValueId c_scale, ValueId a_zero,
                               ValueId c_zero) {
  const ValueId sum = integer_product(b, a, c, a_zero, c_zero);
  return b.add("Mul", {b.cast(sum, b.type_of(a_scale).type), b.add("Mul", {a_scale, c_scale})});
}

ValueId dynamic_integer_product(GraphBuilder& b, ValueId a, ValueId c, ValueId c_scale, ValueId c_zero) {
  const Operator& op = registry().get("DynamicQuantizeLinear");
  const std::vector<ValueId> q = b.node(op, op.defaults(), {a});
  return scaled_integer_product(b, q.at(0), c, q.at(1), c_scale, q.at(2), c_zero);
}

}  // namespace rewright::operators
