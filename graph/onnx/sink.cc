#include "graph/onnx/sink.h"

#include "expressions/index_bounds.h"

namespace rewright::graph {

onnx::AttributeProto to_attribute(const std::string& name, const AttributeValue& value) {
  onnx::AttributeProto proto;
  proto.set_name(name);
  auto integer = [&](std::int64_t i) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(i);
  };
  if (const auto* flag = std::get_if<bool>(&value)) {
    integer(*flag ? 1 : 0);
  } else if (const auto* index = std::get_if<Index>(&value)) {
    integer(index->value());
  } else if (const auto* type = std::get_if<DataType>(&value)) {
    integer(static_cast<int>(*type));
  } else if (const auto* indices = std::get_if<Indices>(&value)) {
    proto.set_type(onnx::AttributeProto::INTS);
    for (std::int64_t i : values(*indices)) proto.add_ints(i);
  } else if (const auto* real = std::get_if<Real>(&value)) {
    if (!real->symbol.empty())
      throw Error(ErrorCode::kUnsupported, "the unknown number \"" + real->symbol + "\" cannot be written");
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(real->value));
  } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    proto.set_type(onnx::AttributeProto::FLOATS);
    for (double r : *reals) proto.add_floats(static_cast<float>(r));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(*text);
  } else if (const Tensor& tensor = std::get<Tensor>(value); tensor.type() == DataType::kString) {  // a list of texts: STRINGS
    proto.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& entry : tensor.strings()) proto.add_strings(entry);
  } else {
    proto.set_type(onnx::AttributeProto::TENSOR);
    *proto.mutable_t() = to_tensor_proto(tensor, "");
  }
  return proto;
}

namespace {

const TensorType& one_index() {
  static const TensorType kType{DataType::kInt64, {Index(1)}};
  return kType;
}

bool is_not_negative(const Index& index) { return bounds_over_sizes(index).low >= 0; }

}  // namespace

NodeSink::NodeSink(const Graph& graph, int opset, NameTable& names, std::vector<std::string> value_names)
    : graph_(graph), opset_(opset), names_(names), value_names_(std::move(value_names)), used_(graph.value_count()) {}

void NodeSink::use(ValueId id) {
  if (id != kNoValue && id < used_.size()) used_[id] = true;
}

const TensorType& NodeSink::type_of(OnnxValue value) const {
  const auto number = static_cast<std::size_t>(value);
  if (number < graph_.value_count()) return graph_.value(static_cast<ValueId>(value)).type;
  return fresh_types_.at(number - graph_.value_count());
}

std::optional<Tensor> NodeSink::constant_value(OnnxValue value) const {
  if (value == kAbsent) return std::nullopt;
  if (auto known = constant_numbers_.find(value); known != constant_numbers_.end()) return constants_[known->second].second;
  const auto id = static_cast<ValueId>(value);
  if (id >= graph_.value_count() || !graph_.is_constant(id)) return std::nullopt;
  return graph_.value(id).constant;
}

void NodeSink::node(const std::string& type, NamedAttributes attributes, std::vector<OnnxValue> inputs,
                    std::vector<OnnxValue> outputs, const std::string& domain) {
  onnx::NodeProto proto;
  while (!inputs.empty() && inputs.back() == kAbsent) inputs.pop_back();
  while (!outputs.empty() && outputs.back() == kAbsent) outputs.pop_back();
  for (OnnxValue input : inputs) {
    proto.add_input(input == kAbsent ? std::string() : name_of(input));
    if (input != kAbsent) use(static_cast<ValueId>(input));
  }
  for (OnnxValue output : outputs) {
    proto.add_output(output == kAbsent ? std::string() : name_of(output));
    if (proto.name().empty()) proto.set_name(proto.output(proto.output_size() - 1));
  }
  proto.set_op_type(type);
  if (!domain.empty()) proto.set_domain(domain);
  for (const auto& [name, value] : attributes) *proto.add_attribute() = to_attribute(name, value);
  domains_.insert(domain);
  nodes_.push_back(serialize(proto));
}

OnnxValue NodeSink::add_value(const std::string& name, TensorType type) {
  value_names_.push_back(names_.unique(name));
  fresh_types_.push_back(std::move(type));
  return static_cast<OnnxValue>(value_names_.size() - 1);
}

OnnxValue NodeSink::fresh(const TensorType& type) { return add_value(hint_ + "/part", type); }

OnnxValue NodeSink::constant(Tensor tensor) {
  const std::uint64_t hash = tensor.content_hash();
  auto [first, last] = constant_values_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (constants_[constant_numbers_.at(it->second)].second == tensor) return it->second;
  const OnnxValue value = add_value(hint_ + "/constant", {tensor.type(), to_indices(tensor.sizes())});
  constant_values_.emplace(hash, value);
  constant_numbers_.emplace(value, constants_.size());
  constants_.emplace_back(name_of(value), std::move(tensor));
  return value;
}

OnnxValue NodeSink::number(std::int64_t value) {
  return constant(Tensor::from_integers(DataType::kInt64, {1}, std::vector<std::int64_t>{value}));
}

OnnxValue NodeSink::binary(const std::string& type, OnnxValue a, OnnxValue b) {
  const OnnxValue result = add_value(hint_ + "/size", {type == "Less" ? DataType::kBool : DataType::kInt64, {Index(1)}});
  node(type, {}, {a, b}, {result});
  return result;
}

OnnxValue NodeSink::size_value(const std::string& name) {
  if (auto known = sizes_.find(name); known != sizes_.end()) return known->second;
  for (ValueId id : available_) {
    const Value& value = graph_.value(id);
    for (std::size_t axis = 0; value.shape_known && axis < value.type.rank(); ++axis) {
      const Atom* atom = value.type.shape[axis].as_atom();
      if (atom == nullptr || atom->kind != Atom::Kind::kSymbol || atom->name != name) continue;
      const OnnxValue shape =
          add_value(name_of(static_cast<OnnxValue>(id)) + "/shape", {DataType::kInt64, {Index(value.type.rank())}});
      node("Shape", {}, {static_cast<OnnxValue>(id)}, {shape});
      const OnnxValue size = add_value(name_of(static_cast<OnnxValue>(id)) + "/size", one_index());
      node("Gather", {{"axis", Index(0)}}, {shape, number(static_cast<std::int64_t>(axis))}, {size});
      return sizes_[name] = size;
    }
  }
  throw Error(ErrorCode::kUnsupported, "the size " + name + " is no size of an input, and cannot be written");
}

OnnxValue NodeSink::atom_value(const Atom& atom) {
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
      return size_value(atom.name);
    case Atom::Kind::kFloorDiv: {
      // ONNX's Div rounds towards zero. For dividends that may be negative, the remainder (with the divisor's sign) is
      // subtracted first.
      const OnnxValue a = index_value(atom.arguments[0]), b = index_value(atom.arguments[1]);
      if (opset_ < 10 || is_not_negative(atom.arguments[0])) return binary("Div", a, b);
      return binary("Div", binary("Sub", a, binary("Mod", a, b)), b);
    }
    case Atom::Kind::kMod: {
      const OnnxValue a = index_value(atom.arguments[0]), b = index_value(atom.arguments[1]);
      return opset_ < 10 ? binary("Sub", a, binary("Mul", binary("Div", a, b), b)) : binary("Mod", a, b);
    }
    case Atom::Kind::kMin:
    case Atom::Kind::kMax: {
      const OnnxValue a = index_value(atom.arguments[0]), b = index_value(atom.arguments[1]);
      const bool least = atom.kind == Atom::Kind::kMin;
      if (opset_ >= 12) return binary(least ? "Min" : "Max", a, b);  // integer Min and Max exist from this opset on
      const OnnxValue first_is_less = binary("Less", a, b);
      const OnnxValue result = add_value(hint_ + "/size", one_index());
      node("Where", {}, {first_is_less, least ? a : b, least ? b : a}, {result});
      return result;
    }
    case Atom::Kind::kBound:
    case Atom::Kind::kPosition:
    case Atom::Kind::kLoad:
      break;
  }
  throw Error(ErrorCode::kUnsupported, "a size that depends on data cannot be written");
}

OnnxValue NodeSink::index_value(const Index& index) {
  if (index.is_constant()) return number(index.value());
  if (auto known = index_values_.find(index); known != index_values_.end()) return known->second;
  OnnxValue sum = kAbsent;
  for (const Monomial& monomial : index.polynomial()->monomials) {
    OnnxValue term = kAbsent;
    for (const AtomPointer& factor : monomial.factors) {
      const OnnxValue value = atom_value(*factor);
      term = term == kAbsent ? value : binary("Mul", term, value);
    }
    if (monomial.coefficient != 1) term = binary("Mul", term, number(monomial.coefficient));
    sum = sum == kAbsent ? term : binary("Add", sum, term);
  }
  if (index.constant_term() != 0) sum = binary("Add", sum, number(index.constant_term()));
  return index_values_[index] = sum;
}

OnnxValue NodeSink::index_tensor(const Indices& elements) {
  if (all_constant(elements)) {
    const auto numbers = values(elements);
    return constant(Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(numbers.size())}, numbers));
  }
  std::vector<OnnxValue> parts;
  for (const Index& element : elements) parts.push_back(index_value(element));
  if (parts.size() == 1) return parts[0];
  const OnnxValue result = add_value(hint_ + "/sizes", {DataType::kInt64, {Index(elements.size())}});
  node("Concat", {{"axis", Index(0)}}, std::move(parts), {result});
  return result;
}

}  // namespace rewright::graph
