// Strings as elements. To move, choose or compare an element one need not know what it is, so a denotation reads a string as an
// integer: a number that stands for it, where equal numbers are equal strings and 0 is the empty one. A definition that does
// nothing else with strings has a meaning on them, and the readers of denotations need not know of strings at all.
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

bool has_texts(const Operator& op, const Attributes& attributes, std::span<const std::optional<TensorType>> operands);

// Throws Error(kUnsupported) if the operator reads or makes strings and does something else with them than to move, choose and
// compare them for equality.
void require_meaning_on_texts(const Operator& op, const Attributes& attributes,
                              std::span<const std::optional<TensorType>> operands);
void require_meaning_on_texts(std::string_view op, const Definition& definition,
                              std::span<const std::optional<TensorType>> operands);
// Throws Error(kUnsupported) if the operand's elements are strings.
void refuse_texts(const Operand& operand);

// The numbers of strings in one evaluation.
class TextNumbers {
 public:
  // Equal strings get equal numbers only if they are going to be compared: finding them takes longer than moving them.
  explicit TextNumbers(bool compared) : compared_(compared) {}
  // Of a tensor's elements, which must live as long as this.
  std::vector<std::int64_t> number(const Tensor& tensor);
  Tensor texts(Sizes sizes, std::span<const std::int64_t> numbers) const;

 private:
  bool compared_;
  const std::string empty_;
  std::vector<const std::string*> texts_{&empty_};
  std::unordered_map<std::string_view, std::int64_t> known_{{std::string_view(), 0}};
};
bool compares(const Definition& definition);  // does it apply functions to elements?

// Short strings for trying something out: words, numbers in digits, letters beyond ASCII, the empty string; each stands more
// than once among many.
Tensor random_texts(Sizes sizes, std::uint64_t seed);
// Numbers in digits alone, as a Cast reads them.
Tensor random_numerals(Sizes sizes, std::uint64_t seed);

}  // namespace rewright::operators
