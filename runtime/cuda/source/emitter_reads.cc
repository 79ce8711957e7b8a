// The emitter for indices, conditions and reads.
#include "runtime/cuda/source/emitter.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/cuda/source/source_names.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

}  // namespace

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
    case Atom::Kind::kPosition:
      return let("index_t", call("from_either_end"));
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

// Are the elements from this address on contiguous along the unrolled variable, and is the first one aligned?
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

// The address with variables of a single value replaced by that value.
Index Emitter::without_constants(const Index& address) const {
  return substitute(address, [&](const Atom& a) -> std::optional<Index> {
    if (a.kind != Atom::Kind::kBound) return std::nullopt;
    const IndexRange r = ranges.of(a);
    return r.low == r.high ? std::optional<Index>(r.low) : std::nullopt;
  });
}

// The text of an address for the current unrolled part, or for the first one.
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
  std::string outside;  // checks of positions given as data
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

}  // namespace rewright::cuda
