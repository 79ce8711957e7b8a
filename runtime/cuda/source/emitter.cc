#include "runtime/cuda/source/emitter.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "runtime/cuda/source/source_names.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

std::string real_literal(double v) {
  if (std::isnan(v)) return "not_a_number()";
  if (std::isinf(v)) return v > 0 ? "infinity()" : "(-infinity())";
  char text[64];
  std::snprintf(text, sizeof(text), "%.17g", v);
  std::string s = text;
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return "real(" + s + ")";
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
  scopes_.back().elements.clear();  // index arithmetic stays valid
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

}  // namespace rewright::cuda
