// Normal forms that are integers, and normal forms between two numbers.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "operators/operator.h"
#include "verifier/terms.h"

namespace rewright::proof {

// A number that a normal form names by its bits, since no fraction of 64-bit integers is it.
std::optional<double> number_of_bits(const Factor& factor);

// Is a set of elements never empty, whatever the sizes are?
using NeverEmpty = std::function<bool(const std::vector<MaximumElement>&)>;

bool rounds_to_integer(const Function* law);  // floor, ceil, round_even

// Is the value an integer for all inputs? `inputs` are the types of a side's inputs.
bool is_integral(const Factor& factor, const std::vector<TensorType>& inputs);
bool is_integral(const Sum& sum, const std::vector<TensorType>& inputs, const NeverEmpty& is_never_empty);

// Removes numbers that another element is never below, and elements that are never above a number. `may_wrap`: integers of 8
// bits were added or multiplied as such, so that the range of their type says nothing of a sum.
void drop_undecisive(std::vector<MaximumElement>& elements, const std::vector<TensorType>& inputs, bool may_wrap,
                     const NeverEmpty& is_never_empty);

// Terms with equal factors become one, and numbers are taken out of maxima: max(x - 5, -128) is max(x + 123, 0) - 128. One form
// for what a zero point moved.
Sum with_moved_numbers(const Sum& sum);

}  // namespace rewright::proof
