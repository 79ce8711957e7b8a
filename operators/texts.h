// Strings as elements. A denotation reads a string as an integer that stands for it: equal numbers are equal strings, 0 is the
// empty one. That suffices to move, choose and compare elements for equality. A definition that does nothing else with strings
// has a meaning on them, and the readers of denotations need not know of strings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "operators/operator.h"

namespace rewright::operators {

// Is an operand or a type in the attributes a string?
bool has_texts(const Operator& op, const Attributes& attributes, std::span<const std::optional<TensorType>> operands);

// Throws Error(kUnsupported) if the operator does anything with strings but move, choose and compare them for equality.
void require_meaning_on_texts(const Operator& op, const Attributes& attributes,
                              std::span<const std::optional<TensorType>> operands);
void require_meaning_on_texts(std::string_view op, const Definition& definition,
                              std::span<const std::optional<TensorType>> operands);
// Throws Error(kUnsupported) if the operand's elements are strings.
void refuse_texts(const Operand& operand);

// Numbers the strings of one evaluation.
class TextNumbers {
 public:
  // `compared`: give equal strings equal numbers. Without it each string gets its own, which is faster.
  explicit TextNumbers(bool compared) : compared_(compared) {}
  // The numbers of a tensor's elements; the tensor must outlive this object.
  std::vector<std::int64_t> number(const Tensor& tensor);
  Tensor texts(Sizes sizes, std::span<const std::int64_t> numbers) const;

 private:
  bool compared_;
  const std::string empty_;
  std::vector<const std::string*> texts_{&empty_};
  std::unordered_map<std::string_view, std::int64_t> known_{{std::string_view(), 0}};
};
bool compares(const Definition& definition);  // does it apply functions to elements, so that strings may be compared?

// Short strings for tests and random inputs: words, decimal numbers, letters beyond ASCII, the empty string. Among many, each
// occurs more than once.
Tensor random_texts(Sizes sizes, std::uint64_t seed);
// Decimal numbers only, as a Cast reads them.
Tensor random_numerals(Sizes sizes, std::uint64_t seed);

}  // namespace rewright::operators
