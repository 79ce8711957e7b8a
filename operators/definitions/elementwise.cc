#include "operators/definitions/elementwise.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "operators/texts.h"

namespace rewright::operators {

bool is_unsigned(DataType type) {
  return type == DataType::kUint8 || type == DataType::kUint16 || type == DataType::kUint32 || type == DataType::kUint64 ||
         type == DataType::kUint4 || type == DataType::kUint2;
}

Element order_key(Element e, DataType type) {
  return type == DataType::kUint64 ? std::move(e) + integer(std::numeric_limits<std::int64_t>::min()) : e;
}

Element quotient_of(DataType type, Element a, Element b) {
  if (type != DataType::kUint64) return a / b;
  // Unsigned division: for a divisor from 2^63 on the quotient is 0 or 1. Otherwise half of the dividend, which is not
  // negative, gives the quotient except for its last bit (Warren, Hacker's Delight, 9-3).
  const auto reaches = [&](const Element& x) {
    return convert(apply(functions::less_equal, order_key(b, type), order_key(x, type)), Scalar::kInteger);
  };
  const Element doubled = (apply(functions::shift_right_unsigned, a, integer(1)) / b) * integer(2);
  const Element exact = doubled + reaches(a - doubled * b);
  const Element nothing = apply(functions::equal, b, integer(0));
  return select(nothing, integer(0), select(apply(functions::less, b, integer(0)), reaches(a), exact));
}

Element converted(Element e, DataType from, DataType to) {
  constexpr double kHalf = 0x1p63;
  if (from == DataType::kUint64 && is_real(to)) {
    const Element plain = convert(e, Scalar::kReal);
    return plain + select(apply(functions::less, e, integer(0)), real(2 * kHalf), real(0));
  }
  if (to == DataType::kUint64 && is_real(from)) {
    const Element beyond = order_key(convert(e - real(kHalf), Scalar::kInteger), to);
    return select(apply(functions::less, e, real(kHalf)), convert(e, Scalar::kInteger), beyond);
  }
  return convert(std::move(e), scalar(to));
}

namespace {

std::string_view describe(Elements allowed) {
  switch (allowed) {
    case Elements::kReals:
      return "real numbers";
    case Elements::kIntegers:
      return "integers";
    case Elements::kSigned:
      return "signed numbers";
    case Elements::kNumbers:
      return "numbers";
    case Elements::kTruthValues:
      return "truth values";
    case Elements::kAll:
      break;
  }
  return "numbers, truth values or strings";
}

bool contains(Elements allowed, DataType type) {
  switch (allowed) {
    case Elements::kReals:
      return is_real(type);
    case Elements::kIntegers:
      return is_integer(type);
    case Elements::kSigned:
      return (is_real(type) || is_integer(type)) && !is_unsigned(type);
    case Elements::kNumbers:
      return is_real(type) || is_integer(type);
    case Elements::kTruthValues:
      return type == DataType::kBool;
    case Elements::kAll:
      break;
  }
  return is_real(type) || is_integer(type) || type == DataType::kBool || type == DataType::kString;
}

}  // namespace

void require_elements(Definition& definition, const Operand& operand, Elements allowed) {
  if (allowed != Elements::kAll) refuse_texts(operand);
  definition.require(contains(allowed, operand.type()), [&] {
    return "elements are " + std::string(name(operand.type())) + ", must be " + std::string(describe(allowed));
  });
}

void require_broadcast_to(Definition& definition, const Operand& operand, const Indices& shape, std::string_view what) {
  const auto message = [&] {
    return std::string(what) + " of shape " + to_string(operand.shape()) + " does not broadcast to " + to_string(shape);
  };
  definition.require(operand.rank() <= shape.size(), message);
  const std::size_t missing = shape.size() - operand.rank();
  for (std::size_t axis = 0; axis < operand.rank(); ++axis)
    if (operand.size(axis) != Index(1)) definition.require(equal(operand.size(axis), shape[missing + axis]), message);
}

Definition elementwise(const Inputs& in, Elements allowed, const UnaryElement& f, DataType result) {
  Definition d(in);
  const Operand& x = in[0];
  require_elements(d, x, allowed);
  d.output(result == DataType::kUndefined ? x.type() : result, x.shape(), [=](const Indices& i) { return f(x(i)); });
  return d;
}

Definition elementwise(const Inputs& in, Elements allowed, BinaryElement f, DataType result, Asks asks) {
  Definition d(in);
  require_elements(d, in[0], allowed);
  std::vector<Indices> shapes;
  for (std::size_t n = 0; n < in.count(); ++n) {
    d.require_same_type(in[0], in[n]);
    shapes.push_back(in[n].shape());
  }
  const DataType type = result == DataType::kUndefined ? in[0].type() : result;
  d.output(type, broadcast_shapes(d, shapes), [=](const Indices& i) {
    const DataType ordered = asks == Asks::kOrder ? in[0].type() : DataType::kUndefined;
    Element e = order_key(in[0].broadcast(i), ordered);
    for (std::size_t n = 1; n < in.count(); ++n) e = f(e, order_key(in[n].broadcast(i), ordered));
    return result == DataType::kUndefined ? order_key(e, ordered) : e;
  });
  return d;
}

}  // namespace rewright::operators
