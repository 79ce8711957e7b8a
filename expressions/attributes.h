// Attributes of operators: the values of the fields of an operator's struct (operators/operator.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright {

// Sizes, axes, strides and counts are Index or Indices, since they may be symbolic; eps, alpha and the like are Real; modes are
// texts; flags are bool. Only constants use Tensor.
using AttributeValue = std::variant<bool, Index, Indices, Real, std::vector<double>, std::string, DataType, Tensor>;

std::uint64_t hash(const AttributeValue& value);
std::string to_string(const AttributeValue& value);

// The attributes of one node, in the order of the operator's fields.
using Attributes = std::vector<AttributeValue>;

std::uint64_t hash(const Attributes& attributes);

}  // namespace rewright
