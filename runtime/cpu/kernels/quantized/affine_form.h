// Elementwise expressions as clamped affine functions: this recognizes quantization, dequantization and the operators between
// them in denotations.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

// min(high, max(low, sum of factor * operand + constant)). Factors and the constant are single numbers, or one for each
// position along an axis of the result.
struct AffineForm {
  struct Term {
    int operand;
    std::vector<double> factor;
  };
  std::vector<Term> terms;
  std::vector<double> constant{0.0};
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  bool bounded() const;
  const Term* term(int operand) const;  // null: none
};

// An expression that reads constants and `variables` at the result's position. Roundings to float are ignored.
struct AffineQuestion {
  const Planner& planner;
  const Element& element;
  const Indices& position;
  const Sizes& sizes;  // of the result
  const std::vector<ValueId>& operands;
  std::size_t axis;  // the axis that numbers may vary along
  std::function<bool(int)> is_variable;
};
std::optional<AffineForm> affine_form(const AffineQuestion& question);

// convert(clamp(round(inner) + zero_point)): quantization. low and high bound the result.
struct RoundedForm {
  Element inner;
  std::int64_t zero_point = 0, low = 0, high = 0;
};
std::optional<RoundedForm> rounded_form(const Element& element);

// A value (x - zero_point) * scale for 8-bit integers x.
struct Dequantized {
  ValueId source;
  std::vector<double> scale;     // one, or one for each position along the axis
  std::vector<int> zero_points;  // the same
};
// `axis`: of the value, along which scales and zero points may vary.
std::optional<Dequantized> match_dequantized(const Planner& planner, const Node& node, std::size_t axis);

}  // namespace rewright::cpu
