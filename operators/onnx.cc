#include "operators/onnx.h"

#include <algorithm>
#include <map>

namespace rewright::operators {

namespace {

const OnnxMapping::FieldInput* field_input(const OnnxMapping& mapping, const std::string& field, int opset) {
  for (const OnnxMapping::FieldInput& f : mapping.field_inputs)
    if (f.field == field && opset >= f.since) return &f;
  return nullptr;
}

std::string attribute_name(const OnnxMapping& mapping, const std::string& field) {
  for (const auto& [ours, theirs] : mapping.renamed)
    if (ours == field) return theirs;
  return field;
}

bool is_internal(const OnnxMapping& mapping, const std::string& field) {
  return std::find(mapping.internal_fields.begin(), mapping.internal_fields.end(), field) != mapping.internal_fields.end();
}

AttributeValue read_attribute(const OnnxSource& source, const std::string& name, const AttributeValue& like) {
  return std::visit(
      [&](const auto& v) -> AttributeValue {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          return source.integer(name, 0) != 0;
        } else if constexpr (std::is_same_v<T, Index>) {
          return Index(source.integer(name, 0));
        } else if constexpr (std::is_same_v<T, Indices>) {
          return to_indices(source.integers(name));
        } else if constexpr (std::is_same_v<T, Real>) {
          return Real(source.real(name, 0));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          return source.reals(name);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return source.text(name, "");
        } else if constexpr (std::is_same_v<T, DataType>) {
          return static_cast<DataType>(source.integer(name, 0));
        } else {
          const auto tensor = source.tensor(name);
          return tensor ? *tensor : Tensor();
        }
      },
      like);
}

// A field's value from the contents of an input; nullopt if they are not known.
std::optional<AttributeValue> read_input(const OnnxSource& source, OnnxValue input, const AttributeValue& like) {
  if (std::holds_alternative<Indices>(like) || std::holds_alternative<Index>(like)) {
    const auto contents = source.contents(input);
    if (!contents) return std::nullopt;
    if (std::holds_alternative<Indices>(like)) return AttributeValue(*contents);
    if (contents->size() != 1) return std::nullopt;
    return AttributeValue((*contents)[0]);
  }
  const auto tensor = source.constant_value(input);
  if (!tensor) return std::nullopt;
  if (std::holds_alternative<std::vector<double>>(like)) return AttributeValue(tensor->reals());
  if (std::holds_alternative<Tensor>(like)) return AttributeValue(*tensor);
  if (tensor->size() != 1) return std::nullopt;
  if (std::holds_alternative<Real>(like)) return AttributeValue(Real(tensor->reals()[0]));
  if (std::holds_alternative<bool>(like)) return AttributeValue(tensor->reals()[0] != 0);
  return std::nullopt;
}

OnnxValue write_input(OnnxSink& sink, const AttributeValue& value) {
  if (const auto* list = std::get_if<Indices>(&value)) return sink.index_tensor(*list);
  if (const auto* one = std::get_if<Index>(&value)) return sink.index_tensor({*one});
  if (const auto* real = std::get_if<Real>(&value)) return sink.constant(Tensor::scalar(DataType::kFloat, real->value));
  if (const auto* flag = std::get_if<bool>(&value)) return sink.constant(Tensor::scalar(DataType::kBool, *flag));
  if (const auto* reals = std::get_if<std::vector<double>>(&value))
    return sink.constant(Tensor::from_reals(DataType::kFloat, {static_cast<std::int64_t>(reals->size())}, *reals));
  if (const auto* tensor = std::get_if<Tensor>(&value)) return sink.constant(*tensor);
  throw Error(ErrorCode::kUsage, "an attribute of this type cannot be an input");
}

}  // namespace

std::optional<std::vector<OnnxValue>> import_default(const Operator& op, OnnxSource& source, std::string& reason) {
  const OnnxMapping& mapping = op.onnx();
  if (source.opset() < mapping.since) {
    reason = "its form before opset " + std::to_string(mapping.since) + " has another meaning";
    return std::nullopt;
  }
  Attributes attributes;
  std::vector<bool> is_field(source.input_count(), false);
  for (const Field& field : op.fields()) {
    AttributeValue value = field.default_value;
    const std::string name = attribute_name(mapping, field.name);
    if (const auto* from = field_input(mapping, field.name, source.opset())) {
      const auto number = static_cast<std::size_t>(from->input);
      if (number < source.input_count()) {
        is_field[number] = true;
        if (source.input(number) != kAbsent) {
          const auto known = read_input(source, source.input(number), field.default_value);
          if (!known) {
            reason = "the values of its input " + std::to_string(number) + " (" + field.name + ") are not known";
            return std::nullopt;
          }
          value = *known;
        }
      }
    } else if (!is_internal(mapping, field.name) && source.has(name)) {
      value = read_attribute(source, name, field.default_value);
    }
    attributes.push_back(std::move(value));
  }
  std::vector<OnnxValue> inputs;
  for (std::size_t i = 0; i < source.input_count(); ++i)
    if (!is_field[i]) inputs.push_back(source.input(i));
  while (!inputs.empty() && inputs.back() == kAbsent) inputs.pop_back();
  return source.node(op, std::move(attributes), std::move(inputs));
}

bool write_default(const Operator& op, OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                   const std::vector<OnnxValue>& outputs) {
  const OnnxMapping& mapping = op.onnx();
  if (mapping.type.empty() || sink.opset() < mapping.since) return false;
  OnnxSink::NamedAttributes named;
  std::map<std::size_t, OnnxValue> at;  // inputs with a fixed place
  for (std::size_t f = 0; f < op.fields().size(); ++f) {
    const Field& field = op.fields()[f];
    if (const auto* to = field_input(mapping, field.name, sink.opset())) {
      if (!(attributes[f] == field.default_value))
        at[static_cast<std::size_t>(to->input)] = write_input(sink, attributes[f]);
      else
        at[static_cast<std::size_t>(to->input)] = kAbsent;
    } else if (!is_internal(mapping, field.name) && !(attributes[f] == field.default_value)) {
      named.emplace_back(attribute_name(mapping, field.name), attributes[f]);
    }
  }
  std::vector<OnnxValue> all;
  std::size_t next = 0;
  while (next < inputs.size() || (!at.empty() && all.size() <= at.rbegin()->first)) {
    if (const auto fixed = at.find(all.size()); fixed != at.end())
      all.push_back(fixed->second);
    else
      all.push_back(next < inputs.size() ? inputs[next++] : kAbsent);
  }
  while (!all.empty() && all.back() == kAbsent) all.pop_back();
  sink.node(mapping.type, std::move(named), std::move(all), outputs, mapping.domain);
  return true;
}

const Operator* find_onnx(std::string_view domain, std::string_view type) {
  static const auto kTable = [] {
    std::map<std::pair<std::string, std::string>, const Operator*> table;
    for (const Operator* op : registry().all()) {
      if (!op->onnx().type.empty()) table.emplace(std::pair(op->onnx().domain, op->onnx().type), op);
      for (const std::string& other : op->onnx().also) table.emplace(std::pair(std::string(), other), op);
    }
    return table;
  }();
  if (domain == "ai.onnx") domain = "";
  const auto at = kTable.find(std::pair(std::string(domain), std::string(type)));
  return at == kTable.end() ? nullptr : at->second;
}

}  // namespace rewright::operators
