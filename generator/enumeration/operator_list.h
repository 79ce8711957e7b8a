// Parses the text of `--operators`: "taso", or "conv2d(kernel=1|3,activation=none|relu),Add".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operators/operator.h"

namespace rewright::generator {

// A named list of operators.
struct OperatorSet {
  std::string_view name, operators;
};
std::span<const OperatorSet> operator_sets();

// One operator, with the alternatives of each argument: conv2d(kernel=1|3) has {"kernel", {"1", "3"}}.
struct ListedOperator {
  std::string name;
  std::map<std::string, std::vector<std::string>> arguments;
};

// All of the following throw Error(kUsage) for malformed text and unknown names.

// Replaces sets by their operators.
std::vector<ListedOperator> parse_operator_list(std::string_view text);

// Values of arguments. `where` is for messages: "stride of conv2d".
std::int64_t parse_integer(const std::string& text, const std::string& where);
std::vector<std::string> parse_list(std::string text);                      // "[M,2]", or one item
Indices parse_integers(const std::string& text, const std::string& where);  // "[0,2]", or one number
// A value of the same type as `like`.
AttributeValue parse_attribute(const AttributeValue& like, const std::string& text, const std::string& where);

[[noreturn]] void wrong_operators(const std::string& what);

const Operator& operator_named(const std::string& name);
// The operator's defaults, with these fields set.
Attributes attributes_of(const Operator& op, const std::vector<std::pair<std::string, AttributeValue>>& values);

}  // namespace rewright::generator
