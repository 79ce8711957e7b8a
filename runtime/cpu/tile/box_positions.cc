// Positions of elements: axes and addresses, guards, reads.
#include <algorithm>

#include "runtime/cpu/tile/box_compiler.h"
#include "runtime/cpu/tile/cuts.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

// Row-major or channels-last strides by axis.
std::vector<std::int64_t> strides_of(const Sizes& sizes, Layout layout) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  if (layout.channels_last()) {
    strides[1] = 1;
    step = sizes[1];
  }
  for (std::size_t a = sizes.size(); a-- > 0;) {
    if (layout.channels_last() && a == 1) continue;
    strides[a] = step;
    step *= sizes[a];
  }
  return strides;
}

}  // namespace

void BoxCompiler::lay_out(const TileOperand& output, bool exchanged) {
  const Layout layout = output.layout;
  block_ = layout.blocked() ? layout.channels : 0;
  for (const TileOperand& o : operands_)
    if (block_ == 0 && o.layout.blocked() && axes_ >= 2) block_ = o.layout.channels;
  std::vector<std::size_t> order;
  for (std::size_t a = 0; a < axes_; ++a)
    if (!(layout.channels_last() && a == 1)) order.push_back(a);
  if (layout.channels_last()) order.push_back(1);
  if (exchanged) {  // the last two axes with several elements
    const auto is_long = [&](std::size_t a) { return variables_.range(a).high - variables_.range(a).low > 1; };
    const auto last = std::find_if(order.rbegin(), order.rend(), is_long);
    if (last != order.rend())
      if (const auto before = std::find_if(last + 1, order.rend(), is_long); before != order.rend()) std::swap(*last, *before);
  }
  dimension_.assign(axes_, -1);
  const auto add_inner = [&] {
    inner_channel_ = static_cast<int>(box_.extents.size());
    box_.extents.push_back(block_);
  };
  for (const std::size_t a : order) {
    const Range r = variables_.range(a);
    dimension_[a] = static_cast<int>(box_.extents.size());
    if (block_ > 0 && a == 1) {
      if (r.low % block_ != 0 || r.high % block_ != 0) throw NotCompilable();
      box_.extents.push_back((r.high - r.low) / block_);
      if (!layout.blocked()) add_inner();
    } else {
      box_.extents.push_back(r.high - r.low);
    }
  }
  if (layout.blocked()) add_inner();
  box_.output_rank = box_.extents.size();
  for (std::size_t v = 0; v < box_.output_rank && block_ == 0; ++v)
    if (box_.extents[v] > 1) innermost_ = static_cast<int>(v);
  const auto several = std::count_if(box_.extents.begin(), box_.extents.end(), [](std::int64_t extent) { return extent > 1; });
  if (several < 2 || box_.extents[innermost_] < least_row_) innermost_ = -1;
  std::vector<Affine> position(axes_);
  for (std::size_t a = 0; a < axes_; ++a) {
    position[a].coefficients.resize(a + 1);
    position[a].coefficients[a] = 1;
  }
  box_.output = address(output, position);
}

Affine BoxCompiler::in_box(const Affine& a) const {
  Affine result;
  result.constant = a.constant;
  result.coefficients.resize(box_.extents.size());
  for (std::size_t v = 0; v < a.coefficients.size(); ++v) {
    const std::int64_t c = a.coefficients[v];
    if (c == 0) continue;
    if (v >= axes_) {
      result.coefficients[box_.output_rank + (v - axes_)] += c;
      continue;
    }
    result.constant += c * variables_.range(v).low;
    if (v == 1 && block_ > 0) {
      result.coefficients[dimension_[v]] += c * block_;
      result.coefficients[inner_channel_] += c;
    } else {
      result.coefficients[dimension_[v]] += c;
    }
  }
  return result;
}

Affine BoxCompiler::address(const TileOperand& operand, const std::vector<Affine>& position) const {
  Affine result;
  if (!operand.layout.blocked()) {
    const auto strides = strides_of(operand.sizes, operand.layout);
    for (std::size_t a = 0; a < position.size(); ++a) result.add(position[a], strides[a]);
    return in_box(result);
  }
  // Blocked: axis 1 must be read at the output's own channel, or at a known one.
  const std::int64_t b = operand.layout.channels;
  Sizes inner = operand.sizes;
  inner[1] = (inner[1] + b - 1) / b;
  auto strides = strides_of(inner, kPlain);
  for (std::int64_t& s : strides) s *= b;
  Affine channel = position[1];
  for (std::size_t a = 0; a < position.size(); ++a)
    if (a != 1) result.add(position[a], strides[a]);
  result = in_box(result);
  if (channel.is_constant()) {
    result.constant += channel.constant / b * strides[1] + channel.constant % b;
    return result;
  }
  if (b != block_ || channel.variable() != 1 || channel.coefficients[1] != 1 || channel.constant % b != 0)
    throw NotCompilable();
  result.constant += (channel.constant + variables_.range(1).low) / b * strides[1];
  result.coefficients[dimension_[1]] += strides[1];
  result.coefficients[inner_channel_] += 1;
  return result;
}

int BoxCompiler::emit_conditions(const std::vector<Condition>& conditions, int block) {
  int mask = kAlways;
  for (const Condition& c : conditions)
    if (variables_.decide(c) == false) return kNever;
  for (const Condition& c : conditions) {
    if (variables_.decide(c) == true) continue;
    using In = Instruction::Kind;
    const Index left = c.left - c.right;
    const int there = block_for(block, changes(left));
    const int difference = emit_difference(left, there), zero = number(there, 0);
    int holds = -1;
    switch (c.relation) {
      case Condition::Relation::kLess:
        holds = add(there, In::kLess, true, difference, zero);
        break;
      case Condition::Relation::kLessEqual:
        holds = add(there, In::kLessEqual, true, difference, zero);
        break;
      default:
        holds = add(there, In::kEqual, true, difference, zero);
    }
    if (c.relation == Condition::Relation::kNotEqual) holds = add(there, In::kSubtract, true, number(there, 1), holds);
    holds = take_over(block, there, holds);
    mask = mask == kAlways ? holds : add(block, In::kMultiply, true, mask, holds);
  }
  return mask;
}

// As emit_index, but as the sum of a number of each row and an affine expression, if it is one (fuse).
int BoxCompiler::emit_difference(const Index& difference, int block) {
  if (block != 0 || innermost_ < 0 || difference.is_constant() || variables_.affine(difference))
    return emit_index(difference, block);
  Index regular(difference.constant_term()), of_rows;
  for (const Monomial& m : difference.polynomial()->monomials) {
    Index term(m.coefficient);
    for (const AtomPointer& factor : m.factors) term *= Index::atom(factor);
    (variables_.affine(term) ? regular : of_rows) += term;
  }
  if (changes(of_rows).along) return emit_index(difference, block);
  const int rows = block_for(0, changes(of_rows));
  const int row = take_over(0, rows, emit_index(of_rows, rows));
  return add(0, Instruction::Kind::kAdd, true, row, emit_index(regular, 0));
}

int BoxCompiler::emit_index(const Index& index, int block) {
  using In = Instruction::Kind;
  if (const auto affine = variables_.affine(index)) {
    if (affine->is_constant()) return number(block, affine->constant);
    Instruction i{In::kIndices};
    i.integer = true;
    i.affine = in_box(*affine);
    return add(block, std::move(i));
  }
  int total = number(block, index.constant_term());
  for (const Monomial& monomial : index.polynomial()->monomials) {
    int term = number(block, monomial.coefficient);
    for (const AtomPointer& factor : monomial.factors) term = add(block, In::kMultiply, true, term, emit_atom(factor, block));
    total = add(block, In::kAdd, true, total, term);
  }
  return total;
}

int BoxCompiler::emit_atom(const AtomPointer& atom, int block) {
  using In = Instruction::Kind;
  if (atom->kind == Atom::Kind::kLoad) return emit(atom->element, block);
  if (atom->kind == Atom::Kind::kSymbol || atom->kind == Atom::Kind::kBound) {
    const Index index = Index::atom(atom);
    if (!variables_.affine(index)) throw NotCompilable();
    return emit_index(index, block);
  }
  if (atom->kind == Atom::Kind::kPosition) {
    const auto size = variables_.affine(atom->arguments[1]);
    if (!size || !size->is_constant()) throw NotCompilable();
    Instruction i{In::kPosition};
    i.integer = true;
    i.arguments[0] = emit_index(atom->arguments[0], block);
    i.number = size->constant;
    i.tolerant = guards_ > 0;
    is_tolerant_ = is_tolerant_ || i.tolerant;
    return add(block, std::move(i));
  }
  const int a = emit_index(atom->arguments[0], block), b = emit_index(atom->arguments[1], block);
  switch (atom->kind) {
    case Atom::Kind::kFloorDiv:
      return add(block, In::kFloorDivide, true, a, b);
    case Atom::Kind::kMod:
      return add(block, In::kFloorModulo, true, a, b);
    case Atom::Kind::kMin:
      return add(block, In::kMinimum, true, a, b);
    default:
      return add(block, In::kMaximum, true, a, b);
  }
}

int BoxCompiler::emit_read(const ElementNode& e, int block, bool as_real) {
  using In = Instruction::Kind;
  const TileOperand& operand = operands_[e.operand];
  const bool integer = !as_real && scalar(operand.type) != Scalar::kReal;
  if (element_count(operand.sizes) == 0) return integer ? number(block, 0) : real_constant(block, 0);
  if (e.zero_outside) {
    const int mask = emit_conditions(inside_conditions(e, operand.sizes), block);
    const auto zero = [&] { return integer ? number(block, 0) : real_constant(block, 0); };
    if (mask == kNever) return zero();
    const int value = emit_access(e, operand, integer, block);
    if (mask == kAlways) return value;
    const int z = zero();
    return add(block, In::kSelect, integer, mask, value, z);
  }
  return emit_access(e, operand, integer, block);
}

namespace {

// x div n, where x may be a quotient itself.
Index quotient_of(const Index& x, const Index& n) {
  const Atom* const atom = x.as_atom();
  const bool nested = atom != nullptr && atom->kind == Atom::Kind::kFloorDiv && atom->arguments[1].is_constant();
  return nested ? floor_div(atom->arguments[0], atom->arguments[1] * n) : floor_div(x, n);
}

}  // namespace

// c * (x div n) + d * (x mod n) = d * x for c = d * n, as in the address of a reshaped tensor.
Index BoxCompiler::joined(const Index& sum) {
  const auto is = [](const Monomial& m, Atom::Kind kind) {
    return m.factors.size() == 1 && m.factors[0]->kind == kind && m.factors[0]->arguments[1].is_constant();
  };
  if (sum.is_constant()) return sum;
  for (const Monomial& low : sum.polynomial()->monomials) {
    if (!is(low, Atom::Kind::kMod)) continue;
    const Index &x = low.factors[0]->arguments[0], &n = low.factors[0]->arguments[1];
    const Index quotient = quotient_of(x, n);
    for (const Monomial& high : sum.polynomial()->monomials) {
      if (!is(high, Atom::Kind::kFloorDiv) && !is(high, Atom::Kind::kMod)) continue;
      const Index term = Index(high.coefficient) * Index::atom(high.factors[0]);
      if (term != Index(low.coefficient) * n * quotient) continue;
      return joined(sum - term - Index(low.coefficient) * Index::atom(low.factors[0]) + Index(low.coefficient) * x);
    }
  }
  return sum;
}

std::optional<Affine> BoxCompiler::joined_address(const ElementNode& e, const TileOperand& operand) const {
  const auto strides = strides_of(operand.sizes, operand.layout);
  Index sum;
  for (std::size_t a = 0; a < e.position.size(); ++a) {
    const auto bounds = variables_.bounds(e.position[a]);
    if (!bounds || bounds->low < 0 || bounds->high > operand.sizes[a]) return std::nullopt;
    sum += e.position[a] * Index(strides[a]);
  }
  return variables_.affine(joined(sum));
}

int BoxCompiler::emit_access(const ElementNode& e, const TileOperand& operand, bool integer, int block) {
  using In = Instruction::Kind;
  std::vector<Affine> position;
  bool direct = true;
  for (std::size_t a = 0; a < e.position.size() && direct; ++a) {
    const auto p = variables_.affine(e.position[a]);
    direct = p && variables_.lowest(*p) >= 0 && variables_.highest(*p) < operand.sizes[a];
    if (direct) position.push_back(*p);
  }
  if (direct) {
    Instruction i{In::kLoad};
    i.integer = integer;
    i.operand = e.operand;
    i.affine = address(operand, position);
    return add(block, std::move(i));
  }
  if (operand.layout.blocked()) throw NotCompilable();
  if (const auto affine = joined_address(e, operand)) {
    Instruction i{In::kLoad};
    i.integer = integer;
    i.operand = e.operand;
    i.affine = in_box(*affine);
    return add(block, std::move(i));
  }
  return emit_gather(e, operand, integer, block);
}

BoxCompiler::Multiple BoxCompiler::multiple_of_position(const Index& sum) const {
  if (sum.is_constant() || sum.constant_term() != 0 || sum.polynomial()->monomials.size() != 1) return {};
  const Monomial& monomial = sum.polynomial()->monomials[0];
  if (monomial.factors.size() != 1 || monomial.factors[0]->kind != Atom::Kind::kPosition) return {};
  const auto size = variables_.affine(monomial.factors[0]->arguments[1]);
  if (!size || !size->is_constant()) return {};
  return {monomial.factors[0].get(), monomial.coefficient, size->constant};
}

int BoxCompiler::emit_gather(const ElementNode& e, const TileOperand& operand, bool integer, int block) {
  const auto strides = strides_of(operand.sizes, operand.layout);
  // Terms by row, by element of a row, and by both.
  Address of_rows, of_row, of_elements;
  const auto part = [&](const Changes& c) -> Address& {
    const int there = block_for(block, c);
    return there == block ? of_elements : there == rows_ ? of_rows : of_row;
  };
  Index sum;
  for (std::size_t a = 0; a < e.position.size(); ++a) {
    const auto bounds = variables_.bounds(e.position[a]);
    if (bounds && bounds->low >= 0 && bounds->high <= operand.sizes[a])
      sum += e.position[a] * Index(strides[a]);
    else
      part(changes(e.position[a])).axes.push_back(a);
  }
  std::vector<Index> regular{Index(sum.constant_term())};
  if (!sum.is_constant())
    for (const Monomial& m : sum.polynomial()->monomials) {
      Index term(m.coefficient);
      for (const AtomPointer& factor : m.factors) term *= Index::atom(factor);
      if (variables_.affine(term))
        regular.push_back(term);
      else
        part(changes(term)).sum += term;
    }
  Instruction i{Instruction::Kind::kGather};
  i.integer = integer;
  i.operand = e.operand;
  const auto add_regular = [&] {
    for (const Index& term : regular) i.affine.add(in_box(*variables_.affine(term)), 1);
  };
  const bool only_rows = of_row.empty() && of_elements.empty(),
             only_elements = of_rows.empty() && of_row.empty() && of_elements.axes.empty();
  if (const Multiple m = multiple_of_position(of_elements.sum); only_elements && m.position != nullptr) {
    add_regular();
    i.kind = Instruction::Kind::kGatherAxis;
    i.arguments[0] = emit_index(m.position->arguments[0], block);
    i.number = m.size;
    i.apart = m.factor;
    i.tolerant = guards_ > 0;
    is_tolerant_ = is_tolerant_ || i.tolerant;
    return add(block, std::move(i));
  }
  if (!of_rows.empty() && only_rows) {
    add_regular();
  } else {
    for (const Index& term : regular) part(changes(term)).sum += term;
    int offset = of_elements.empty() && !of_row.empty() ? -1 : emit_address(e, operand, of_elements, block);
    if (!of_row.empty()) {
      const int row = take_over(block, row_, emit_address(e, operand, of_row, row_));
      offset = offset < 0 ? row : add(block, Instruction::Kind::kAdd, true, row, offset);
    }
    i.arguments[0] = offset;
  }
  if (!of_rows.empty()) {
    i.kind = Instruction::Kind::kGatherRows;
    i.child = rows_;
    i.other = emit_address(e, operand, of_rows, rows_);
  }
  return add(block, std::move(i));
}

int BoxCompiler::emit_address(const ElementNode& e, const TileOperand& operand, const Address& address, int block) {
  using In = Instruction::Kind;
  const auto strides = strides_of(operand.sizes, operand.layout);
  int offset = emit_index(address.sum, block);
  for (const std::size_t a : address.axes) {
    int p = emit_index(e.position[a], block);
    p = add(block, In::kMaximum, true, p, number(block, 0));
    p = add(block, In::kMinimum, true, p, number(block, operand.sizes[a] - 1));
    p = add(block, In::kMultiply, true, p, number(block, strides[a]));
    offset = add(block, In::kAdd, true, offset, p);
  }
  return offset;
}

}  // namespace rewright::cpu
