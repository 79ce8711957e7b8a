// The templates of operators/operator.h: they turn an operator's struct into an Operator.
#pragma once

#include <type_traits>

namespace rewright::operators {

namespace internal {

struct FieldCollector {
  std::vector<Field>* fields;
  template <class M>
  void operator()(std::string_view name, M& member) {
    fields->push_back({std::string(name), AttributeValue(member)});
  }
};

struct FieldReader {  // struct -> attributes
  Attributes* attributes;
  template <class M>
  void operator()(std::string_view, M& member) {
    attributes->emplace_back(std::move(member));
  }
};

[[noreturn]] void throw_attribute_mismatch(std::string_view name);

struct FieldWriter {  // attributes -> struct
  const Attributes* attributes;
  std::size_t next = 0;
  template <class M>
  void operator()(std::string_view name, M& member) {
    if (next >= attributes->size() || !std::holds_alternative<M>((*attributes)[next])) throw_attribute_mismatch(name);
    member = std::get<M>((*attributes)[next++]);
  }
};

}  // namespace internal

template <class T>
Attributes to_attributes(T op) {
  Attributes attributes;
  if constexpr (requires { op.fields(internal::FieldReader{&attributes}); }) op.fields(internal::FieldReader{&attributes});
  return attributes;
}

template <class T>
T from_attributes(const Attributes& attributes) {
  T op;
  if constexpr (requires(internal::FieldWriter w) { op.fields(w); }) {
    internal::FieldWriter writer{&attributes};
    op.fields(writer);
  }
  return op;
}

template <class T>
void Registry::add() {
  auto op = std::make_unique<Operator>();
  op->name_ = std::string(T::kName);
  if constexpr (requires(T t, internal::FieldCollector c) { t.fields(c); }) {
    T prototype;
    prototype.fields(internal::FieldCollector{&op->fields_});
  }
  if constexpr (requires { T::kInputs; }) {
    op->min_inputs_ = T::kInputs.min;
    op->max_inputs_ = T::kInputs.max;
  }
  if constexpr (requires { T::kCommutative; }) op->commutative_ = T::kCommutative;
  if constexpr (requires { T::kRandom; }) op->random_ = T::kRandom;
  if constexpr (requires { T::kFill; }) op->is_fill_ = T::kFill;
  op->normalize_ = [](Attributes attributes, const Inputs& inputs) {
    if constexpr (requires(T t) { t.normalize(inputs); }) {
      T typed = from_attributes<T>(attributes);
      typed.normalize(inputs);
      return to_attributes(std::move(typed));
    } else {
      return attributes;
    }
  };
  op->define_ = [](const Attributes& attributes, const Inputs& inputs) {
    return from_attributes<T>(attributes).define(inputs);
  };
  if constexpr (requires(const T t, std::span<const Tensor> in) { t.execute(in); }) {
    op->execute_ = [](const Attributes& attributes, std::span<const Tensor> inputs) {
      return from_attributes<T>(attributes).execute(inputs);
    };
  }
  if constexpr (requires(const T t, const GradientCall& call) { t.gradient(call); }) {
    op->gradient_ = [](const auto& call) { return from_attributes<T>(call.attributes).gradient(call); };
  }
  if constexpr (requires(const T t, GraphBuilder& graph, const std::vector<ValueId>& in) { t.training_form(graph, in, 0.0); }) {
    op->training_form_ = [](GraphBuilder& graph, const Attributes& attributes, const std::vector<ValueId>& inputs,
                            double momentum) { return from_attributes<T>(attributes).training_form(graph, inputs, momentum); };
  }
  auto mapping = std::make_shared<OnnxMapping>();
  mapping->type = op->name_;
  if constexpr (requires(OnnxMapping m) { T::onnx(m); }) T::onnx(*mapping);
  op->onnx_ = std::move(mapping);
  insert(std::move(op));
}

}  // namespace rewright::operators
