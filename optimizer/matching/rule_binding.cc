#include "optimizer/matching/rule_binding.h"

#include <algorithm>

#include "expressions/exact_number.h"

namespace rewright::optimizer {

std::shared_ptr<const Bindings> bind_rule(const Rule& rule, std::span<const TensorType* const> inputs,
                                          std::span<const Attributes* const> attributes) {
  auto bindings = std::make_shared<Bindings>(rule);
  for (std::size_t i = 0; i < rule.inputs.size(); ++i)
    if (is_empty(*inputs[i]) || !bindings->bind_input(i, *inputs[i])) return nullptr;
  for (std::size_t p = 0; p < rule.source.nodes.size(); ++p) {
    const PatternNode& pattern = rule.source.nodes[p];
    for (std::size_t f = 0; f < pattern.attributes.size(); ++f)
      if (!bindings->bind_attribute(pattern.attributes[f], (*attributes[p])[f])) return nullptr;
  }
  return bindings->complete() ? bindings : nullptr;
}

bool is_empty(const TensorType& type) {
  return std::any_of(type.shape.begin(), type.shape.end(), [](const Index& size) { return size.constant() == 0; });
}

bool all_equal(const Tensor& tensor) {
  const std::size_t size = byte_size(tensor.type());
  const std::span<const std::byte> bytes = tensor.bytes();
  if (size == 0 || bytes.size() < size || !fits_real(tensor)) return false;
  return std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(), bytes.begin());
}

Attributes fill_attributes(const Operator& fill, const Tensor& tensor) {
  Attributes attributes = fill.defaults();
  const double element = tensor.reals().at(0);
  for (std::size_t i = 0; i < fill.fields().size(); ++i) {
    if (std::holds_alternative<Indices>(attributes[i])) attributes[i] = to_indices(tensor.sizes());
    if (std::holds_alternative<Real>(attributes[i])) attributes[i] = Real(element);
    if (std::holds_alternative<DataType>(attributes[i])) attributes[i] = tensor.type();
  }
  return attributes;
}

}  // namespace rewright::optimizer
