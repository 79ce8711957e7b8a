// Shared by the families of elementwise operators.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>

#include "operators/operator.h"

namespace rewright::operators {

bool is_unsigned(DataType type);

// Elements of uint64 are computed as signed 64-bit integers. order_key flips the highest bit, so that signed comparison gives
// the unsigned order; applying it twice restores the element. Other types are unchanged. quotient_of and converted are correct
// for uint64, too.
Element order_key(Element e, DataType type);
Element quotient_of(DataType type, Element a, Element b);
Element converted(Element e, DataType from, DataType to);

// The element types for which an operator is defined.
enum class Elements { kReals, kIntegers, kSigned, kNumbers, kTruthValues, kAll };
void require_elements(Definition& definition, const Operand& operand, Elements allowed);
// Requires ONNX's unidirectional broadcasting: every size of the operand is 1 or equals that of `shape`.
void require_broadcast_to(Definition& definition, const Operand& operand, const Indices& shape, std::string_view what);

using UnaryElement = std::function<Element(const Element&)>;
using BinaryElement = Element (*)(Element, Element);

// y[i] = f(x[i]). The result's type is `result`, or the operand's if that is kUndefined.
Definition elementwise(const Inputs& in, Elements allowed, const UnaryElement& f, DataType result = DataType::kUndefined);
// y[i] = f(f(a[i], b[i]), c[i]) ... over operands of one type, broadcast against each other. kOrder: f compares elements, so
// those of uint64 are mapped by order_key.
enum class Asks { kValues, kOrder };
Definition elementwise(const Inputs& in, Elements allowed, BinaryElement f, DataType result = DataType::kUndefined,
                       Asks asks = Asks::kValues);

// A name as a template argument.
template <std::size_t N>
struct FixedString {
  char text[N];
  constexpr FixedString(const char (&t)[N]) { std::copy_n(t, N, text); }  // NOLINT: a literal is a fixed string
  constexpr std::string_view view() const { return {text, N - 1}; }
};

inline DataType result_of(const Function& f) {
  return !f.returns_argument_scalar && f.result == Scalar::kBoolean ? DataType::kBool : DataType::kUndefined;
}

// y[i] = F(x[i])
template <FixedString Name, Elements Allowed, const Function& F>
struct Unary {
  static constexpr std::string_view kName = Name.view();
  Definition define(const Inputs& in) const {
    return elementwise(
        in, Allowed, [](const Element& x) { return apply(F, x); }, result_of(F));
  }
};

// y[i] = F(a[i], b[i]), broadcast. `Since` is the first opset with this form of broadcasting.
template <FixedString Name, Elements Allowed, BinaryElement F, int Since, bool Commutative = false,
          DataType Result = DataType::kUndefined, Asks For = Asks::kValues>
struct Binary {
  static constexpr std::string_view kName = Name.view();
  static constexpr InputCount kInputs{2, 2};
  static constexpr bool kCommutative = Commutative;
  static void onnx(OnnxMapping& m) { m.since = Since; }
  Definition define(const Inputs& in) const { return elementwise(in, Allowed, F, Result, For); }
};

// y[i] = F(F(a[i], b[i]), c[i]) ...: one or more operands, broadcast.
template <FixedString Name, Elements Allowed, BinaryElement F, Asks For = Asks::kValues>
struct Variadic {
  static constexpr std::string_view kName = Name.view();
  static constexpr InputCount kInputs{1, kVariadic};
  static constexpr bool kCommutative = true;
  Definition define(const Inputs& in) const { return elementwise(in, Allowed, F, DataType::kUndefined, For); }
};

template <const Function& F>
Element applied(Element a, Element b) {
  return apply(F, std::move(a), std::move(b));
}

}  // namespace rewright::operators
