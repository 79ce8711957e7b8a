#include "operators/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

namespace rewright {

namespace {

using Kind = ElementNode::Kind;

// ---- Arithmetics: what a real is. Integers are 64-bit integers in both.

struct DoubleArithmetic {
  using Value = double;
  Value from(const Real& r) const {
    if (!r.symbol.empty()) throw Error(ErrorCode::kUnsupported, "the parameter " + r.symbol + " has no value");
    return r.value;
  }
  Value from_integer(std::int64_t v) const { return static_cast<double>(v); }
  std::int64_t to_integer(Value v) const {
    if (std::isnan(v)) return 0;
    if (v >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
    if (v < -0x1p63) return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(v);
  }
  bool to_boolean(Value v) const { return v != 0; }
  Value zero() const { return 0; }
  Value one() const { return 1; }
  Value lowest() const { return -std::numeric_limits<double>::infinity(); }
  Value highest() const { return std::numeric_limits<double>::infinity(); }
  Value add(Value a, Value b) const { return a + b; }
  Value multiply(Value a, Value b) const { return a * b; }
  Value divide(Value a, Value b) const { return a / b; }
  Value maximum(Value a, Value b) const { return std::isnan(a) || a > b ? a : b; }
  Value minimum(Value a, Value b) const { return std::isnan(a) || a < b ? a : b; }
  Value apply(const Function& f, const Value* x) const {
    if (!f.real) throw Error(ErrorCode::kUnsupported, "function " + std::string(f.name) + " has no meaning on reals");
    return f.real(x);
  }
  bool test(const Function& f, const Value* x) const { return apply(f, x) != 0; }
};

struct FieldArithmetic {
  using Value = std::uint64_t;
  // Two values outside of the field stand for the infinities, the neutral elements of max and min.
  static constexpr Value kLowest = kFieldPrime, kHighest = kFieldPrime + 1;
  std::uint64_t key;

  static std::uint64_t mix(std::uint64_t h, std::uint64_t v) {  // splitmix64's finalizer
    h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    return h ^ (h >> 31);
  }
  static std::uint64_t hash_text(std::string_view s) {
    std::uint64_t h = 0xcbf29ce484222325ULL;
    for (char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return h;
  }
  static Value reduce(std::uint64_t v) {
    v = (v & kFieldPrime) + (v >> 61);
    return v >= kFieldPrime ? v - kFieldPrime : v;
  }
  Value from_integer(std::int64_t v) const {
    return v >= 0 ? reduce(static_cast<std::uint64_t>(v)) : negate(reduce(-static_cast<std::uint64_t>(v)));
  }
  static Value negate(Value a) { return a == 0 ? 0 : kFieldPrime - a; }
  Value from(const Real& r) const {
    if (r.symbol.empty()) {
      if (r.value == -std::numeric_limits<double>::infinity()) return kLowest;
      if (r.value == std::numeric_limits<double>::infinity()) return kHighest;
      if (std::fabs(r.value) < 0x1p60 && r.value == std::floor(r.value)) return from_integer(static_cast<std::int64_t>(r.value));
      // Dyadic fractions are what they are: 0.5 + 0.5 must be 1. Other numbers are rounded anyway.
      int exponent;
      const double mantissa = std::frexp(r.value, &exponent);
      if (std::isfinite(r.value)) {
        const Value numerator = from_integer(static_cast<std::int64_t>(std::ldexp(mantissa, 53)));
        const int shift = exponent - 53;
        const Value two = power(2, static_cast<std::uint64_t>(std::abs(shift)));
        return multiply(numerator, shift < 0 ? inverse(two) : two);
      }
      return mix(key, 0x7ff8) % kFieldPrime;
    }
    return mix(key, hash_text(r.symbol)) % kFieldPrime;
  }
  std::int64_t to_integer(Value v) const { return static_cast<std::int64_t>(mix(key, v) >> 48); }
  bool to_boolean(Value v) const { return v != 0; }
  Value zero() const { return 0; }
  Value one() const { return 1; }
  Value lowest() const { return kLowest; }
  Value highest() const { return kHighest; }
  bool finite(Value a, Value b) const { return a < kFieldPrime && b < kFieldPrime; }
  Value outside(std::uint64_t op, Value a, Value b) const { return mix(mix(key ^ op, std::min(a, b)), std::max(a, b)) % kFieldPrime; }
  Value add(Value a, Value b) const {
    if (!finite(a, b)) return outside(1, a, b);
    a += b;
    return a >= kFieldPrime ? a - kFieldPrime : a;
  }
  Value multiply(Value a, Value b) const {
    if (!finite(a, b)) return outside(2, a, b);
    const unsigned __int128 m = static_cast<unsigned __int128>(a) * b;
    const std::uint64_t r = static_cast<std::uint64_t>(m & kFieldPrime) + static_cast<std::uint64_t>(m >> 61);
    return r >= kFieldPrime ? r - kFieldPrime : r;
  }
  Value power(Value a, std::uint64_t e) const {
    Value r = 1;
    for (; e; e >>= 1, a = multiply(a, a))
      if (e & 1) r = multiply(r, a);
    return r;
  }
  Value inverse(Value a) const { return a == 0 ? mix(key, 0xd1) % kFieldPrime : power(a, kFieldPrime - 2); }
  Value divide(Value a, Value b) const { return finite(a, b) ? multiply(a, inverse(b)) : outside(3, a, b); }
  // A keyed order in which the two infinities are lowest and highest: max and min are associative, commutative, idempotent.
  bool before(Value a, Value b) const {
    if (a == b) return false;
    if (a == kLowest || b == kHighest) return true;
    if (b == kLowest || a == kHighest) return false;
    const auto x = mix(key ^ 0x0d0d, a), y = mix(key ^ 0x0d0d, b);
    return x != y ? x < y : a < b;
  }
  Value maximum(Value a, Value b) const { return before(a, b) ? b : a; }
  Value minimum(Value a, Value b) const { return before(a, b) ? a : b; }
  Value apply(const Function& f, const Value* x) const {
    if (f.zero_at_zero && f.arity == 1 && x[0] == 0) return 0;
    std::uint64_t h = mix(key, hash_text(f.name));
    if (f.commutative && x[1] < x[0]) return mix(mix(h, x[1]), x[0]) % kFieldPrime;
    for (int i = 0; i < f.arity; ++i) h = mix(h, x[i]);
    return h % kFieldPrime;
  }
  bool test(const Function& f, const Value* x) const {
    if (&f == &functions::equal) return x[0] == x[1];
    if (&f == &functions::less) return before(x[0], x[1]);
    if (&f == &functions::less_equal) return !before(x[1], x[0]);
    if (&f == &functions::is_nan || &f == &functions::is_infinite) return x[0] >= kFieldPrime && &f == &functions::is_infinite;
    return (apply(f, x) & 1) != 0;
  }
};

// ---- A denotation, flattened for known sizes

struct Code;

// sum of coefficient * product of factors, over slots of variables; affine if every term has just one slot.
struct IndexCode {
  struct Factor {
    Atom::Kind kind;
    int slot = -1;                      // kBound
    std::vector<IndexCode> arguments;   // kFloorDiv, kMod, kMin, kMax
    std::shared_ptr<const Code> load;   // kLoad
  };
  struct Term {
    std::int64_t coefficient;
    std::vector<Factor> factors;
  };
  std::int64_t constant = 0;
  std::vector<std::pair<int, std::int64_t>> affine;  // slot, coefficient
  std::vector<Term> others;
  bool is_affine() const { return others.empty(); }
  std::int64_t coefficient(int slot) const {
    for (const auto& [s, c] : affine)
      if (s == slot) return c;
    return 0;
  }
};

// A condition as code: value >= 0, == 0 or != 0.
struct Guard {
  IndexCode value;
  enum class Test { kNotNegative, kZero, kNotZero } test;
};

struct Code {
  Kind kind;
  Scalar scalar;
  Real real;
  std::int64_t integer = 0;
  IndexCode index;                // kFromIndex
  int operand = -1;               // kRead
  std::vector<IndexCode> position;
  std::vector<bool> checked;      // per axis: must the position be compared with the bounds?
  bool zero_outside = false;
  IndexCode offset;               // kRead with affine positions: where it is in the operand's elements
  bool affine = false;
  const Function* function = nullptr;
  std::vector<std::shared_ptr<const Code>> arguments;
  std::vector<Guard> guards;      // kChoose
  // kReduce: a nest of loops, innermost last
  Reduction reduction = Reduction::kSum;
  struct Loop {
    int slot;
    IndexCode bound;
    std::vector<Guard> guards;    // those decided when this loop's variable is known
    std::vector<Guard> late;      // of these, the ones that only testing decides (not linear in this variable)
  };
  std::vector<Loop> loops;
  // A sum of products of affine reads: the innermost loop runs over strides.
  std::vector<std::shared_ptr<const Code>> factors;
  // kReduce: if not -1, its values are kept in the memory of this number, by the free variables (slot and range).
  int memory = -1;
  std::vector<std::pair<int, std::int64_t>> memory_axes;
};
using CodePointer = std::shared_ptr<const Code>;

struct Interval {
  std::int64_t low, high;
};

class Flattener {
 public:
  explicit Flattener(std::vector<Sizes> operands) : operands_(std::move(operands)) {}

  int variable(const Index& index, std::int64_t bound) {
    const int slot = static_cast<int>(ranges_.size());
    slots_[index.as_atom()->id] = slot;
    ranges_.push_back({0, std::max<std::int64_t>(bound - 1, 0)});
    live_.push_back(slot);
    return slot;
  }
  std::size_t slot_count() const { return ranges_.size(); }
  std::size_t memory_count() const { return memory_count_; }

  CodePointer flatten(const Element& e) {
    if (const auto shared = reductions_.find(e.get()); shared != reductions_.end()) return remembered(shared->second);
    auto code = std::make_shared<Code>();
    code->kind = e->kind;
    code->scalar = e->scalar;
    code->real = e->real;
    code->integer = e->integer;
    code->function = e->function;
    switch (e->kind) {
      case Kind::kFromIndex: code->index = index(e->index); break;
      case Kind::kRead: read(*e, *code); break;
      case Kind::kReduce: {
        const std::size_t enclosing = live_.size();
        reduce(e, *code);
        live_.resize(enclosing);
        reductions_.emplace(e.get(), code);
        return remembered(code);
      }
      default:
        for (const Condition& c : e->conditions) code->guards.push_back(guard(c));
        for (const Element& a : e->arguments) code->arguments.push_back(flatten(a));
    }
    return code;
  }

 private:
  IndexCode index(const Index& i) {
    IndexCode code;
    code.constant = i.constant_term();
    if (i.is_constant()) return code;
    for (const Monomial& m : i.polynomial()->monomials) {
      IndexCode::Term term{m.coefficient, {}};
      for (const AtomPointer& atom : m.factors) term.factors.push_back(factor(*atom));
      if (term.factors.size() == 1 && term.factors[0].kind == Atom::Kind::kBound)
        code.affine.emplace_back(term.factors[0].slot, m.coefficient);
      else
        code.others.push_back(std::move(term));
    }
    return code;
  }

  IndexCode::Factor factor(const Atom& atom) {
    IndexCode::Factor f{atom.kind, -1, {}, nullptr};
    switch (atom.kind) {
      case Atom::Kind::kSymbol: throw Error(ErrorCode::kUnsupported, "the size " + atom.name + " is not known");
      case Atom::Kind::kBound: f.slot = slots_.at(atom.id); break;
      case Atom::Kind::kLoad: f.load = flatten(atom.element); break;
      default:
        for (const Index& a : atom.arguments) f.arguments.push_back(index(a));
    }
    return f;
  }

  Guard guard(const Condition& c) {
    switch (c.relation) {
      case Condition::Relation::kEqual: return {index(c.right - c.left), Guard::Test::kZero};
      case Condition::Relation::kNotEqual: return {index(c.right - c.left), Guard::Test::kNotZero};
      case Condition::Relation::kLess: return {index(c.right - c.left - 1), Guard::Test::kNotNegative};
      case Condition::Relation::kLessEqual: return {index(c.right - c.left), Guard::Test::kNotNegative};
    }
    return {};
  }

  std::optional<Interval> interval(const IndexCode& code) const {
    if (!code.is_affine()) return std::nullopt;
    Interval r{code.constant, code.constant};
    for (const auto& [slot, c] : code.affine) {
      const Interval& v = ranges_[static_cast<std::size_t>(slot)];
      r.low += c > 0 ? c * v.low : c * v.high;
      r.high += c > 0 ? c * v.high : c * v.low;
    }
    return r;
  }

  void read(const ElementNode& e, Code& code) {
    code.operand = e.operand;
    code.zero_outside = e.zero_outside;
    const Sizes& sizes = operands_[static_cast<std::size_t>(e.operand)];
    std::int64_t stride = 1;
    code.affine = true;
    code.position.resize(sizes.size());
    code.checked.resize(sizes.size());
    for (std::size_t a = sizes.size(); a-- > 0;) {
      IndexCode p = index(e.position[a]);
      const auto range = interval(p);
      code.checked[a] = !range || range->low < 0 || range->high >= sizes[a];
      code.affine = code.affine && p.is_affine();
      if (p.is_affine()) {
        code.offset.constant += p.constant * stride;
        for (const auto& [slot, c] : p.affine) add_to(code.offset, slot, c * stride);
      }
      code.position[a] = std::move(p);
      stride *= sizes[a];
    }
  }

  static void add_to(IndexCode& code, int slot, std::int64_t c) {
    for (auto& [s, old] : code.affine)
      if (s == slot) {
        old += c;
        return;
      }
    code.affine.emplace_back(slot, c);
  }

  // A nest of reductions of one kind becomes one nest of loops. Loops whose bounds are fixed are ordered so that the longest
  // is innermost; guards (and bounds of reads padded with zeros) narrow the range of the loop that decides them.
  void reduce(const Element& e, Code& code) {
    code.reduction = e->reduction;
    const ElementNode* level = e.get();
    std::vector<Condition> conditions;
    Element body;
    for (;;) {
      const IndexCode bound = index(level->bound);
      const std::int64_t most = bound.is_affine() && interval(bound) ? interval(bound)->high : std::int64_t{1} << 40;
      code.loops.push_back({variable(level->index, most), bound, {}, {}});
      conditions.insert(conditions.end(), level->conditions.begin(), level->conditions.end());
      body = level->arguments[0];
      if (body->kind != Kind::kReduce || body->reduction != e->reduction || body->scalar != e->scalar) break;
      level = body.get();
    }
    const bool rectangular = std::all_of(code.loops.begin(), code.loops.end(),
                                         [](const Code::Loop& l) { return l.bound.is_affine() && l.bound.affine.empty(); });
    std::vector<Guard> guards;
    for (const Condition& c : conditions) guards.push_back(guard(c));
    CodePointer flat = flatten(body);
    if (e->reduction == Reduction::kSum && e->scalar == Scalar::kReal && rectangular && product_of_reads(flat, code.factors)) {
      for (CodePointer& f : code.factors) {
        if (!f->zero_outside) continue;
        const Sizes& sizes = operands_[static_cast<std::size_t>(f->operand)];
        auto unchecked = std::make_shared<Code>(*f);
        for (std::size_t a = 0; a < sizes.size(); ++a) {
          if (!f->checked[a]) continue;
          IndexCode high = f->position[a];
          high.constant = sizes[a] - 1 - high.constant;
          for (auto& [slot, c] : high.affine) c = -c;
          guards.push_back({f->position[a], Guard::Test::kNotNegative});
          guards.push_back({std::move(high), Guard::Test::kNotNegative});
          unchecked->checked[a] = false;
        }
        f = unchecked;
      }
    }
    if (rectangular)
      std::stable_sort(code.loops.begin(), code.loops.end(),
                       [](const Code::Loop& a, const Code::Loop& b) { return a.bound.constant < b.bound.constant; });
    for (Guard& g : guards) place(code, std::move(g));
    code.arguments = {std::move(flat)};
  }

  bool product_of_reads(const CodePointer& code, std::vector<CodePointer>& factors) {
    const bool ok = code->kind == Kind::kMultiply
                        ? product_of_reads(code->arguments[0], factors) && product_of_reads(code->arguments[1], factors)
                        : code->kind == Kind::kRead && code->affine && code->scalar == Scalar::kReal &&
                              (code->zero_outside || std::find(code->checked.begin(), code->checked.end(), true) == code->checked.end());
    if (!ok) {
      factors.clear();
      return false;
    }
    if (code->kind == Kind::kRead) factors.push_back(code);
    return true;
  }

  // A reduction that does not depend on all the variables around it is computed once for those it depends on (the sum below
  // a softmax, the mean inside of a variance), if there is room for all its values.
  CodePointer remembered(const std::shared_ptr<Code>& code) {
    constexpr std::int64_t kMostValues = 1 << 22;
    if (code->memory >= 0) return code;
    std::set<int> used;
    collect(*code, used);
    std::int64_t values = 1, evaluations = 1;
    std::vector<std::pair<int, std::int64_t>> axes;
    for (const int slot : live_) {
      const std::int64_t size = ranges_[static_cast<std::size_t>(slot)].high + 1;
      evaluations = std::min(kMostValues + 1, evaluations * std::min(size, kMostValues));
      if (!used.contains(slot)) continue;
      values = std::min(kMostValues + 1, values * std::min(size, kMostValues));
      axes.emplace_back(slot, size);
    }
    if (values > kMostValues || values == evaluations) return code;
    code->memory = static_cast<int>(memory_count_++);
    code->memory_axes = std::move(axes);
    return code;
  }

  // The slots of the variables in an expression.
  static void collect(const IndexCode& code, std::set<int>& slots) {
    for (const auto& [slot, c] : code.affine) slots.insert(slot);
    for (const IndexCode::Term& term : code.others)
      for (const IndexCode::Factor& f : term.factors) {
        if (f.slot >= 0) slots.insert(f.slot);
        for (const IndexCode& a : f.arguments) collect(a, slots);
        if (f.load) collect(*f.load, slots);
      }
  }
  static void collect(const std::vector<Guard>& guards, std::set<int>& slots) {
    for (const Guard& g : guards) collect(g.value, slots);
  }
  static void collect(const Code& code, std::set<int>& slots) {
    collect(code.index, slots);
    for (const IndexCode& p : code.position) collect(p, slots);
    collect(code.guards, slots);
    for (const Code::Loop& loop : code.loops) {
      collect(loop.bound, slots);
      collect(loop.guards, slots);
      collect(loop.late, slots);
    }
    for (const CodePointer& a : code.arguments) collect(*a, slots);
  }

  static bool mentions(const IndexCode& code, int slot) {
    if (code.coefficient(slot) != 0) return true;
    for (const auto& term : code.others)
      for (const auto& f : term.factors) {
        if (f.slot == slot || f.kind == Atom::Kind::kLoad) return true;
        for (const IndexCode& a : f.arguments)
          if (mentions(a, slot)) return true;
      }
    return false;
  }

  static void place(Code& code, Guard guard) {
    std::size_t level = 0;
    for (std::size_t l = 0; l < code.loops.size(); ++l)
      if (mentions(guard.value, code.loops[l].slot)) level = l;
    Code::Loop& loop = code.loops[level];
    const bool linear = guard.value.is_affine() && guard.value.coefficient(loop.slot) != 0 && guard.test != Guard::Test::kNotZero;
    (linear ? loop.guards : loop.late).push_back(std::move(guard));
  }

  std::vector<Sizes> operands_;
  std::vector<Interval> ranges_;
  std::vector<int> live_;  // the variables around what is being flattened
  std::unordered_map<std::uint64_t, int> slots_;
  std::unordered_map<const ElementNode*, std::shared_ptr<Code>> reductions_;  // an expression may stand in several places
  std::size_t memory_count_ = 0;
};

// ---- Evaluation

template <class A>
struct OperandData {
  Sizes sizes;
  std::vector<typename A::Value> reals;
  std::vector<std::int64_t> integers;
};

template <class A>
class Evaluator {
 public:
  using Value = typename A::Value;
  Evaluator(A arithmetic, std::vector<OperandData<A>> operands) : a_(arithmetic), operands_(std::move(operands)) {}

  std::vector<std::int64_t> slots;
  void set_memory_count(std::size_t count) { memories_.resize(count); }

  Value real(const Code& c) {
    switch (c.kind) {
      case Kind::kConstant: return a_.from(c.real);
      case Kind::kRead: {
        const std::int64_t at = locate(c);
        return at < 0 ? a_.zero() : operands_[static_cast<std::size_t>(c.operand)].reals[static_cast<std::size_t>(at)];
      }
      case Kind::kAdd: return a_.add(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kMultiply: return a_.multiply(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kDivide: return a_.divide(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kMaximum: return a_.maximum(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kMinimum: return a_.minimum(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kApply: {
        Value x[4];
        for (std::size_t i = 0; i < c.arguments.size(); ++i) x[i] = real(*c.arguments[i]);
        return a_.apply(*c.function, x);
      }
      case Kind::kChoose: return real(*c.arguments[holds(c.guards) ? 0 : 1]);
      case Kind::kSelect: return real(*c.arguments[integer(*c.arguments[0]) ? 1 : 2]);
      case Kind::kConvert: return a_.from_integer(integer(*c.arguments[0]));
      case Kind::kReduce: return remembered(c, &Memory::reals, [&] { return reduce_real(c); });
      case Kind::kFromIndex: break;
    }
    throw Error(ErrorCode::kUnsupported, "an integer stands where a real is needed");
  }

  std::int64_t integer(const Code& c) {
    const auto wrap = [](std::uint64_t v) { return static_cast<std::int64_t>(v); };
    const auto bits = [&](std::size_t i) { return static_cast<std::uint64_t>(integer(*c.arguments[i])); };
    switch (c.kind) {
      case Kind::kConstant: return c.integer;
      case Kind::kFromIndex: return index(c.index);
      case Kind::kRead: {
        const std::int64_t at = locate(c);
        return at < 0 ? 0 : operands_[static_cast<std::size_t>(c.operand)].integers[static_cast<std::size_t>(at)];
      }
      case Kind::kAdd: return wrap(bits(0) + bits(1));
      case Kind::kMultiply: return wrap(bits(0) * bits(1));
      case Kind::kDivide: {
        const std::int64_t x[2] = {integer(*c.arguments[0]), integer(*c.arguments[1])};
        return functions::integer_divide.integer(x);
      }
      case Kind::kMaximum: return std::max(integer(*c.arguments[0]), integer(*c.arguments[1]));
      case Kind::kMinimum: return std::min(integer(*c.arguments[0]), integer(*c.arguments[1]));
      case Kind::kApply: return apply_integer(c);
      case Kind::kChoose: return integer(*c.arguments[holds(c.guards) ? 0 : 1]);
      case Kind::kSelect: return integer(*c.arguments[integer(*c.arguments[0]) ? 1 : 2]);
      case Kind::kConvert: {
        const Code& from = *c.arguments[0];
        if (from.scalar == Scalar::kReal) {
          const Value v = real(from);
          return c.scalar == Scalar::kBoolean ? a_.to_boolean(v) : a_.to_integer(v);
        }
        const std::int64_t v = integer(from);
        return c.scalar == Scalar::kBoolean ? v != 0 : v;
      }
      case Kind::kReduce: return remembered(c, &Memory::integers, [&] { return reduce_integer(c); });
    }
    return 0;
  }

 private:
  std::int64_t index(const IndexCode& code) {
    std::int64_t v = code.constant;
    for (const auto& [slot, c] : code.affine) v += c * slots[static_cast<std::size_t>(slot)];
    for (const IndexCode::Term& t : code.others) {
      std::int64_t p = t.coefficient;
      for (const IndexCode::Factor& f : t.factors) p *= factor(f);
      v += p;
    }
    return v;
  }

  std::int64_t factor(const IndexCode::Factor& f) {
    switch (f.kind) {
      case Atom::Kind::kBound: return slots[static_cast<std::size_t>(f.slot)];
      case Atom::Kind::kLoad: return integer(*f.load);
      default: break;
    }
    const std::int64_t a = index(f.arguments[0]), b = index(f.arguments[1]);
    if (f.kind == Atom::Kind::kMin) return std::min(a, b);
    if (f.kind == Atom::Kind::kMax) return std::max(a, b);
    if (b < 1) throw Error(ErrorCode::kBadInput, "an index is divided by " + std::to_string(b));
    const std::int64_t q = a / b - (a % b < 0 ? 1 : 0);
    return f.kind == Atom::Kind::kFloorDiv ? q : a - q * b;
  }

  bool holds(const Guard& g) {
    const std::int64_t v = index(g.value);
    return g.test == Guard::Test::kNotNegative ? v >= 0 : g.test == Guard::Test::kZero ? v == 0 : v != 0;
  }
  bool holds(const std::vector<Guard>& guards) {
    for (const Guard& g : guards)
      if (!holds(g)) return false;
    return true;
  }

  // The place of a read in its operand's elements; -1 where an element outside counts as 0.
  std::int64_t locate(const Code& c) {
    const Sizes& sizes = operands_[static_cast<std::size_t>(c.operand)].sizes;
    std::int64_t at = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::int64_t i = index(c.position[d]);
      if (c.checked[d] && (i < 0 || i >= sizes[d])) {
        if (c.zero_outside) return -1;
        throw Error(ErrorCode::kBadInput, "index " + std::to_string(i) + " is outside of an axis of size " + std::to_string(sizes[d]));
      }
      at = at * sizes[d] + i;
    }
    return at;
  }

  std::int64_t apply_integer(const Code& c) {
    if (c.arguments[0]->scalar == Scalar::kReal) {  // a predicate on reals
      Value x[4];
      for (std::size_t i = 0; i < c.arguments.size(); ++i) x[i] = real(*c.arguments[i]);
      return a_.test(*c.function, x);
    }
    if (!c.function->integer)
      throw Error(ErrorCode::kUnsupported, "function " + std::string(c.function->name) + " has no meaning on integers");
    std::int64_t x[4];
    for (std::size_t i = 0; i < c.arguments.size(); ++i) x[i] = integer(*c.arguments[i]);
    return c.function->integer(x);
  }

  // The range of a loop that its linear guards leave.
  Interval range(const Code::Loop& loop) {
    std::int64_t low = 0, high = index(loop.bound) - 1;
    std::int64_t& variable = slots[static_cast<std::size_t>(loop.slot)];
    for (const Guard& g : loop.guards) {
      variable = 0;
      const std::int64_t rest = index(g.value), c = g.value.coefficient(loop.slot);  // rest + c * variable
      const auto floor_divide = [](std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); };
      if (g.test == Guard::Test::kZero) {
        if (rest % c != 0) return {0, -1};
        low = std::max(low, -rest / c);
        high = std::min(high, -rest / c);
      } else if (c > 0) {
        low = std::max(low, -floor_divide(rest, c));
      } else {
        high = std::min(high, floor_divide(rest, -c));
      }
    }
    return {low, high};
  }

  template <class Body>
  void for_each(const Code& c, std::size_t level, std::size_t end, const Body& body) {
    if (level == end) return body();
    const Code::Loop& loop = c.loops[level];
    const Interval r = range(loop);
    for (std::int64_t i = r.low; i <= r.high; ++i) {
      slots[static_cast<std::size_t>(loop.slot)] = i;
      if (holds(loop.late)) for_each(c, level + 1, end, body);
    }
  }

  Value sum_of_products(const Code& c) {
    Value total = a_.zero();
    const Code::Loop& last = c.loops.back();
    for_each(c, 0, c.loops.size() - 1, [&] {
      const Interval r = range(last);
      if (r.low > r.high) return;
      std::int64_t& variable = slots[static_cast<std::size_t>(last.slot)];
      variable = r.low;
      const std::int64_t n = r.high - r.low + 1;
      if (last.late.empty() && c.factors.size() == 2) {
        const Value* x = at(*c.factors[0]);
        const Value* y = at(*c.factors[1]);
        const std::int64_t sx = c.factors[0]->offset.coefficient(last.slot), sy = c.factors[1]->offset.coefficient(last.slot);
        Value part = a_.zero();
        for (std::int64_t i = 0; i < n; ++i) part = a_.add(part, a_.multiply(x[i * sx], y[i * sy]));
        total = a_.add(total, part);
        return;
      }
      for (std::int64_t i = 0; i < n; ++i) {
        variable = r.low + i;
        if (!holds(last.late)) continue;
        Value p = *at(*c.factors[0]);
        for (std::size_t f = 1; f < c.factors.size(); ++f) p = a_.multiply(p, *at(*c.factors[f]));
        total = a_.add(total, p);
      }
    });
    return total;
  }

  const Value* at(const Code& read) {
    return operands_[static_cast<std::size_t>(read.operand)].reals.data() + index(read.offset);
  }

  Value reduce_real(const Code& c) {
    if (!c.factors.empty()) return sum_of_products(c);
    const Code& body = *c.arguments[0];
    Value r = c.reduction == Reduction::kSum       ? a_.zero()
              : c.reduction == Reduction::kProduct ? a_.one()
              : c.reduction == Reduction::kMax     ? a_.lowest()
                                                   : a_.highest();
    for_each(c, 0, c.loops.size(), [&] {
      const Value v = real(body);
      r = c.reduction == Reduction::kSum       ? a_.add(r, v)
          : c.reduction == Reduction::kProduct ? a_.multiply(r, v)
          : c.reduction == Reduction::kMax     ? a_.maximum(r, v)
                                               : a_.minimum(r, v);
    });
    return r;
  }

  std::int64_t reduce_integer(const Code& c) {
    const Code& body = *c.arguments[0];
    std::uint64_t r = c.reduction == Reduction::kSum       ? 0
                      : c.reduction == Reduction::kProduct ? 1
                      : c.reduction == Reduction::kMax
                          ? static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::min())
                          : static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    for_each(c, 0, c.loops.size(), [&] {
      const std::int64_t v = integer(body), old = static_cast<std::int64_t>(r);
      r = c.reduction == Reduction::kSum       ? r + static_cast<std::uint64_t>(v)
          : c.reduction == Reduction::kProduct ? r * static_cast<std::uint64_t>(v)
          : c.reduction == Reduction::kMax     ? static_cast<std::uint64_t>(std::max(old, v))
                                               : static_cast<std::uint64_t>(std::min(old, v));
    });
    return static_cast<std::int64_t>(r);
  }

  // Values of a reduction, one for each value of its free variables.
  struct Memory {
    std::vector<bool> known;
    std::vector<Value> reals;
    std::vector<std::int64_t> integers;
  };

  template <class T, class F>
  T remembered(const Code& c, std::vector<T> Memory::*values, const F& compute) {
    if (c.memory < 0) return compute();
    Memory& memory = memories_[static_cast<std::size_t>(c.memory)];
    std::int64_t at = 0, count = 1;
    for (const auto& [slot, size] : c.memory_axes) {
      at = at * size + slots[static_cast<std::size_t>(slot)];
      count *= size;
    }
    if (memory.known.empty()) {
      memory.known.resize(static_cast<std::size_t>(count));
      (memory.*values).resize(static_cast<std::size_t>(count));
    }
    const auto place = static_cast<std::size_t>(at);
    if (!memory.known[place]) {
      (memory.*values)[place] = compute();
      memory.known[place] = true;
    }
    return (memory.*values)[place];
  }

  A a_;
  std::vector<OperandData<A>> operands_;
  std::vector<Memory> memories_;
};

// Evaluates all elements of one output; exactly one of the two results is filled.
template <class A>
struct Elements {
  Sizes sizes;
  std::vector<typename A::Value> reals;
  std::vector<std::int64_t> integers;
};

template <class A>
Elements<A> evaluate(const Output& output, A arithmetic, const std::vector<OperandData<A>>& operands) {
  Elements<A> result{values(output.type.shape), {}, {}};
  const std::int64_t count = element_count(result.sizes);
  if (count > (std::int64_t{1} << 33))
    throw Error(ErrorCode::kMissing, "not enough memory for a result of " + std::to_string(count) + " elements");
  std::vector<Sizes> sizes;
  for (const auto& o : operands) sizes.push_back(o.sizes);
  Flattener flattener(std::move(sizes));
  std::vector<int> position;
  for (std::size_t a = 0; a < result.sizes.size(); ++a)
    position.push_back(flattener.variable(output.position[a], result.sizes[a]));
  if (count == 0) return result;
  const CodePointer code = flattener.flatten(output.element);
  Evaluator<A> evaluator(arithmetic, operands);
  evaluator.slots.assign(flattener.slot_count(), 0);
  evaluator.set_memory_count(flattener.memory_count());
  const bool is_real = code->scalar == Scalar::kReal;
  is_real ? result.reals.reserve(static_cast<std::size_t>(count)) : result.integers.reserve(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n) {
    if (is_real)
      result.reals.push_back(evaluator.real(*code));
    else
      result.integers.push_back(evaluator.integer(*code));
    for (std::size_t a = position.size(); a-- > 0;) {  // the next position
      std::int64_t& i = evaluator.slots[static_cast<std::size_t>(position[a])];
      if (++i < result.sizes[a]) break;
      i = 0;
    }
  }
  return result;
}

template <class T>
Inputs types_of(std::span<const T> inputs) {
  std::vector<std::optional<TensorType>> types;
  for (const T& t : inputs) {
    if (t.type == DataType::kUndefined)
      types.emplace_back();
    else
      types.push_back(TensorType{t.type, to_indices(t.sizes)});
  }
  return Inputs::of(types);
}

struct TypeAndSizes {
  DataType type;
  Sizes sizes;
};

}  // namespace

std::vector<Tensor> interpret(const Operator& op, const Attributes& attributes, std::span<const Tensor> inputs) {
  std::vector<TypeAndSizes> types;
  for (const Tensor& t : inputs) types.push_back({t.type(), t.sizes()});
  const Definition definition = op.define(attributes, types_of<TypeAndSizes>(types));
  if (op.execute()) return op.execute()(attributes, inputs);
  if (!definition.has_denotation())
    throw Error(ErrorCode::kUnsupported, "operator " + op.name() + " has neither a denotation nor an execution");
  std::vector<OperandData<DoubleArithmetic>> operands;
  for (const Tensor& t : inputs) {
    OperandData<DoubleArithmetic>& o = operands.emplace_back();
    o.sizes = t.sizes();
    if (t.type() == DataType::kUndefined) continue;
    if (scalar(t.type()) == Scalar::kReal)
      o.reals = t.reals();
    else
      o.integers = t.integers();
  }
  std::vector<Tensor> results;
  for (const Output& output : definition.outputs()) {
    Elements<DoubleArithmetic> e = evaluate(output, DoubleArithmetic{}, operands);
    results.push_back(output.element->scalar == Scalar::kReal
                          ? Tensor::from_reals(output.type.type, std::move(e.sizes), e.reals)
                          : Tensor::from_integers(output.type.type, std::move(e.sizes), e.integers));
  }
  return results;
}

std::vector<FieldTensor> interpret_in_field(const Operator& op, const Attributes& attributes,
                                            std::span<const FieldTensor> inputs, std::uint64_t key) {
  const Definition definition = op.define(attributes, types_of<FieldTensor>(inputs));
  if (!definition.has_denotation())
    throw Error(ErrorCode::kUnsupported, "operator " + op.name() + " has no denotation");
  std::vector<OperandData<FieldArithmetic>> operands;
  for (const FieldTensor& t : inputs) {
    OperandData<FieldArithmetic>& o = operands.emplace_back();
    o.sizes = t.sizes;
    if (t.type == DataType::kUndefined) continue;
    if (scalar(t.type) == Scalar::kReal)
      o.reals = t.elements;
    else
      o.integers.assign(t.elements.begin(), t.elements.end());
  }
  std::vector<FieldTensor> results;
  for (const Output& output : definition.outputs()) {
    Elements<FieldArithmetic> e = evaluate(output, FieldArithmetic{key}, operands);
    FieldTensor& t = results.emplace_back();
    t.type = output.type.type;
    t.sizes = std::move(e.sizes);
    if (output.element->scalar == Scalar::kReal)
      t.elements = std::move(e.reals);
    else
      t.elements.assign(e.integers.begin(), e.integers.end());
  }
  return results;
}

}  // namespace rewright
