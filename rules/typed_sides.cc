#include "rules/typed_sides.h"

namespace rewright::rules {

std::optional<TypedSides> as_type(const Rule& rule, const RuleInstance& instance, DataType type) {
  std::vector<TensorType> types = instance.input_types;
  for (TensorType& t : types) {
    if (!is_real(t.type)) return std::nullopt;
    t.type = type;
  }
  Bindings bindings(rule);
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!bindings.bind_input(i, types[i])) return std::nullopt;
  for (const auto& [name, value] : instance.bindings.values())
    if (!bindings.bind(name, std::holds_alternative<DataType>(value) ? AttributeValue(type) : value)) return std::nullopt;
  return TypedSides{instantiate(rule, rule.source, types, bindings), instantiate(rule, rule.target, types, bindings)};
}

}  // namespace rewright::rules
