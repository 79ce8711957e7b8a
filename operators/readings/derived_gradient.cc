// Derives gradients from denotations: reverse accumulation over the element expression, where every sub-expression stands for a
// tensor over the variables that it depends on. A sum over a variable becomes a matrix product or a sum along an axis.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "expressions/free_variables.h"
#include "operators/gradient.h"
#include "operators/readings/named_axes.h"

namespace rewright::operators {

namespace {

using Kind = ElementNode::Kind;

[[noreturn]] void refuse(const Operator& op, const std::string& why) {
  throw Error(ErrorCode::kUnsupported, "no gradient of " + op.name() + ": " + why);
}

// The operator that applies a function to whole tensors, found by the denotations in the registry; null if there is none.
const Operator* operator_for(const Function& f) {
  static const std::map<const Function*, const Operator*> all = [] {
    std::map<const Function*, const Operator*> found;
    for (const Operator* op : registry().all())
      for (const DataType type : {DataType::kFloat, DataType::kBool})
        for (std::size_t arity = 1; arity <= 2; ++arity) try {
            if (static_cast<int>(arity) < op->min_inputs() || static_cast<int>(arity) > op->max_inputs()) continue;
            const Inputs inputs = Inputs::of(std::vector<TensorType>(arity, TensorType{type, {}}));
            const Definition d = op->define(op->normalized(op->defaults(), inputs), inputs);
            const Element e = d.outputs().at(0).element;
            if (!e || e->kind != Kind::kApply || e->arguments.size() != arity) continue;
            bool plain = true;
            for (std::size_t n = 0; n < arity; ++n)
              plain = plain && e->arguments[n]->kind == Kind::kRead && e->arguments[n]->operand == static_cast<int>(n);
            if (plain) found.emplace(e->function, op);
          } catch (const Error&) {
            continue;  // not defined on such operands
          }
    return found;
  }();
  const auto at = all.find(&f);
  return at == all.end() ? nullptr : at->second;
}

class Derivation {
 public:
  explicit Derivation(const GradientCall& call)
      : call_(call), axes_(call.graph), results_(call.inputs.size(), kNoGradient), definition_(define(call)) {
    for (std::size_t o = 0; o < call.output_gradients.size(); ++o)
      if (call.output_gradients[o] != kNoGradient) type_ = call.graph.type_of(call.output_gradients[o]).type;
  }

  std::vector<ValueId> run() {
    for (std::size_t o = 0; o < definition_.outputs().size(); ++o) {
      const Output& output = definition_.outputs()[o];
      if (!output.element) refuse(call_.op, "it has no denotation");
      AxisNames position;
      for (std::size_t a = 0; a < output.position.size(); ++a) {
        position.push_back(output.position[a].as_atom()->id);
        axes_.set_size(position.back(), output.type.shape[a]);
      }
      visit(output.element);
      if (o < call_.outputs.size() && call_.outputs[o] != kNoGradient && varies_along(output))
        values_.emplace(output.element.get(), axes_.sum({call_.outputs[o], position}, position, free(output.element)));
      if (o < call_.output_gradients.size() && call_.output_gradients[o] != kNoGradient)
        contribute(output.element, axes_.sum({call_.output_gradients[o], position}, position, free(output.element)));
    }
    for (auto e = order_.rbegin(); e != order_.rend(); ++e)
      if (const auto g = adjoints_.find(e->get()); g != adjoints_.end()) propagate(*e, g->second);
    return std::move(results_);
  }

 private:
  static Definition define(const GradientCall& call) {
    std::vector<std::optional<TensorType>> types;
    for (const ValueId input : call.inputs)
      types.push_back(input == kNoGradient ? std::nullopt : std::optional(call.graph.type_of(input)));
    return call.op.define(call.attributes, Inputs::of(types));
  }

  // Facts of a sub-expression before anything is built.
  struct Facts {
    AxisNames free;       // the variables that it depends on
    bool active = false;  // does it depend differentiably on a wanted input's elements?
  };
  const AxisNames& free(const Element& e) { return facts_.at(e.get()).free; }
  bool active(const Element& e) { return facts_.at(e.get()).active; }

  // Post-order: arguments come before the expressions that use them. Recursion is only as deep as one denotation.
  void visit(const Element& e) {
    if (facts_.contains(e.get())) return;
    if (e->kind == Kind::kReduce) axes_.set_size(e->index.as_atom()->id, e->bound);
    Facts facts;
    const auto depends_on = [&](const Index& index) {
      for_each_atom(index, [&](const Atom& atom) {
        if (atom.kind == Atom::Kind::kBound && !contains(facts.free, atom.id)) facts.free.push_back(atom.id);
      });
    };
    for (const Element& argument : e->arguments) {
      visit(argument);
      facts.free = united(facts.free, free(argument));
      facts.active = facts.active || (active(argument) && argument->scalar == Scalar::kReal);
    }
    for_each_index(*e, depends_on);
    if (e->kind == Kind::kReduce) std::erase(facts.free, e->index.as_atom()->id);
    if (e->kind == Kind::kRead) facts.active = call_.wants(static_cast<std::size_t>(e->operand));
    facts.active = facts.active && e->scalar == Scalar::kReal;
    facts_.emplace(e.get(), std::move(facts));
    order_.push_back(e);
  }

  // Do the output's elements differ along all of its axes with more than one position?
  bool varies_along(const Output& output) {
    for (std::size_t a = 0; a < output.position.size(); ++a)
      if (!(output.type.shape[a] == Index(1)) && !contains(free(output.element), output.position[a].as_atom()->id))
        return false;
    return true;
  }

  // ---- Values

  DataType type_of(Scalar scalar) const {
    return scalar == Scalar::kReal ? type_ : scalar == Scalar::kInteger ? DataType::kInt64 : DataType::kBool;
  }
  NamedTensor number(double value) { return {call_.graph.scalar(type_, value), {}}; }

  NamedTensor value(const Element& e) {
    if (const auto at = values_.find(e.get()); at != values_.end()) return at->second;
    kept_.push_back(e);  // derivatives make new expressions, which are looked up by address
    NamedTensor result = computed(e);
    if (e->kind != Kind::kConstant && e->kind != Kind::kFromIndex)
      result.value = call_.graph.cast(result.value, type_of(e->scalar));
    return values_.emplace(e.get(), std::move(result)).first->second;
  }

  // A size that is only known when the graph is executed is read off a tensor.
  ValueId whole_number(const Index& index) {
    if (index.is_constant())
      return call_.graph.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{index.value()}));
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kBound || atom.kind == Atom::Kind::kLoad) refuse(call_.op, "it computes with positions");
    });
    return call_.graph.add("Size", {call_.graph.filled({DataType::kBool, {index}}, 0)});
  }

  NamedTensor computed(const Element& e) {
    const auto argument = [&](std::size_t n) { return value(e->arguments[n]); };
    switch (e->kind) {
      case Kind::kConstant:
        if (e->scalar == Scalar::kReal) {
          if (!e->real.symbol.empty()) refuse(call_.op, "an attribute is unknown");
          return number(e->real.value);
        }
        return {call_.graph.constant(Tensor::from_integers(type_of(e->scalar), {}, std::vector{e->integer})), {}};
      case Kind::kFromIndex:
        return {whole_number(e->index), {}};
      case Kind::kRead:
        return read(*e);
      case Kind::kAdd:
        if (const Element minuend = negated(e->arguments[1])) return axes_.apply("Sub", {argument(0), value(minuend)});
        return axes_.apply("Add", {argument(0), argument(1)});
      case Kind::kMultiply:
        if (const Element x = negated(e)) return axes_.apply("Neg", {value(x)});
        return axes_.apply("Mul", {argument(0), argument(1)});
      case Kind::kDivide:
        if (is_constant(e->arguments[0], 1)) return axes_.apply("Reciprocal", {argument(1)});
        return axes_.apply("Div", {argument(0), argument(1)});
      case Kind::kMaximum:
        return axes_.apply("Max", {argument(0), argument(1)});
      case Kind::kMinimum:
        return axes_.apply("Min", {argument(0), argument(1)});
      case Kind::kApply: {
        const Operator* op = operator_for(*e->function);
        if (!op) refuse(call_.op, "no operator is the function " + std::string(e->function->name));
        std::vector<NamedTensor> arguments;
        for (std::size_t n = 0; n < e->arguments.size(); ++n) arguments.push_back(argument(n));
        return axes_.apply(op->name(), std::move(arguments));
      }
      case Kind::kReduce:
        return reduced(*e);
      case Kind::kSelect:
        return axes_.apply("Where", {argument(0), argument(1), argument(2)});
      case Kind::kConvert:
        return argument(0);  // cast by the caller
      case Kind::kChoose:
        refuse(call_.op, "it chooses by positions");
    }
    refuse(call_.op, "its denotation has an unknown form");
  }

  // Sizes that are only known when the graph is executed may be equal because the operator requires it.
  bool is_same(const Index& a, const Index& b) const {
    const std::vector<Requirement>& required = definition_.requirements();
    return a == b || std::any_of(required.begin(), required.end(), [&](const Requirement& r) {
             return r.condition == equal(a, b) || r.condition == equal(b, a);
           });
  }

  // The operand's axes, named by the variables at which it is read, without axes of size 1 that are read at 0.
  AxisNames names_of(const ElementNode& read, Indices* dropped = nullptr) {
    const Indices& shape = call_.graph.shape_of(call_.inputs.at(static_cast<std::size_t>(read.operand)));
    AxisNames names;
    for (std::size_t a = 0; a < read.position.size(); ++a) {
      const Atom* atom = read.position[a].as_atom();
      if (read.position[a] == Index(0) && shape[a] == Index(1)) {
        if (dropped) dropped->push_back(a);
      } else if (atom && atom->kind == Atom::Kind::kBound && !contains(names, atom->id) &&
                 is_same(axes_.size(atom->id), shape[a])) {
        names.push_back(atom->id);
      } else {
        refuse(call_.op, "it reads at " + to_string(read.position) + " of a tensor of shape " + to_string(shape));
      }
    }
    return names;
  }

  NamedTensor read(const ElementNode& e) {
    Indices dropped;
    AxisNames names = names_of(e, &dropped);
    return {call_.graph.summed(call_.inputs[static_cast<std::size_t>(e.operand)], dropped), std::move(names)};
  }

  NamedTensor reduced(const ElementNode& e) {
    if (!e.conditions.empty()) refuse(call_.op, "it sums over conditions on positions");
    const AxisNames variable{e.index.as_atom()->id};
    const Element& body = e.arguments[0];
    if (e.reduction == Reduction::kSum) {
      if (body->kind == Kind::kMultiply)
        return axes_.contract(value(body->arguments[0]), value(body->arguments[1]), variable, {});
      return axes_.sum(value(body), variable, {});
    }
    const NamedTensor x = value(body);
    if (!contains(x.axes, variable[0])) refuse(call_.op, "a reduction of what does not depend on its variable");
    return {reduction(e.reduction == Reduction::kMax   ? "ReduceMax"
                      : e.reduction == Reduction::kMin ? "ReduceMin"
                                                       : "ReduceProd",
                      x, variable[0]),
            erased(x.axes, variable[0])};
  }
  ValueId reduction(std::string_view name, const NamedTensor& x, AxisName axis) {
    const auto at = std::find(x.axes.begin(), x.axes.end(), axis) - x.axes.begin();
    return call_.graph.add(name, {x.value}, {{"axes", Indices{Index(at)}}, {"keepdims", false}});
  }
  static AxisNames erased(AxisNames axes, AxisName axis) {
    std::erase(axes, axis);
    return axes;
  }

  static bool is_constant(const Element& e, double value) {
    return e->kind == Kind::kConstant && e->scalar == Scalar::kReal && e->real == Real(value);
  }
  // x, where e is -1 * x.
  static Element negated(const Element& e) {
    return e->kind == Kind::kMultiply && is_constant(e->arguments[0], -1) ? e->arguments[1] : nullptr;
  }

  // ---- Adjoints

  // Adds g to the gradient of e. g has only axes that e depends on.
  void contribute(const Element& e, NamedTensor g) {
    if (!active(e)) return;
    const auto [at, is_new] = adjoints_.emplace(e.get(), g);
    if (!is_new) at->second = axes_.apply("Add", {at->second, std::move(g)});
  }
  // Adds to the gradient of an argument of e. g may vary over all variables that e depends on.
  void contribute_sum(const Element& e, const Element& argument, const NamedTensor& g) {
    if (active(argument)) contribute(argument, axes_.sum(g, free(e), free(argument)));
  }
  void contribute_product(const Element& e, const Element& argument, const NamedTensor& g, const Element& factor) {
    if (!active(argument)) return;
    if (is_constant(factor, -1)) return contribute_sum(e, argument, axes_.apply("Neg", {g}));
    if (is_constant(factor, 1)) return contribute_sum(e, argument, g);
    contribute(argument, axes_.contract(g, value(factor), free(e), free(argument)));
  }
  // g where the mask holds, else 0 (or the reverse).
  NamedTensor masked(const NamedTensor& mask, const NamedTensor& g, bool where = true) {
    return where ? axes_.apply("Where", {mask, g, number(0)}) : axes_.apply("Where", {mask, number(0), g});
  }

  void propagate(const Element& e, const NamedTensor& g) {
    const std::vector<Element>& a = e->arguments;
    switch (e->kind) {
      case Kind::kRead:
        return give(*e, g);
      case Kind::kAdd:
        contribute_sum(e, a[0], g);
        return contribute_sum(e, a[1], g);
      case Kind::kMultiply:
        contribute_product(e, a[0], g, a[1]);
        return contribute_product(e, a[1], g, a[0]);
      case Kind::kDivide:
        contribute_product(e, a[0], g, real(1) / a[1]);
        return contribute_product(e, a[1], g, -(e / a[1]));
      case Kind::kMaximum:
      case Kind::kMinimum: {
        const bool largest = e->kind == Kind::kMaximum;
        // max(x, c) > c where x > c: so the output can be compared instead of x, and it is more often kept for other uses.
        const bool by_output = a[1]->kind == Kind::kConstant && a[0]->kind == Kind::kRead && values_.contains(e.get());
        const Element& x = by_output ? e : a[0];
        const NamedTensor first = value(largest ? apply(functions::less, a[1], x) : apply(functions::less, x, a[1]));
        if (active(a[0])) contribute_sum(e, a[0], masked(first, g));
        if (active(a[1])) contribute_sum(e, a[1], masked(first, g, false));
        return;
      }
      case Kind::kApply:
        for (std::size_t n = 0; n < a.size(); ++n)
          if (active(a[n]))
            if (const Element d = derivative(*e->function, a, e, n)) contribute_product(e, a[n], g, d);
        return;
      case Kind::kReduce:
        return propagate_reduction(e, g);
      case Kind::kSelect:
        if (active(a[1])) contribute_sum(e, a[1], masked(value(a[0]), g));
        if (active(a[2])) contribute_sum(e, a[2], masked(value(a[0]), g, false));
        return;
      case Kind::kConvert:
        return contribute(a[0], g);
      case Kind::kChoose:
        refuse(call_.op, "it chooses by positions");
      case Kind::kConstant:
      case Kind::kFromIndex:
        return;
    }
  }

  void propagate_reduction(const Element& e, const NamedTensor& g) {
    if (!e->conditions.empty()) refuse(call_.op, "it sums over conditions on positions");
    const AxisName variable = e->index.as_atom()->id;
    const Element& body = e->arguments[0];
    if (e->reduction == Reduction::kSum) {
      if (contains(free(body), variable)) return contribute(body, g);
      return contribute(body, axes_.sum(g, {variable}, {}));
    }
    const NamedTensor x = value(body);
    if (!contains(x.axes, variable)) refuse(call_.op, "a reduction of what does not depend on its variable");
    const AxisNames rest = erased(x.axes, variable);
    const auto as_number = [&](const NamedTensor& t) { return NamedTensor{call_.graph.cast(t.value, type_), t.axes}; };
    if (e->reduction != Reduction::kProduct) {  // equal extremes share the gradient
      const NamedTensor reached = axes_.apply("Equal", {x, value(e)});
      const NamedTensor count{reduction("ReduceSum", as_number(reached), variable), rest};
      return contribute(body, masked(reached, axes_.apply("Div", {g, count})));
    }
    // The product of the other elements. If one element is 0, only its own is not 0.
    const NamedTensor zero = axes_.apply("Equal", {x, number(0)});
    const NamedTensor factors = axes_.apply("Where", {zero, number(1), x});
    const NamedTensor product{reduction("ReduceProd", factors, variable), rest};
    const NamedTensor zeros{reduction("ReduceSum", as_number(zero), variable), rest};
    const NamedTensor none = axes_.apply("Equal", {zeros, number(0)}), one = axes_.apply("Equal", {zeros, number(1)});
    const NamedTensor at_zero = masked(one, product), elsewhere = masked(none, axes_.apply("Div", {product, factors}));
    contribute(body, axes_.apply("Mul", {g, axes_.apply("Where", {zero, at_zero, elsewhere})}));
  }

  // Adds to the gradient of an input.
  void give(const ElementNode& read, const NamedTensor& g) {
    const auto k = static_cast<std::size_t>(read.operand);
    const TensorType type = call_.graph.type_of(call_.inputs[k]);
    const AxisNames names = names_of(read);
    ValueId whole = call_.graph.reshaped(axes_.ordered(g, names), type.shape);
    whole = call_.graph.cast(whole, type.type);
    results_[k] = results_[k] == kNoGradient ? whole : call_.graph.add("Add", {results_[k], whole});
  }

  const GradientCall& call_;
  NamedAxes axes_;
  std::vector<ValueId> results_;
  DataType type_ = DataType::kFloat;  // of the output's gradient; everything is computed in it
  Definition definition_;
  std::map<const ElementNode*, Facts> facts_;
  std::vector<Element> order_, kept_;
  std::map<const ElementNode*, NamedTensor> values_, adjoints_;
};

}  // namespace

std::vector<ValueId> derived_gradient(const GradientCall& call) { return Derivation(call).run(); }

}  // namespace rewright::operators
