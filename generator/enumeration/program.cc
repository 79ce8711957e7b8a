#include "generator/enumeration/program.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "generator/enumeration/field.h"

namespace rewright::generator {

namespace {

using ElementKind = ElementNode::Kind;
using Environment = std::unordered_map<std::uint64_t, std::int64_t>;  // bound variables by their numbers

[[noreturn]] void unsupported(const std::string& what) { throw Error(ErrorCode::kUnsupported, what + " in a fingerprint"); }

std::int64_t evaluate(const Index& index, const Environment& variables);

std::int64_t evaluate(const Atom& atom, const Environment& variables) {
  if (atom.kind == Atom::Kind::kBound) return variables.at(atom.id);
  if (atom.kind == Atom::Kind::kSymbol || atom.kind == Atom::Kind::kLoad || atom.kind == Atom::Kind::kPosition)
    unsupported("a position that depends on elements");
  const std::int64_t a = evaluate(atom.arguments[0], variables), b = evaluate(atom.arguments[1], variables);
  if (atom.kind == Atom::Kind::kMin) return std::min(a, b);
  if (atom.kind == Atom::Kind::kMax) return std::max(a, b);
  if (b < 1) unsupported("a division of an index by " + std::to_string(b));
  const std::int64_t quotient = a / b - (a % b < 0 ? 1 : 0);
  return atom.kind == Atom::Kind::kFloorDiv ? quotient : a - quotient * b;
}

std::int64_t evaluate(const Index& index, const Environment& variables) {
  std::int64_t total = index.constant_term();
  if (!index.polynomial()) return total;
  for (const Monomial& monomial : index.polynomial()->monomials) {
    std::int64_t product = monomial.coefficient;
    for (const AtomPointer& atom : monomial.factors) product *= evaluate(*atom, variables);
    total += product;
  }
  return total;
}

bool holds(const std::vector<Condition>& conditions, const Environment& variables) {
  for (const Condition& c : conditions) {
    const std::int64_t left = evaluate(c.left, variables), right = evaluate(c.right, variables);
    const bool yes = c.relation == Condition::Relation::kEqual      ? left == right
                     : c.relation == Condition::Relation::kNotEqual ? left != right
                     : c.relation == Condition::Relation::kLess     ? left < right
                                                                    : left <= right;
    if (!yes) return false;
  }
  return true;
}

}  // namespace

struct ProgramBuilder::Unroller {
  Program& program;
  std::span<const TensorType> operands;
  std::span<const std::size_t> offsets;
  Environment variables;
  std::map<Residue, Program::Place> constants;
  std::map<std::tuple<Program::Code, Program::Place, Program::Place, Program::Place, const Function*>, Program::Place> known;
  // During compilation, instructions refer to registers by these numbers. Constants are moved to the front when all are known.
  static constexpr std::size_t kConstantBase = 1u << 24;

  Program::Place constant(Residue value) {
    const auto [at, fresh] = constants.try_emplace(value, 0);
    if (fresh) {
      at->second = Program::place(Program::kRegisters, kConstantBase + program.constants_.size());
      program.constants_.push_back(value);
    }
    return at->second;
  }
  std::optional<Residue> constant_at(Program::Place p) const {
    const std::size_t offset = p & ((1u << Program::kOffsetBits) - 1);
    if (p >> Program::kOffsetBits != Program::kRegisters || offset < kConstantBase) return std::nullopt;
    return program.constants_[offset - kConstantBase];
  }

  Program::Place emit(Program::Code code, Program::Place a, Program::Place b = 0, Program::Place c = 0,
                      const Function* function = nullptr) {
    const auto [at, fresh] = known.try_emplace({code, a, b, c, function}, 0);
    if (fresh) {
      at->second = Program::place(Program::kRegisters, program.instructions_.size());
      program.instructions_.push_back({code, a, b, c, function});
    }
    return at->second;
  }

  Program::Place arithmetic(Program::Code code, Program::Place a, Program::Place b) {
    const FieldArithmetic field{0};
    const auto x = constant_at(a), y = constant_at(b);
    if (x && y && field.finite(*x, *y) && (code == Program::Code::kAdd || code == Program::Code::kMultiply))
      return constant(code == Program::Code::kAdd ? field.add(*x, *y) : field.multiply(*x, *y));
    if (code == Program::Code::kDivide && y && *y != 0 && *y < kFieldPrime)
      return arithmetic(Program::Code::kMultiply, a, constant(field.inverse(*y)));
    if (code == Program::Code::kMultiply && ((x && *x == 1) || (y && *y == 1))) return x && *x == 1 ? b : a;
    if (code == Program::Code::kAdd && ((x && *x == 0) || (y && *y == 0))) return x && *x == 0 ? b : a;
    return emit(code, a, b);
  }

  // Integers and truth values that depend on positions alone.
  std::int64_t integer(const ElementNode& e) {
    switch (e.kind) {
      case ElementKind::kConstant:
        return e.integer;
      case ElementKind::kFromIndex:
        return evaluate(e.index, variables);
      case ElementKind::kAdd:
        return integer(*e.arguments[0]) + integer(*e.arguments[1]);
      case ElementKind::kMultiply:
        return integer(*e.arguments[0]) * integer(*e.arguments[1]);
      case ElementKind::kChoose:
        return integer(*e.arguments[holds(e.conditions, variables) ? 0 : 1]);
      case ElementKind::kReduce: {
        if (e.reduction != Reduction::kSum) unsupported("a reduction of integers");
        std::int64_t total = 0;
        for_each(e, [&](const ElementNode& body) { total += integer(body); });
        return total;
      }
      default:
        unsupported("an integer element");
    }
  }

  template <class Body>
  void for_each(const ElementNode& e, const Body& body) {
    const std::int64_t bound = evaluate(e.bound, variables);
    const std::uint64_t id = e.index.as_atom()->id;
    for (std::int64_t i = 0; i < bound; ++i) {
      variables[id] = i;
      if (holds(e.conditions, variables)) body(*e.arguments[0]);
    }
    variables.erase(id);
  }

  Program::Place read(const ElementNode& e) {
    const TensorType& type = operands[static_cast<std::size_t>(e.operand)];
    if (scalar(type.type) != Scalar::kReal) unsupported("an integer operand");
    std::int64_t at = 0;
    for (std::size_t a = 0; a < type.rank(); ++a) {
      const std::int64_t i = evaluate(e.position[a], variables), size = type.shape[a].value();
      if (i < 0 || i >= size) {
        if (e.zero_outside) return constant(0);
        throw Error(ErrorCode::kBadInput, "a position is outside of an operand");
      }
      at = at * size + i;
    }
    return Program::place(static_cast<std::uint32_t>(e.operand),
                          offsets[static_cast<std::size_t>(e.operand)] + static_cast<std::size_t>(at));
  }

  // Flattens a sum into products of two places (or single places), which make up most of a convolution or product.
  void add_terms(const ElementNode& e, std::vector<std::pair<Program::Place, Program::Place>>& products) {
    if (e.kind == ElementKind::kReduce && e.reduction == Reduction::kSum) {
      for_each(e, [&](const ElementNode& body) { add_terms(body, products); });
      return;
    }
    Program::Place a, b = constant(1);
    if (e.kind == ElementKind::kMultiply) {
      a = real(*e.arguments[0]), b = real(*e.arguments[1]);
    } else {
      a = real(e);
    }
    if (constant_at(a) == Residue{0} || constant_at(b) == Residue{0}) return;
    products.emplace_back(a, b);
  }

  Program::Place sum(const ElementNode& e) {
    std::vector<std::pair<Program::Place, Program::Place>> products;
    add_terms(e, products);
    if (products.empty()) return constant(0);
    if (products.size() == 1) return arithmetic(Program::Code::kMultiply, products[0].first, products[0].second);
    const bool plain = std::all_of(products.begin(), products.end(), [&](const auto& p) { return p.second == constant(1); });
    const std::size_t begin = program.terms_.size();
    for (const auto& [a, b] : products) {
      program.terms_.push_back(a);
      if (!plain) program.terms_.push_back(b);
    }
    return emit(plain ? Program::Code::kSum : Program::Code::kSumOfProducts, static_cast<Program::Place>(begin),
                static_cast<Program::Place>(program.terms_.size()));
  }

  Program::Place real(const ElementNode& e) {
    const auto argument = [&](std::size_t i) { return real(*e.arguments[i]); };
    switch (e.kind) {
      case ElementKind::kConstant:
        if (e.scalar != Scalar::kReal) unsupported("an integer constant");
        if (!e.real.symbol.empty()) unsupported("an unknown parameter");
        return constant(FieldArithmetic{0}.from(e.real));
      case ElementKind::kRead:
        return read(e);
      case ElementKind::kAdd:
        return arithmetic(Program::Code::kAdd, argument(0), argument(1));
      case ElementKind::kMultiply:
        return arithmetic(Program::Code::kMultiply, argument(0), argument(1));
      case ElementKind::kDivide:
        return arithmetic(Program::Code::kDivide, argument(0), argument(1));
      case ElementKind::kMaximum:
        return emit(Program::Code::kMaximum, argument(0), argument(1));
      case ElementKind::kMinimum:
        return emit(Program::Code::kMinimum, argument(0), argument(1));
      case ElementKind::kApply: {
        const Program::Place a = argument(0), b = e.arguments.size() > 1 ? argument(1) : a;
        return emit(e.scalar == Scalar::kReal ? Program::Code::kApply : Program::Code::kTest, a, b, 0, e.function);
      }
      case ElementKind::kChoose:
        return argument(holds(e.conditions, variables) ? 0 : 1);
      case ElementKind::kSelect:
        return emit(Program::Code::kSelect, argument(0), argument(1), argument(2));
      case ElementKind::kConvert:
        if (e.scalar != Scalar::kReal) unsupported("a conversion to integers");
        if (e.arguments[0]->scalar == Scalar::kReal) return argument(0);
        return constant(FieldArithmetic{0}.from_integer(integer(*e.arguments[0])));
      case ElementKind::kReduce: {
        if (e.reduction == Reduction::kSum) return sum(e);
        std::optional<Program::Place> total;
        const Program::Code code = e.reduction == Reduction::kProduct ? Program::Code::kMultiply
                                   : e.reduction == Reduction::kMax   ? Program::Code::kMaximum
                                                                      : Program::Code::kMinimum;
        for_each(e, [&](const ElementNode& body) {
          const Program::Place next = real(body);
          total = total ? emit(code, *total, next) : next;
        });
        // An inner part of a window may be completely outside of the operand.
        if (total) return *total;
        return constant(e.reduction == Reduction::kProduct ? 1
                        : e.reduction == Reduction::kMax   ? FieldArithmetic::kLowest
                                                           : FieldArithmetic::kHighest);
      }
      case ElementKind::kFromIndex:
        break;
    }
    unsupported("an integer");
  }
};

void ProgramBuilder::add(const Output& output, std::span<const TensorType> operands, std::span<const std::size_t> offsets) {
  if (operands.size() > Program::kMaximumOperands) unsupported("an operator of more than seven operands");
  if (!output.element || scalar(output.type.type) != Scalar::kReal) unsupported("an output that has no real elements");
  Unroller unroller{program_, operands, offsets, {}, {}, {}};
  for (std::size_t i = 0; i < program_.constants_.size(); ++i)
    unroller.constants.emplace(program_.constants_[i], Program::place(Program::kRegisters, Unroller::kConstantBase + i));
  const Sizes sizes = values(output.type.shape);
  const std::int64_t count = element_count(sizes);
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t rest = n;
    for (std::size_t a = sizes.size(); a-- > 0; rest /= sizes[a])
      unroller.variables[output.position[a].as_atom()->id] = rest % sizes[a];
    program_.results_.push_back(unroller.real(*output.element));
  }
}

Program ProgramBuilder::finish() && {
  const std::size_t constants = program_.constants_.size();
  const auto settle = [&](Program::Place& p) {
    const std::size_t offset = p & ((1u << Program::kOffsetBits) - 1);
    if (p >> Program::kOffsetBits != Program::kRegisters) return;
    p = Program::place(Program::kRegisters,
                       offset >= Unroller::kConstantBase ? offset - Unroller::kConstantBase : offset + constants);
  };
  for (Program::Instruction& i : program_.instructions_) {
    if (i.code == Program::Code::kSum || i.code == Program::Code::kSumOfProducts) continue;
    settle(i.a), settle(i.b), settle(i.c);
  }
  for (Program::Place& p : program_.terms_) settle(p);
  for (Program::Place& p : program_.results_) settle(p);
  return std::move(program_);
}

// The memory of one run, which places refer to.
struct Program::Frame {
  std::array<const Residue*, kRegisters + 1> bases{};
  Residue* next;  // the first register after the constants
  Residue operator[](Place p) const { return bases[p >> kOffsetBits][p & ((1u << kOffsetBits) - 1)]; }
};

template <class Constant>
Program::Frame Program::begin(std::span<const Residue* const> operands, std::vector<Residue>& registers,
                              const Constant& constant) const {
  registers.resize(std::max(registers.size(), constants_.size() + instructions_.size()));
  Frame frame{{}, std::transform(constants_.begin(), constants_.end(), registers.data(), constant)};
  std::copy(operands.begin(), operands.end(), frame.bases.begin());
  frame.bases[kRegisters] = registers.data();
  return frame;
}

template <class Field>
bool Program::run(std::span<const Residue* const> operands, const Field& field, std::vector<Residue>& registers,
                  Residue* results) const {
  const Frame at = begin(operands, registers, [](Residue value) { return value; });
  Residue* next = at.next;
  for (const Instruction& i : instructions_) {
    switch (i.code) {
      case Code::kAdd:
        *next = field.add(at[i.a], at[i.b]);
        break;
      case Code::kMultiply:
        *next = field.multiply(at[i.a], at[i.b]);
        break;
      case Code::kDivide:
        *next = field.divide(at[i.a], at[i.b]);
        break;
      case Code::kMaximum:
        *next = field.maximum(at[i.a], at[i.b]);
        break;
      case Code::kMinimum:
        *next = field.minimum(at[i.a], at[i.b]);
        break;
      case Code::kApply: {
        const Residue x[2] = {at[i.a], at[i.b]};
        *next = field.apply(*i.function, x);
        break;
      }
      case Code::kTest: {
        const Residue x[2] = {at[i.a], at[i.b]};
        *next = field.test(*i.function, x);
        break;
      }
      case Code::kSelect:
        *next = at[i.a] ? at[i.b] : at[i.c];
        break;
      case Code::kSum: {
        Residue total = 0;
        for (Place t = i.a; t < i.b; ++t) total = field.add(total, at[terms_[t]]);
        *next = total;
        break;
      }
      case Code::kSumOfProducts: {
        // Elements are below 2^61: 32 products fit into 128 bits with room to spare.
        Residue total = 0;
        for (Place t = i.a; t < i.b;) {
          unsigned __int128 part = 0;
          for (const Place end = std::min<Place>(i.b, t + 64); t < end; t += 2)
            part += static_cast<unsigned __int128>(at[terms_[t]]) * at[terms_[t + 1]];
          const Residue low = static_cast<Residue>(part & kFieldPrime);
          const auto high = static_cast<unsigned __int128>(part >> 61);
          const Residue middle = static_cast<Residue>(high & kFieldPrime) + static_cast<Residue>(high >> 61);
          total = field.add(total, field.add(low == kFieldPrime ? 0 : low, FieldArithmetic::reduce(middle)));
        }
        *next = total;
        break;
      }
    }
    ++next;
  }
  Residue largest = 0;
  for (const Place p : results_) {
    const Residue value = at[p];
    largest = std::max(largest, value);
    *results++ = value;
  }
  return largest < kFieldPrime;
}

template bool Program::run(std::span<const Residue* const>, const LawfulField&, std::vector<Residue>&, Residue*) const;
template bool Program::run(std::span<const Residue* const>, const FieldArithmetic&, std::vector<Residue>&, Residue*) const;

Residue Program::Trace::constant(Residue value) const { return FieldArithmetic::mix(0xc0, value); }

Residue Program::Trace::variable(std::uint64_t tensor, std::uint64_t element) const {
  return FieldArithmetic::mix(FieldArithmetic::mix(0x7a, tensor), element);
}

Residue Program::Trace::operation(Code code, Residue a, Residue b, Residue c, const Function* function) {
  const auto mix = FieldArithmetic::mix;
  if (code == Code::kAdd || code == Code::kMultiply) {
    if (b < a) std::swap(a, b);
    const Residue one = constant(1);  // a factor of 1 is exact
    if (code == Code::kMultiply && (a == one || b == one)) return a == one ? b : a;
  }
  if (code == Code::kMaximum || code == Code::kMinimum) {
    std::vector<Residue> all;
    for (const Residue x : {a, b}) {
      const auto known = extremes_.find(mix(static_cast<Residue>(code), x));
      if (known == extremes_.end())
        all.push_back(x);
      else
        all.insert(all.end(), known->second.begin(), known->second.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.size() == 1) return all[0];
    Residue h = static_cast<Residue>(code);
    for (const Residue x : all) h = mix(h, x);
    extremes_.emplace(mix(static_cast<Residue>(code), h), std::move(all));
    return h;
  }
  const Residue name = function ? hash_text(function->name) : 0;
  return mix(mix(mix(mix(static_cast<Residue>(code), name), a), b), c);
}

void Program::run(std::span<const Residue* const> operands, Trace& trace, std::vector<Residue>& registers,
                  Residue* results) const {
  const Frame at = begin(operands, registers, [&](Residue value) { return trace.constant(value); });
  Residue* next = at.next;
  for (const Instruction& i : instructions_) {
    if (i.code == Code::kSum || i.code == Code::kSumOfProducts) {
      const Place step = i.code == Code::kSum ? 1 : 2;
      for (Place t = i.a; t < i.b; t += step) {
        const Residue term = step == 1 ? at[terms_[t]] : trace.operation(Code::kMultiply, at[terms_[t]], at[terms_[t + 1]]);
        *next = t == i.a ? term : trace.operation(Code::kAdd, *next, term);
      }
    } else {
      const bool unary = i.code == Code::kApply && i.function && i.function->arity == 1;
      *next = trace.operation(i.code, at[i.a], unary ? 0 : at[i.b], i.code == Code::kSelect ? at[i.c] : 0, i.function);
    }
    ++next;
  }
  for (const Place p : results_) *results++ = at[p];
}

}  // namespace rewright::generator
