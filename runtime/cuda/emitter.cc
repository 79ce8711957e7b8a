#include "runtime/cuda/emitter.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "operators/error.h"
#include "runtime/cuda/source_names.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

const char* type_of(Scalar scalar) {
  return scalar == Scalar::kReal ? "real" : scalar == Scalar::kInteger ? "integer" : "bool";
}

std::string literal(std::int64_t v) {
  if (v == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807LL - 1)";
  return v < 0 ? "(integer(" + std::to_string(v) + "LL))" : "integer(" + std::to_string(v) + "LL)";
}

std::string real_literal(double v) {
  if (std::isnan(v)) return "not_a_number()";
  if (std::isinf(v)) return v > 0 ? "infinity()" : "(-infinity())";
  char text[64];
  std::snprintf(text, sizeof(text), "%.17g", v);
  std::string s = text;
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return "real(" + s + ")";
}

const char* operation(Reduction r) {
  switch (r) {
    case Reduction::kSum:
      return "Sum";
    case Reduction::kProduct:
      return "Product";
    case Reduction::kMax:
      return "Max";
    case Reduction::kMin:
      return "Min";
  }
  return "";
}

std::string neutral(Reduction r, Scalar scalar) {
  const bool is_real = scalar == Scalar::kReal;
  switch (r) {
    case Reduction::kSum:
      return is_real ? "real(0)" : "integer(0)";
    case Reduction::kProduct:
      return is_real ? "real(1)" : "integer(1)";
    case Reduction::kMax:
      return is_real ? "(-infinity())" : literal(std::numeric_limits<std::int64_t>::min());
    case Reduction::kMin:
      return is_real ? "infinity()" : literal(std::numeric_limits<std::int64_t>::max());
  }
  return {};
}

}  // namespace

// ---- Scopes
void Emitter::open() { scopes_.emplace_back(); }

std::string Emitter::close() {
  std::string code = std::move(scopes_.back().code);
  scopes_.pop_back();
  return code;
}

void Emitter::close_into() {
  const std::string code = close();
  scopes_.back().code += code;
}

void Emitter::line(const std::string& statement) {
  scopes_.back().code += std::string(2 * scopes_.size(), ' ') + statement + "\n";
}

void Emitter::define(const Index& variable, const std::string& text, IndexRange range) {
  const Atom* atom = variable.as_atom();
  variables_[atom->id] = text;
  ranges.set(atom->id, range);
  note(range);
}

void Emitter::unroll(const Index& variable, const std::string& base, int count, IndexRange range) {
  unrolled_ = variable.as_atom()->id;
  base_ = base;
  vector_ = count;
  define(variable, base, range);
}

void Emitter::part(int number) {
  part_ = number;
  scopes_.back().elements.clear();  // index arithmetic is kept
  if (number > 0) variables_[unrolled_] = "(" + base_ + " + " + std::to_string(number) + ")";
}

void Emitter::know(const Index& address, const std::string& text) {
  known_address_ = without_constants(address);
  known_text_ = text;
}

std::string Emitter::let(const std::string& type, const std::string& text) {
  for (const Scope& scope : scopes_)
    if (const auto found = scope.texts.find(text); found != scope.texts.end()) return found->second;
  const std::string name = fresh("t");
  line("const " + type + " " + name + " = " + text + ";");
  scopes_.back().texts[text] = name;
  return name;
}

// ---- Indices
void Emitter::note(IndexRange range) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  if (range.low < -kLimit || range.high > kLimit) wide_ = true;
}

std::string Emitter::atom(const Atom& atom) {
  const IndexRange range = ranges.of(atom);
  note(range);
  if (range.low == range.high && atom.kind != Atom::Kind::kLoad) return std::to_string(range.low);
  switch (atom.kind) {
    case Atom::Kind::kBound:
      return variables_.at(atom.id);
    case Atom::Kind::kSymbol:
      throw Error(ErrorCode::kUnsupported, "the size " + atom.name + " is not known");
    case Atom::Kind::kLoad:
      return let("index_t", "(index_t)" + as(atom.element, Scalar::kInteger));
    default:
      break;
  }
  const std::string a = index(atom.arguments[0]), b = index(atom.arguments[1]);
  const bool plain = ranges.of(atom.arguments[0]).low >= 0 && ranges.of(atom.arguments[1]).low >= 1;
  const auto call = [&](const char* f) { return std::string(f) + "<index_t>(" + a + ", " + b + ")"; };
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv:
      return let("index_t", plain ? a + " / " + b : call("floor_div"));
    case Atom::Kind::kMod:
      return let("index_t", plain ? a + " % " + b : call("floor_mod"));
    case Atom::Kind::kMin:
      return let("index_t", call("least"));
    default:
      return let("index_t", call("most"));
  }
}

std::string Emitter::monomial(const Monomial& m) {
  note(ranges.of(m));
  std::string text;
  for (const AtomPointer& factor : m.factors) text += (text.empty() ? "" : " * ") + atom(*factor);
  if (m.coefficient != 1) text = "(index_t)" + std::to_string(m.coefficient) + " * " + text;
  return text;
}

std::string Emitter::index(const Index& i) {
  note(ranges.of(i));
  if (i.is_constant()) {
    const std::string text = std::to_string(i.constant_term());
    return i.constant_term() < 0 ? "(" + text + ")" : text;
  }
  std::string text;
  for (const Monomial& m : i.polynomial()->monomials) text += (text.empty() ? "" : " + ") + monomial(m);
  if (i.constant_term() != 0) text += " + " + std::to_string(i.constant_term());
  const bool simple = text.find(' ') == std::string::npos;
  return simple ? text : "(" + text + ")";
}

std::string Emitter::condition(const std::vector<Condition>& conditions) {
  std::string text;
  for (const Condition& c : conditions) {
    const auto decided = ranges.decide(c);
    if (decided == true) continue;
    if (decided == false) return "false";
    static const char* const kRelations[] = {" == ", " != ", " < ", " <= "};
    const std::string part = index(c.left) + kRelations[static_cast<int>(c.relation)] + index(c.right);
    text += (text.empty() ? "" : " && ") + part;
  }
  return text;
}

// ---- Elements
std::string Emitter::as(const Element& e, Scalar scalar) {
  if (e->scalar == scalar) return element(e);
  if (scalar == Scalar::kInteger && e->scalar == Scalar::kBoolean) return "integer(" + element(e) + ")";
  if (scalar == Scalar::kBoolean && e->scalar == Scalar::kInteger) return "(" + element(e) + " != 0)";
  throw Error(ErrorCode::kUnsupported, "a real stands where an integer is needed");
}

std::string Emitter::element(const Element& e) {
  for (const Scope& scope : scopes_)
    if (const auto found = scope.elements.find(e.get()); found != scope.elements.end()) return found->second;
  std::string text = compute(e);
  scopes_.back().elements[e.get()] = text;
  return text;
}

std::string Emitter::compute(const Element& e) {
  const std::string type = type_of(e->scalar);
  const Scalar scalar = e->scalar == Scalar::kReal ? Scalar::kReal : Scalar::kInteger;
  const auto binary = [&](const char* f) {
    return let(type, std::string(f) + "(" + as(e->arguments[0], scalar) + ", " + as(e->arguments[1], scalar) + ")");
  };
  switch (e->kind) {
    case Kind::kConstant:
      if (e->scalar == Scalar::kReal) {
        if (!e->real.symbol.empty()) throw Error(ErrorCode::kUnsupported, "the parameter " + e->real.symbol + " has no value");
        return real_literal(e->real.value);
      }
      return e->scalar == Scalar::kBoolean ? (e->integer ? "true" : "false") : literal(e->integer);
    case Kind::kFromIndex:
      return let("integer", "integer(" + index(e->index) + ")");
    case Kind::kRead:
      return read(*e);
    case Kind::kAdd:
      return binary("plus");
    case Kind::kMultiply:
      return binary("times");
    case Kind::kDivide:
      if (e->scalar == Scalar::kReal) return let(type, element(e->arguments[0]) + " / " + element(e->arguments[1]));
      return binary(function_name(functions::integer_divide).c_str());
    case Kind::kMaximum:
      return binary("larger");
    case Kind::kMinimum:
      return binary("smaller");
    case Kind::kApply: {
      const std::string f = function_name(*e->function);
      if (f.empty()) throw Error(ErrorCode::kUnsupported, "CUDA kernels have no function " + std::string(e->function->name));
      std::string arguments;
      for (const Element& a : e->arguments)
        arguments += (arguments.empty() ? "" : ", ") + (a->scalar == Scalar::kReal ? element(a) : as(a, Scalar::kInteger));
      return let(type, f + "(" + arguments + ")");
    }
    case Kind::kChoose:
      return branch(condition(e->conditions), e->arguments[0], e->arguments[1], e->scalar);
    case Kind::kSelect:
      return branch(as(e->arguments[0], Scalar::kBoolean), e->arguments[1], e->arguments[2], e->scalar);
    case Kind::kConvert: {
      const Element& from = e->arguments[0];
      const std::string x = element(from);
      if (from->scalar == e->scalar) return x;
      if (e->scalar == Scalar::kReal) return let(type, "real(" + x + ")");
      if (e->scalar == Scalar::kBoolean) return let(type, x + " != 0");
      return let(type, from->scalar == Scalar::kReal ? "to_integer(" + x + ")" : "integer(" + x + ")");
    }
    case Kind::kReduce:
      return reduce(*e, false);
  }
  return {};
}

std::string Emitter::branch(const std::string& condition, const Element& then, const Element& otherwise, Scalar scalar) {
  if (condition.empty() || condition == "true") return element(then);
  if (condition == "false") return element(otherwise);
  const std::string name = fresh("c");
  line(std::string(type_of(scalar)) + " " + name + ";");
  const auto part = [&](const Element& e) {
    open();
    scopes_.back().guarded = true;
    const std::string v = e->scalar == scalar ? element(e) : as(e, scalar);
    line(name + " = " + v + ";");
    return close();
  };
  const std::string first = part(then), second = part(otherwise);
  line("if (" + condition + ") {");
  scopes_.back().code += first;
  line("} else {");
  scopes_.back().code += second;
  line("}");
  return name;
}

// Do the elements from here on lie side by side, the first one aligned, along the variable that is unrolled?
bool Emitter::reads_vector(const Index& address) const {
  const auto guarded = [](const Scope& s) { return s.guarded; };
  if (vector_ <= 1 || address.is_constant() || std::any_of(scopes_.begin(), scopes_.end(), guarded)) return false;
  bool along = false;
  for (const Monomial& m : address.polynomial()->monomials) {
    bool mentions = false, known = true;
    const auto visit = [&](const Atom& a) {
      mentions = mentions || (a.kind == Atom::Kind::kBound && a.id == unrolled_);
      known = known && a.kind != Atom::Kind::kLoad;
    };
    for (const AtomPointer& factor : m.factors) {
      visit(*factor);
      for (const Index& argument : factor->arguments) for_each_atom(argument, visit);
    }
    if (!known) return false;
    if (mentions) {
      if (along || m.coefficient != 1 || m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kBound) return false;
      along = true;
    } else if (m.coefficient % vector_ != 0) {
      return false;
    }
  }
  return along && address.constant_term() % vector_ == 0;
}

// Variables that have one value only as that value.
Index Emitter::without_constants(const Index& address) const {
  return substitute(address, [&](const Atom& a) -> std::optional<Index> {
    if (a.kind != Atom::Kind::kBound) return std::nullopt;
    const IndexRange r = ranges.of(a);
    return r.low == r.high ? std::optional<Index>(r.low) : std::nullopt;
  });
}

// The address for the part that is computed now, or for the first one of those that are unrolled.
std::string Emitter::address(const Index& address, bool of_first) {
  if (known_address_) {
    const Index difference = address - *known_address_;
    if (difference.is_constant()) {
      const std::int64_t more = difference.constant_term() + (of_first ? 0 : part_);
      note(ranges.of(address));
      return more == 0 ? known_text_ : known_text_ + " + " + std::to_string(more);
    }
  }
  if (!of_first) return index(address);
  std::string& variable = variables_.at(unrolled_);
  const std::string now = variable;
  variable = base_;
  std::string text = index(address);
  variables_.at(unrolled_) = now;
  return text;
}

std::string Emitter::read(const ElementNode& e) {
  const KernelOperand& operand = operands_.at(static_cast<std::size_t>(e.operand));
  const std::string pointer = "p" + std::to_string(e.operand);
  const std::string type = type_of(e.scalar);
  Index place(0);
  std::vector<Condition> conditions;
  std::string outside;  // positions that data may lead outside, kept inside
  std::int64_t stride = 1;
  for (std::size_t a = operand.sizes.size(); a-- > 0;) {
    const Index& p = e.position[a];
    const IndexRange range = ranges.of(p);
    const std::int64_t size = operand.sizes[a];
    if (range.low >= 0 && range.high < size) {
      place += p * Index(stride);
    } else if (e.zero_outside) {
      conditions.push_back(less_equal(0, p));
      conditions.push_back(less(p, size));
      place += p * Index(stride);
    } else {
      checks_ = true;
      note({0, size});
      const std::string kept = let("index_t", "inside<index_t>(" + index(p) + ", " + std::to_string(size) + ", outside)");
      outside += " + " + kept + " * (index_t)" + std::to_string(stride);
      note({0, size * stride});
    }
    stride *= size;
  }
  if (stride == 0) return e.scalar == Scalar::kReal ? "real(0)" : e.scalar == Scalar::kBoolean ? "false" : "integer(0)";
  place = without_constants(place);
  const std::string guard = condition(conditions);
  if (guard.empty() && outside.empty() && reads_vector(place)) {
    const std::string kind = "vector<" + type_name(operand.type) + ", " + std::to_string(vector_) + ">";
    const std::string all = let(kind, "*(const " + kind + "*)(" + pointer + " + " + address(place, true) + ")");
    return let(type, "value(" + all + ".at[" + std::to_string(part_) + "])");
  }
  const std::string at = address(place, false) + outside;
  const std::string load = "value(" + pointer + "[" + at + "])";
  if (guard.empty()) return let(type, load);
  if (guard == "false") return e.scalar == Scalar::kReal ? "real(0)" : e.scalar == Scalar::kBoolean ? "false" : "integer(0)";
  return let(type, "(" + guard + ") ? " + load + " : " + type + "(0)");
}

// ---- Reductions
void Emitter::hoist(const Element& e, const std::set<std::uint64_t>& available, bool in_all_lanes) {
  std::set<const ElementNode*> seen;
  hoist_inside(e, available, in_all_lanes, seen);
}

void Emitter::hoist_inside(const Element& e, const std::set<std::uint64_t>& available, bool in_all_lanes,
                           std::set<const ElementNode*>& seen) {
  if (!seen.insert(e.get()).second) return;
  const auto visit_index = [&](const Index& i) {
    for_each_atom(i, [&](const Atom& a) {
      if (a.kind == Atom::Kind::kLoad) hoist_inside(a.element, available, in_all_lanes, seen);
    });
  };
  for (const Index& p : e->position) visit_index(p);
  for (const Condition& c : e->conditions) {
    visit_index(c.left);
    visit_index(c.right);
  }
  if (e->kind == Kind::kFromIndex) visit_index(e->index);
  for (const Element& a : e->arguments) hoist_inside(a, available, in_all_lanes, seen);
  if (e->kind != Kind::kReduce) return;
  for (const Scope& scope : scopes_)
    if (scope.elements.contains(e.get())) return;
  const auto& free = free_.of(*e);
  if (!std::includes(available.begin(), available.end(), free.begin(), free.end())) return;
  std::string text = reduce(*e, in_all_lanes);
  scopes_.back().elements[e.get()] = std::move(text);
}

std::string Emitter::reduce(const ElementNode& e, bool in_all_lanes) {
  const ReductionNest nest = reduction_nest(e);
  const Scalar scalar = e.scalar == Scalar::kReal ? Scalar::kReal : Scalar::kInteger;
  const std::string type = type_of(scalar), result = fresh("r");
  line(type + " " + result + " = " + neutral(e.reduction, scalar) + ";");
  if (nest.steps == 0) return e.scalar == Scalar::kBoolean ? "(" + result + " != 0)" : result;
  const bool together = in_all_lanes && lanes > 1 && nest.steps > 0;
  std::set<std::uint64_t> available;
  for (const auto& [id, text] : variables_) available.insert(id);
  hoist(nest.body, available, in_all_lanes);
  const int vector = std::exchange(vector_, 1);  // inside of the loop nothing is read in vectors
  if (together) {
    const std::string step = fresh("s");
    note({0, nest.steps + lanes});
    line("for (index_t " + step + " = lane; " + step + " < " + std::to_string(nest.steps) + "; " + step +
         " += " + std::to_string(lanes) + ") {");
    open();
    std::int64_t stride = nest.steps;
    for (std::size_t v = 0; v < nest.variables.size(); ++v) {
      const std::int64_t size = nest.bounds[v].value();
      stride /= size;
      std::string text = step;
      if (stride > 1) text += " / " + std::to_string(stride);
      if (v > 0 && size > 1) text += " % " + std::to_string(size);
      define(nest.variables[v], size == 1 ? "0" : let("index_t", text), {0, size - 1});
    }
  } else {
    for (std::size_t v = 0; v < nest.variables.size(); ++v) {
      const IndexRange bound = ranges.of(nest.bounds[v]);
      const std::string name = fresh("k"), end = index(nest.bounds[v]);
      line("for (index_t " + name + " = 0; " + name + " < " + end + "; ++" + name + ") {");
      open();
      define(nest.variables[v], name, {0, std::max<std::int64_t>(bound.high - 1, 0)});
    }
  }
  const std::string guard = condition(nest.conditions);
  if (!guard.empty()) line("if (!(" + guard + ")) continue;");
  const std::string v = nest.body->scalar == scalar ? element(nest.body) : as(nest.body, scalar);
  line(result + " = " + std::string(operation(e.reduction)) + "::of(" + result + ", " + v + ");");
  const std::size_t opened = together ? 1 : nest.variables.size();
  for (std::size_t n = 0; n < opened; ++n) {
    close_into();
    line("}");
  }
  vector_ = vector;
  if (!together) return e.scalar == Scalar::kBoolean ? "(" + result + " != 0)" : result;
  return let(type, "across<" + std::to_string(lanes) + ", " + operation(e.reduction) + ">(" + result + ")");
}

}  // namespace rewright::cuda
