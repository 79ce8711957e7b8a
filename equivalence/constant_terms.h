// Terms that a constant of the second model may be a rounding of, by looking at its elements: constants of the first model,
// transposed, reshaped, padded, or joined; the same of what rules make of constants; and numbers that operators' definitions
// contain.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "equivalence/checker/proof.h"
#include "equivalence/term_elements.h"

namespace rewright::equivalence {

// Steps that explain constants of the second model that are roundings of values that the first one computes from constants, or
// of its constants, as found until the time is over.
std::vector<Step> computed_constants(const Joint& joint, double tolerance, const std::function<bool()>& ended);

// Steps that explain constants of the second model by elements of constants of the first one.
std::vector<Step> moved_constants(const Joint& joint, double tolerance);

// Terms over constants that rules suggest (folded weights, sums of biases), of which other constants may be made.
class Parts {
 public:
  // `add_value` adds a kValue to the table of the proof, and returns its value.
  Parts(const Joint& joint, std::function<ValueId(const Step&)> add_value);

  // Each term once, and only so many.
  void add(const Step& value);
  // A step that explains the constant by a part, or by parts and constants of the first model that are joined. Values of parts
  // that it reads were added.
  std::optional<Step> explain(ValueId constant, double tolerance);

 private:
  struct Part {
    Step step;
    std::unique_ptr<TermElements> elements;
    ValueId value = kNoValue;  // in the table, once it was needed
  };
  // A part, or a constant of the first model.
  struct Found {
    Part* part;
    ValueId constant;
    Sizes sizes;
  };
  bool stands_at(const Found& piece, const Tensor& tensor, std::size_t axis, std::int64_t row, double largest) const;
  std::optional<Step> whole(ValueId constant, double largest, double tolerance);
  std::optional<Step> padded(ValueId constant, double largest, double tolerance);
  std::optional<Step> joined(ValueId constant, std::size_t axis, double largest, double tolerance);
  ValueId value_of(const Found& piece);
  std::vector<Found> pieces_of(const Tensor& tensor, std::size_t axis);

  const Joint& joint_;
  const std::function<ValueId(const Step&)> add_value_;
  std::deque<Part> parts_;       // in the order in which they came
  std::set<std::string> texts_;  // what they say
};

// Steps that explain constants of the statement that are one number by numbers in the definitions of its operators: a float
// 1.4142135 is the square root of 2 that a Gelu means. Or by products and quotients of two numbers that the first model has in
// it.
std::vector<Step> known_numbers(const Joint& joint, const Statement& statement, double tolerance);

// Steps that explain scales of quantized biases in the first model: a bias has the scale of the products that it is added to,
// which ONNX says is the input's scale times the weight's, and files have the float nearest to that.
std::vector<Step> scales_of_biases(const Joint& joint, const Statement& statement, double tolerance);

}  // namespace rewright::equivalence
