#include "operators/texts.h"

#include <algorithm>
#include <array>
#include <random>

namespace rewright::operators {

namespace {

using Kind = ElementNode::Kind;

bool is_text(const std::optional<TensorType>& type) { return type && type->type == DataType::kString; }

// Follows a denotation from where it reads strings, and checks that it only does what numbers in place of strings allow.
class TextFollower {
 public:
  explicit TextFollower(std::span<const std::optional<TensorType>> operands) : operands_(operands) {}

  bool is_text_element(const Element& e) const {
    switch (e->kind) {
      case Kind::kRead:
        return reads_text(*e) && are_numbers(e->position);
      case Kind::kConstant:  // padding is an empty string
        return e->scalar == Scalar::kInteger && e->integer == 0;
      case Kind::kChoose:
        return are_numbers(e->conditions) && is_text_element(e->arguments[0]) && is_text_element(e->arguments[1]);
      case Kind::kSelect:
        return is_number(e->arguments[0]) && is_text_element(e->arguments[1]) && is_text_element(e->arguments[2]);
      default:
        return false;
    }
  }

  bool is_number(const Element& e) const {
    if (e->kind == Kind::kRead) return !reads_text(*e) && are_numbers(e->position);
    if (e->kind == Kind::kApply && e->function == &functions::equal &&
        std::all_of(e->arguments.begin(), e->arguments.end(), [&](const Element& a) { return is_text_element(a); }))
      return true;
    return is_number(e->index) && is_number(e->bound) && are_numbers(e->conditions) &&
           std::all_of(e->arguments.begin(), e->arguments.end(), [&](const Element& a) { return is_number(a); });
  }

 private:
  bool reads_text(const ElementNode& read) const { return is_text(operands_[static_cast<std::size_t>(read.operand)]); }

  bool is_number(const Index& index) const {
    bool all = true;
    for_each_atom(index, [&](const Atom& atom) { all = all && (atom.kind != Atom::Kind::kLoad || is_number(atom.element)); });
    return all;
  }
  bool are_numbers(const Indices& indices) const {
    return std::all_of(indices.begin(), indices.end(), [&](const Index& i) { return is_number(i); });
  }
  bool are_numbers(const std::vector<Condition>& conditions) const {
    return std::all_of(conditions.begin(), conditions.end(),
                       [&](const Condition& c) { return is_number(c.left) && is_number(c.right); });
  }

  std::span<const std::optional<TensorType>> operands_;
};

bool applies_functions(const Element& e) {
  return e->kind == Kind::kApply || std::any_of(e->arguments.begin(), e->arguments.end(), applies_functions);
}

}  // namespace

bool has_texts(const Operator& op, const Attributes& attributes, std::span<const std::optional<TensorType>> operands) {
  const auto is_string = [](const AttributeValue& value) {
    const auto* type = std::get_if<DataType>(&value);
    return type != nullptr && *type == DataType::kString;
  };
  return std::any_of(operands.begin(), operands.end(), is_text) ||
         (op.fields().size() == attributes.size() && std::any_of(attributes.begin(), attributes.end(), is_string));
}

void require_meaning_on_texts(std::string_view op, const Definition& definition,
                              std::span<const std::optional<TensorType>> operands) {
  const TextFollower follower(operands);
  for (const Output& output : definition.outputs()) {
    if (!output.element) continue;  // executable operators know themselves what they support
    const bool makes_text = output.type.type == DataType::kString;
    if (makes_text ? !follower.is_text_element(output.element) : !follower.is_number(output.element))
      throw Error(ErrorCode::kUnsupported, std::string(op) + " has no meaning on strings");
  }
}

void require_meaning_on_texts(const Operator& op, const Attributes& attributes,
                              std::span<const std::optional<TensorType>> operands) {
  if (!has_texts(op, attributes, operands)) return;
  require_meaning_on_texts(op.name(), op.define(attributes, Inputs::of(operands)), operands);
}

void refuse_texts(const Operand& operand) {
  if (operand.type() == DataType::kString) throw Error(ErrorCode::kUnsupported, "has no meaning on strings");
}

bool compares(const Definition& definition) {
  return std::any_of(definition.outputs().begin(), definition.outputs().end(),
                     [](const Output& output) { return output.element && applies_functions(output.element); });
}

std::vector<std::int64_t> TextNumbers::number(const Tensor& tensor) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(tensor.strings().size());
  for (const std::string& text : tensor.strings()) {
    auto next = static_cast<std::int64_t>(texts_.size());
    if (compared_) next = known_.try_emplace(text, next).first->second;
    if (next == static_cast<std::int64_t>(texts_.size())) texts_.push_back(&text);
    numbers.push_back(next);
  }
  return numbers;
}

Tensor TextNumbers::texts(Sizes sizes, std::span<const std::int64_t> numbers) const {
  std::vector<std::string> texts;
  texts.reserve(numbers.size());
  for (const std::int64_t number : numbers) texts.push_back(*texts_[static_cast<std::size_t>(number)]);
  return Tensor::from_strings(std::move(sizes), std::move(texts));
}

Tensor random_texts(Sizes sizes, std::uint64_t seed) {
  constexpr std::array<std::string_view, 8> kWords = {"",
                                                      "a",
                                                      "b",
                                                      "the",
                                                      "Stra\xc3\x9f"
                                                      "e",
                                                      "\xe8\xaa\x9e",
                                                      "no",
                                                      "A b"};
  std::mt19937_64 random(seed);
  std::vector<std::string> texts(static_cast<std::size_t>(element_count(sizes)));
  for (std::string& text : texts) {
    const std::uint64_t kind = random() % 4;
    text = kind == 0 ? std::to_string(random() % 100) : std::string(kWords[random() % kWords.size()]);
    if (kind == 1) text += std::to_string(random() % 10);
  }
  return Tensor::from_strings(std::move(sizes), std::move(texts));
}

Tensor random_numerals(Sizes sizes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> texts(static_cast<std::size_t>(element_count(sizes)));
  for (std::string& text : texts) text = std::to_string(random() % 2);
  return Tensor::from_strings(std::move(sizes), std::move(texts));
}

}  // namespace rewright::operators
