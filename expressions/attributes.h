// Attributes of operators: typed values behind the fields of each operator's struct.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright {

// Sizes, axes, strides and counts are index expressions (so that they may be symbolic in rules); eps, alpha and the like are
// Real; modes are text. Truth values are bool. A Tensor is used by constants only.
using AttributeValue = std::variant<bool, Index, Indices, Real, std::vector<double>, std::string, DataType, Tensor>;

std::uint64_t hash(const AttributeValue& value);
std::string to_string(const AttributeValue& value);

// The attributes of one node, in the order of the operator's fields.
using Attributes = std::vector<AttributeValue>;

std::uint64_t hash(const Attributes& attributes);

}  // namespace rewright
