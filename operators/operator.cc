#include "operators/operator.h"

#include <algorithm>
#include <map>

namespace rewright::operators {

std::string to_string(const TensorType& type) { return std::string(name(type.type)) + to_string(type.shape); }

// ---- Operands

Element Operand::read(const Indices& position, bool zero_outside) const {
  if (!present_) throw Error(ErrorCode::kBadInput, "input " + std::to_string(number_) + " is missing");
  ElementNode node{.kind = ElementNode::Kind::kRead, .scalar = scalar()};
  node.operand = number_;
  node.position = position;
  node.zero_outside = zero_outside;
  return std::make_shared<const ElementNode>(std::move(node));
}

std::vector<Condition> Operand::inside(const Indices& position) const {
  std::vector<Condition> result;
  for (std::size_t a = 0; a < position.size(); ++a)
    for (Condition c : {less_equal(0, position[a]), less(position[a], size(a))})
      if (c.decided() != true) result.push_back(std::move(c));
  return result;
}

Element Operand::broadcast(const Indices& position) const {
  const std::size_t skipped = position.size() - rank();
  Indices mine;
  mine.reserve(rank());
  for (std::size_t a = 0; a < rank(); ++a) mine.push_back(size(a).constant() == 1 ? Index(0) : position[skipped + a]);
  return (*this)(mine);
}

Inputs Inputs::of(std::span<const TensorType> types) {
  std::vector<Operand> operands;
  operands.reserve(types.size());
  for (std::size_t i = 0; i < types.size(); ++i) operands.emplace_back(static_cast<int>(i), types[i]);
  return Inputs(std::move(operands));
}

Inputs Inputs::of(std::span<const std::optional<TensorType>> types) {
  std::vector<Operand> operands;
  operands.reserve(types.size());
  for (std::size_t i = 0; i < types.size(); ++i)
    operands.push_back(types[i] ? Operand(static_cast<int>(i), *types[i]) : Operand());
  return Inputs(std::move(operands));
}

Inputs Inputs::types_only() const {
  Inputs result = *this;
  result.wants_elements_ = false;
  return result;
}

// ---- Definitions

void Definition::require(const Condition& condition, const std::function<std::string()>& message) {
  const auto decided = condition.decided();
  if (decided == false) throw Error(ErrorCode::kBadInput, message());
  if (!decided) requirements_.push_back({condition, condition.to_string()});
}

void Definition::require(bool condition, const std::function<std::string()>& message) {
  if (!condition) throw Error(ErrorCode::kBadInput, message());
}

void Definition::require_rank(const Operand& operand, std::size_t rank, std::string_view what) {
  if (!operand.present()) throw Error(ErrorCode::kBadInput, std::string(what) + " is missing");
  if (operand.rank() != rank)
    throw Error(ErrorCode::kBadInput,
                std::string(what) + " has " + std::to_string(operand.rank()) + " axes, must have " + std::to_string(rank));
}

void Definition::require_same_type(const Operand& a, const Operand& b) {
  if (a.type() != b.type())
    throw Error(ErrorCode::kBadInput,
                "element types differ: " + std::string(name(a.type())) + " and " + std::string(name(b.type())));
}

void Definition::output(DataType type, Indices shape, const std::function<Element(const Indices&)>& element) {
  Output out{{type, std::move(shape)}, {}, nullptr};
  if (wants_elements_) {
    out.position.reserve(out.type.rank());
    for (std::size_t a = 0; a < out.type.rank(); ++a) out.position.push_back(Index::fresh("i" + std::to_string(a)));
    // An empty output has no element to evaluate, and positions in it may make no sense (channels of a group, of 0 groups).
    const bool is_number = is_real(type) || is_integer(type) || type == DataType::kBool;
    const bool is_empty = std::find(out.type.shape.begin(), out.type.shape.end(), Index(0)) != out.type.shape.end();
    out.element = is_number && is_empty ? constant(scalar(type), 0) : element(out.position);
  }
  outputs_.push_back(std::move(out));
}

void Definition::output_without_denotation(DataType type, Indices shape) {
  outputs_.push_back({{type, std::move(shape)}, {}, nullptr});
}

bool Definition::has_denotation() const {
  for (const Output& o : outputs_)
    if (!o.element) return false;
  return true;
}

Indices broadcast_shapes(Definition& definition, const std::vector<Indices>& shapes) {
  std::size_t rank = 0;
  for (const Indices& s : shapes) rank = std::max(rank, s.size());
  Indices result(rank, 1);
  for (const Indices& s : shapes)
    for (std::size_t a = 0; a < s.size(); ++a) {
      Index& size = result[rank - s.size() + a];
      if (s[a].constant() == 1 || size == s[a]) continue;
      if (size.constant() == 1) {
        size = s[a];
      } else {
        definition.require(equal(size, s[a]), [&] {
          std::string all;
          for (const Indices& t : shapes) all += (all.empty() ? "" : " and ") + to_string(t);
          return "shapes " + all + " cannot be broadcast together";
        });
        if (s[a].is_constant()) size = s[a];
      }
    }
  return result;
}

// ---- Operators

std::optional<std::size_t> Operator::field(std::string_view name) const {
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (fields_[i].name == name) return i;
  return std::nullopt;
}

Attributes Operator::defaults() const {
  Attributes attributes;
  for (const Field& f : fields_) attributes.push_back(f.default_value);
  return attributes;
}

struct Registry::Impl {
  std::map<std::string, std::unique_ptr<Operator>, std::less<>> operators;
};

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;

void Registry::insert(std::unique_ptr<Operator> op) {
  std::string name = op->name();
  if (!impl_->operators.emplace(name, std::move(op)).second)
    throw Error(ErrorCode::kUsage, "operator " + name + " is defined twice");
}

const Operator* Registry::find(std::string_view name) const {
  const auto at = impl_->operators.find(name);
  return at == impl_->operators.end() ? nullptr : at->second.get();
}

const Operator& Registry::get(std::string_view name) const {
  if (const Operator* op = find(name)) return *op;
  throw Error(ErrorCode::kUsage, "there is no operator " + std::string(name));
}

std::vector<const Operator*> Registry::all() const {
  std::vector<const Operator*> result;
  for (const auto& [name, op] : impl_->operators) result.push_back(op.get());
  return result;
}

namespace internal {
void throw_attribute_mismatch(std::string_view name) {
  throw Error(ErrorCode::kBadInput, "attribute " + std::string(name) + " has the wrong type");
}
}  // namespace internal

}  // namespace rewright::operators
