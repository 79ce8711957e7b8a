#include "tests/denotations/mutate.h"

#include "expressions/function.h"

namespace rewright::testing {

namespace {

const Function* another(const Function& f) {
  for (const Function* g : all_functions())
    if (g != &f && g->arity == f.arity && g->returns_argument_scalar == f.returns_argument_scalar && g->result == f.result &&
        (g->real != nullptr) == (f.real != nullptr) && (g->integer != nullptr) == (f.integer != nullptr))
      return g;
  return nullptr;
}

// Copies an expression and makes the mistake at its n-th place in a walk from the root.
class Slipper {
 public:
  Slipper(Slip slip, int place) : slip_(slip), left_(place) {}

  // Adds the number of places passed to `seen`.
  Element run(const Element& element) {
    ElementNode node = *element;
    bool changed = slip(node);
    if (replaced_) {
      const Element result = replaced_;
      replaced_ = nullptr;
      return result;
    }
    for (Element& argument : node.arguments) {
      Element other = run(argument);
      changed |= other != argument;
      argument = std::move(other);
    }
    return changed ? std::make_shared<const ElementNode>(std::move(node)) : element;
  }

  int seen = 0;

 private:
  using Kind = ElementNode::Kind;

  // Is this the n-th place?
  bool here() {
    ++seen;
    return left_-- == 0;
  }

  bool slip(ElementNode& node) {
    switch (slip_) {
      case Slip::kConstant:
        if (node.kind != Kind::kConstant || node.scalar == Scalar::kBoolean || !node.real.symbol.empty() || !here())
          return false;
        node.real.value += 1;
        node.integer += 1;
        return true;
      case Slip::kIndex:
        if (node.kind != Kind::kFromIndex || !here()) return false;
        node.index += 1;
        return true;
      case Slip::kShift:
        if (node.kind != Kind::kRead) return false;
        for (Index& i : node.position)
          if (here()) {
            i += 1;
            return true;
          }
        return false;
      case Slip::kAxes:
        if (node.kind != Kind::kRead) return false;
        for (std::size_t a = 0; a + 1 < node.position.size(); ++a)
          if (!(node.position[a] == node.position[a + 1]) && here()) {
            std::swap(node.position[a], node.position[a + 1]);
            return true;
          }
        return false;
      case Slip::kPadding:
        if (node.kind != Kind::kRead || !node.zero_outside || !here()) return false;
        node.zero_outside = false;
        return true;
      case Slip::kReduction:
        if (node.kind != Kind::kReduce || !here()) return false;
        node.reduction =
            node.reduction == Reduction::kSum || node.reduction == Reduction::kMin ? Reduction::kMax : Reduction::kSum;
        return true;
      case Slip::kBound:
        if (node.kind != Kind::kReduce || !here()) return false;
        node.bound -= 1;
        return true;
      case Slip::kGuard:
        if (node.kind != Kind::kReduce && node.kind != Kind::kChoose) return false;
        for (std::size_t i = 0; i < node.conditions.size(); ++i)
          if (here()) {
            node.conditions.erase(node.conditions.begin() + static_cast<std::ptrdiff_t>(i));
            return true;
          }
        return false;
      case Slip::kBranches:
        if ((node.kind != Kind::kChoose && node.kind != Kind::kSelect) || !here()) return false;
        std::swap(node.arguments[node.arguments.size() - 2], node.arguments[node.arguments.size() - 1]);
        return true;
      case Slip::kExtremum:
        if ((node.kind != Kind::kMaximum && node.kind != Kind::kMinimum) || !here()) return false;
        node.kind = node.kind == Kind::kMaximum ? Kind::kMinimum : Kind::kMaximum;
        return true;
      case Slip::kSum:
        return becomes(node, Kind::kAdd, Kind::kMultiply);
      case Slip::kProduct:
        return becomes(node, Kind::kMultiply, Kind::kAdd);
      case Slip::kQuotient:
        return becomes(node, Kind::kDivide, Kind::kMultiply);
      case Slip::kFunction: {
        if (node.kind != Kind::kApply) return false;
        const Function* other = another(*node.function);
        if (!other || !here()) return false;
        node.function = other;
        return true;
      }
      case Slip::kIdentity:
        if (node.kind != Kind::kApply || node.arguments[0]->scalar != node.scalar || !here()) return false;
        replaced_ = node.arguments[0];
        return true;
    }
    return false;
  }

  bool becomes(ElementNode& node, Kind from, Kind to) {
    if (node.kind != from || !here()) return false;
    node.kind = to;
    return true;
  }

  Slip slip_;
  int left_;
  Element replaced_;
};

Definition slipped(const Definition& definition, const Inputs& inputs, Slip slip, int place) {
  Definition result(inputs);
  for (const Requirement& r : definition.requirements()) result.require(r.condition, [&] { return r.message; });
  Slipper slipper(slip, place);
  for (const Output& output : definition.outputs()) {
    if (!output.element && inputs.wants_elements()) {
      result.output_without_denotation(output.type.type, output.type.shape);
      continue;
    }
    result.output(output.type.type, output.type.shape, [&](const Indices& position) {
      return rewrite(slipper.run(output.element), {}, [&](const Atom& atom) -> std::optional<Index> {
        for (std::size_t a = 0; a < position.size(); ++a)
          if (const Atom* old = output.position[a].as_atom(); old && compare(*old, atom) == 0) return position[a];
        return std::nullopt;
      });
    });
  }
  return result;
}

}  // namespace

std::string_view name(Slip slip) {
  constexpr std::string_view kNames[kSlips] = {"constant",  "index",   "shift",    "axes",     "padding",
                                               "reduction", "bound",   "guard",    "branches", "extremum",
                                               "sum",       "product", "quotient", "function", "identity"};
  return kNames[static_cast<int>(slip)];
}

std::map<Slip, int> places(const Definition& definition) {
  std::map<Slip, int> result;
  for (int s = 0; s < kSlips; ++s) {
    Slipper slipper(static_cast<Slip>(s), -1);
    for (const Output& output : definition.outputs())
      if (output.element) (void)slipper.run(output.element);
    if (slipper.seen > 0) result[static_cast<Slip>(s)] = slipper.seen;
  }
  return result;
}

Operator with_slip(const Operator& op, Slip slip, int place) {
  return op.with_definition([&op, slip, place](const Attributes& attributes, const Inputs& inputs) {
    return slipped(op.define(attributes, inputs), inputs, slip, place);
  });
}

}  // namespace rewright::testing
