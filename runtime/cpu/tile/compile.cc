// From element expressions to tile programs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "runtime/cpu/tile/block.h"
#include "runtime/cpu/tile/cuts.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

// Something that cannot be compiled; caught by compile_tiles.
struct NotCompilable {};

constexpr std::size_t kMaxBoxes = 48;
constexpr std::int64_t kLongRow = 8;  // elements: what is the same all along a row is computed once

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

class BoxCompiler {
 public:
  BoxCompiler(const TileOperand& output, const std::vector<TileOperand>& operands, bool in_double, Variables variables,
              std::size_t axes)
      : output_type_(output.type), operands_(operands), in_double_(in_double), variables_(std::move(variables)), axes_(axes) {
    lay_out(output);
  }

  BoxProgram compile(const Element& element) {
    box_.blocks.emplace_back();
    box_.blocks[0].result = without_integers(emit(element, 0));
    for (Block& block : box_.blocks) fuse_multiply_add(block);
    return std::move(box_);
  }

 private:
  // ---- Axes, variables and memory
  // The channel axis is cut into blocks if the output or an operand lies so; the position in a block is a variable of its own.
  void lay_out(const TileOperand& output) {
    const Layout layout = output.layout;
    block_ = layout.blocked() ? layout.channels : 0;
    for (const TileOperand& o : operands_)
      if (block_ == 0 && o.layout.blocked() && axes_ >= 2) block_ = o.layout.channels;
    std::vector<std::size_t> order;
    for (std::size_t a = 0; a < axes_; ++a)
      if (!(layout.channels_last() && a == 1)) order.push_back(a);
    if (layout.channels_last()) order.push_back(1);
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
    const auto several =
        std::count_if(box_.extents.begin(), box_.extents.end(), [](std::int64_t extent) { return extent > 1; });
    if (several < 2 || box_.extents[innermost_] < kLongRow) innermost_ = -1;
    std::vector<Affine> position(axes_);
    for (std::size_t a = 0; a < axes_; ++a) {
      position[a].coefficients.resize(a + 1);
      position[a].coefficients[a] = 1;
    }
    box_.output = address(output, position);
  }

  // From the variables of the expression to those of the box.
  Affine in_box(const Affine& a) const {
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

  Affine address(const TileOperand& operand, const std::vector<Affine>& position) const {
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

  // ---- Instructions
  int add(int block, Instruction i) {
    using Key = std::tuple<int, int, bool, int, int, int, int, int, std::int64_t, std::vector<std::int64_t>, std::uint64_t,
                           std::int64_t, const Function*>;
    std::uint64_t bits = 0;
    static_assert(sizeof bits == sizeof i.real);
    std::copy_n(reinterpret_cast<const char*>(&i.real), sizeof bits, reinterpret_cast<char*>(&bits));
    if (i.kind != Instruction::Kind::kReduce) {
      Key key{block,
              static_cast<int>(i.kind),
              i.integer,
              i.arguments[0],
              i.arguments[1],
              i.arguments[2],
              i.operand,
              i.other,
              i.affine.constant,
              i.affine.coefficients,
              bits,
              i.number,
              i.function};
      if (const auto found = known_.find(key); found != known_.end()) return found->second;
      const int number = static_cast<int>(box_.blocks[block].instructions.size());
      known_.emplace(std::move(key), number);
    }
    box_.blocks[block].instructions.push_back(std::move(i));
    return static_cast<int>(box_.blocks[block].instructions.size()) - 1;
  }
  int add(int block, Instruction::Kind kind, bool integer, int a, int b = -1, int c = -1) {
    Instruction i{kind};
    i.integer = integer;
    i.integer_arguments = box_.blocks[block].instructions[a].integer;
    i.arguments[0] = a;
    i.arguments[1] = b;
    i.arguments[2] = c;
    return add(block, std::move(i));
  }
  int number(int block, std::int64_t value) {
    Instruction i{Instruction::Kind::kConstant};
    i.integer = true;
    i.number = value;
    return add(block, std::move(i));
  }
  int real_constant(int block, double value) {
    Instruction i{Instruction::Kind::kConstant};
    i.real = value;
    return add(block, std::move(i));
  }
  const Instruction& at(int block, int r) const { return box_.blocks[block].instructions[r]; }

  // ---- Which block an expression belongs to: the outermost one that knows all of its variables.
  void find_depth(const Index& index, std::set<const ElementNode*>& seen, int& deepest) const {
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kBound) {
        if (const auto v = variables_.find(atom.id); v && static_cast<std::size_t>(*v) >= axes_)
          deepest = std::max(deepest, block_of_[*v - axes_]);
      } else if (atom.kind == Atom::Kind::kLoad) {
        find_depth(atom.element, seen, deepest);
      }
    });
  }
  void find_depth(const Element& e, std::set<const ElementNode*>& seen, int& deepest) const {
    if (!seen.insert(e.get()).second) return;
    for (const Index& i : e->position) find_depth(i, seen, deepest);
    if (e->kind == Kind::kFromIndex) find_depth(e->index, seen, deepest);
    for (const Condition& c : e->conditions) {
      find_depth(c.left, seen, deepest);
      find_depth(c.right, seen, deepest);
    }
    for (const Element& a : e->arguments) find_depth(a, seen, deepest);
  }

  // ---- Rows: what changes from row to row only, or along each row only, belongs to a block of its own.
  struct Changes {
    bool along = false, across = false;  // rows, which are of the innermost variable
    void add(const Changes& other) {
      along = along || other.along;
      across = across || other.across;
    }
  };
  Changes changes(const Index& index) {
    Changes result;
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kLoad) return result.add(changes(atom.element));
      const auto v = variables_.find(atom.id);
      if (!v) return;
      const bool reduced = static_cast<std::size_t>(*v) >= axes_;
      result.add({reduced || dimension_[*v] == innermost_, reduced || dimension_[*v] != innermost_});
    });
    return result;
  }
  Changes changes(const Element& e) {
    if (e->kind == Kind::kReduce) return {true, true};  // stays where it is
    if (const auto found = changes_.find(e.get()); found != changes_.end()) return found->second;
    Changes result;
    if (e->kind == Kind::kFromIndex) result.add(changes(e->index));
    for (const Index& i : e->position) result.add(changes(i));
    for (const Condition& c : e->conditions) result.add(changes(c.left - c.right));
    for (const Element& a : e->arguments) result.add(changes(a));
    kept_.push_back(e);
    return changes_[e.get()] = result;
  }
  // Is it one instruction wherever it stands?
  bool is_direct(const ElementNode& e) const {
    if (e.kind == Kind::kConstant) return true;
    if (e.kind == Kind::kFromIndex) return variables_.affine(e.index).has_value();
    if (e.kind == Kind::kConvert) return e.arguments[0]->kind == Kind::kRead && is_direct(*e.arguments[0]);
    return e.kind == Kind::kRead &&
           std::all_of(e.position.begin(), e.position.end(), [&](const Index& i) { return variables_.affine(i).has_value(); });
  }
  // The block where such things are computed for a block; that itself if there is none.
  int block_for(int block, const Changes& c) {
    if (block != 0 || innermost_ < 0 || (c.along && c.across)) return block;
    int& part = c.along ? row_ : rows_;
    if (part < 0) {
      part = static_cast<int>(box_.blocks.size());
      box_.blocks.emplace_back();
      box_.blocks[part].parent = 0;
      box_.blocks[part].part = c.along ? Block::Part::kRow : Block::Part::kRows;
    }
    return part;
  }
  // A register of the block, for one of a block that block_for gave.
  int take_over(int block, int from, int r) {
    if (from == block) return r;
    Instruction i{from == row_ ? Instruction::Kind::kRepeat : Instruction::Kind::kSpread};
    i.integer = at(from, r).integer;
    i.child = from;
    i.other = r;
    return add(block, std::move(i));
  }

  int outer(int block, int parent_register) {
    Instruction i{Instruction::Kind::kOuter};
    i.integer = at(box_.blocks[block].parent, parent_register).integer;
    i.arguments[0] = parent_register;
    return add(block, std::move(i));
  }

  int emit(const Element& e, int block) {
    const auto key = std::pair(e.get(), block);
    if (const auto found = emitted_.find(key); found != emitted_.end()) return found->second;
    int result = -1;
    if (block == 0 && innermost_ >= 0 && !is_direct(*e)) {
      const int there = block_for(0, changes(e));
      if (there != 0) result = take_over(0, there, emit(e, there));
    } else if (block > 0 && box_.blocks[block].part == Block::Part::kElements && e->kind != Kind::kConstant) {
      std::set<const ElementNode*> seen;
      int deepest = 0;
      find_depth(e, seen, deepest);
      // Blocks are numbered in the order of their nesting along the current chain.
      bool here = false;
      for (int b = block; b >= 0; b = box_.blocks[b].parent) here = here || b == deepest;
      if (here && deepest != block) result = outer(block, emit(e, box_.blocks[block].parent));
    }
    if (result < 0) result = emit_here(e, block);
    emitted_[key] = result;
    kept_.push_back(e);  // keeps the address from being reused
    return result;
  }

  int emit_here(const Element& e, int block) {
    using In = Instruction::Kind;
    const bool integer = e->scalar != Scalar::kReal;
    switch (e->kind) {
      case Kind::kConstant:
        if (integer) return number(block, e->integer);
        if (!e->real.symbol.empty()) throw NotCompilable();
        return real_constant(block, e->real.value);
      case Kind::kFromIndex:
        return emit_index(e->index, block);
      case Kind::kRead:
        return emit_read(*e, block);
      case Kind::kAdd:
        return emit_add(*e, block);
      case Kind::kMultiply: {
        if (e->scalar == Scalar::kBoolean) return emit_binary(*e, In::kMultiply, block);
        return emit_binary(*e, In::kMultiply, block);
      }
      case Kind::kDivide:
        return emit_binary(*e, In::kDivide, block);
      case Kind::kMaximum:
        return emit_binary(*e, In::kMaximum, block);
      case Kind::kMinimum:
        return emit_binary(*e, In::kMinimum, block);
      case Kind::kApply:
        return emit_function(*e, block);
      case Kind::kReduce:
        return emit_reduction(e, block);
      case Kind::kChoose: {
        const int mask = emit_conditions(e->conditions, block);
        if (mask == kAlways) return emit(e->arguments[0], block);
        if (mask == kNever) return emit(e->arguments[1], block);
        const int a = emit(e->arguments[0], block), b = emit(e->arguments[1], block);
        return add(block, In::kSelect, integer, mask, a, b);
      }
      case Kind::kSelect: {
        const int c = emit(e->arguments[0], block), a = emit(e->arguments[1], block), b = emit(e->arguments[2], block);
        return add(block, In::kSelect, integer, c, a, b);
      }
      case Kind::kConvert: {
        if (e->scalar == Scalar::kReal && e->arguments[0]->kind == Kind::kRead) return emit_read(*e->arguments[0], block, true);
        const int a = emit(e->arguments[0], block);
        const Scalar from = e->arguments[0]->scalar;
        if (e->scalar == from) return a;
        if (e->scalar == Scalar::kReal) return add(block, In::kToReal, false, a);
        if (e->scalar == Scalar::kInteger) return from == Scalar::kReal ? add(block, In::kToInteger, true, a) : a;
        const int zero = from == Scalar::kReal ? real_constant(block, 0) : number(block, 0);
        const int is_zero = add(block, In::kEqual, true, a, zero);
        return add(block, In::kSubtract, true, number(block, 1), is_zero);
      }
    }
    throw NotCompilable();
  }

  int emit_binary(const ElementNode& e, Instruction::Kind kind, int block) {
    const int a = emit(e.arguments[0], block), b = emit(e.arguments[1], block);
    return add(block, kind, e.scalar != Scalar::kReal, a, b);
  }

  // a + (-1) * b is a subtraction.
  int emit_add(const ElementNode& e, int block) {
    const bool integer = e.scalar != Scalar::kReal;
    for (int side = 1; side >= 0; --side) {
      const ElementNode& m = *e.arguments[side];
      if (m.kind != Kind::kMultiply) continue;
      for (int s = 0; s < 2; ++s) {
        const ElementNode& c = *m.arguments[s];
        if (c.kind != Kind::kConstant || (integer ? c.integer != -1 : c.real.value != -1 || !c.real.symbol.empty())) continue;
        const int a = emit(e.arguments[1 - side], block), b = emit(m.arguments[1 - s], block);
        return add(block, Instruction::Kind::kSubtract, integer, a, b);
      }
    }
    return emit_binary(e, Instruction::Kind::kAdd, block);
  }

  int emit_function(const ElementNode& e, int block) {
    namespace fn = functions;
    using In = Instruction::Kind;
    const Function& f = *e.function;
    const int a = emit(e.arguments[0], block);
    const bool integer_arguments = e.arguments[0]->scalar != Scalar::kReal;
    if (f.arity == 2) {
      const ElementNode& second = *e.arguments[1];
      if (&f == &fn::pow && !integer_arguments && second.kind == Kind::kConstant && second.real.symbol.empty()) {
        const double exponent = second.real.value;
        if (exponent == 1) return a;
        if (exponent == 2) return add(block, In::kMultiply, false, a, a);
        if (exponent == 3) return add(block, In::kMultiply, false, add(block, In::kMultiply, false, a, a), a);
        if (exponent == -1) return add(block, In::kDivide, false, real_constant(block, 1), a);
      }
      const int b = emit(e.arguments[1], block);
      if (&f == &fn::equal) return add(block, In::kEqual, true, a, b);
      if (&f == &fn::less) return add(block, In::kLess, true, a, b);
      if (&f == &fn::less_equal) return add(block, In::kLessEqual, true, a, b);
      if (&f == &fn::logical_and) return add(block, In::kMultiply, true, a, b);
      if (&f == &fn::logical_or) return add(block, In::kMaximum, true, a, b);
      return function(f, e, integer_arguments, block, a, b);
    }
    if (&f == &fn::nearest_float && !in_double_) return a;
    if (&f == &fn::logical_not) return add(block, In::kSubtract, true, number(block, 1), a);
    if (!integer_arguments && real_loops<float>(Isa::kBaseline).unary(f) != nullptr) {
      Instruction i{In::kUnary};
      i.function = &f;
      i.arguments[0] = a;
      return add(block, std::move(i));
    }
    return function(f, e, integer_arguments, block, a, -1);
  }
  int function(const Function& f, const ElementNode& e, bool integer_arguments, int block, int a, int b) {
    if (integer_arguments ? f.integer == nullptr : f.real == nullptr) throw NotCompilable();
    Instruction i{Instruction::Kind::kFunction};
    i.integer = e.scalar != Scalar::kReal;
    i.integer_arguments = integer_arguments;
    if (integer_arguments && !i.integer) throw NotCompilable();
    i.function = &f;
    i.arguments[0] = a;
    i.arguments[1] = b;
    return add(block, std::move(i));
  }

  int emit_reduction(const Element& e, int block) {
    const int child = static_cast<int>(box_.blocks.size());
    box_.blocks.emplace_back();
    box_.blocks[child].parent = block;
    box_.blocks[child].reduction = e->reduction;
    // Reductions of one kind directly inside of each other are one.
    std::vector<Condition> conditions;
    const ElementNode* r = e.get();
    const Element* body = nullptr;
    for (;;) {
      const auto bound = variables_.affine(r->bound);
      const Atom* atom = r->index.as_atom();
      if (!bound || !bound->is_constant() || atom == nullptr) throw NotCompilable();
      const int v = variables_.add(atom->id, {0, std::max<std::int64_t>(bound->constant, 0)});
      block_of_.resize(v - axes_ + 1);
      block_of_[v - axes_] = child;
      box_.extents.push_back(std::max<std::int64_t>(bound->constant, 0));
      box_.blocks[child].variables.push_back(static_cast<int>(box_.extents.size()) - 1);
      conditions.insert(conditions.end(), r->conditions.begin(), r->conditions.end());
      body = &r->arguments[0];
      if ((*body)->kind != Kind::kReduce || (*body)->reduction != e->reduction) break;
      r = body->get();
    }
    const bool integer = e->scalar != Scalar::kReal;
    bool empty = false;
    for (const int v : box_.blocks[child].variables) empty = empty || box_.extents[v] == 0;
    if (empty) return identity(e->reduction, integer, block);
    const int mask = emit_conditions(conditions, child);
    int result;
    if (mask == kNever) return identity(e->reduction, integer, block);
    result = emit(*body, child);
    if (mask != kAlways)
      result = add(child, Instruction::Kind::kSelect, integer, mask, result, identity(e->reduction, integer, child));
    box_.blocks[child].result = result;
    Instruction i{Instruction::Kind::kReduce};
    i.integer = integer;
    i.child = child;
    return add(block, std::move(i));
  }
  int identity(Reduction reduction, bool integer, int block) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    using Limits = std::numeric_limits<std::int64_t>;
    switch (reduction) {
      case Reduction::kSum:
        return integer ? number(block, 0) : real_constant(block, 0);
      case Reduction::kProduct:
        return integer ? number(block, 1) : real_constant(block, 1);
      case Reduction::kMax:
        return integer ? number(block, Limits::min()) : real_constant(block, -kInfinity);
      case Reduction::kMin:
        return integer ? number(block, Limits::max()) : real_constant(block, kInfinity);
    }
    throw NotCompilable();
  }

  // ---- Guards
  static constexpr int kAlways = -1, kNever = -2;
  int emit_conditions(const std::vector<Condition>& conditions, int block) {
    int mask = kAlways;
    for (const Condition& c : conditions)
      if (variables_.decide(c) == false) return kNever;
    for (const Condition& c : conditions) {
      if (variables_.decide(c) == true) continue;
      using In = Instruction::Kind;
      const Index left = c.left - c.right;
      const int there = block_for(block, changes(left));
      const int difference = emit_index(left, there), zero = number(there, 0);
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

  // ---- Positions
  int emit_index(const Index& index, int block) {
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
  int emit_atom(const AtomPointer& atom, int block) {
    using In = Instruction::Kind;
    if (atom->kind == Atom::Kind::kLoad) return emit(atom->element, block);
    if (atom->kind == Atom::Kind::kSymbol || atom->kind == Atom::Kind::kBound) {
      const Index index = Index::atom(atom);
      if (!variables_.affine(index)) throw NotCompilable();
      return emit_index(index, block);
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

  // `as_real`: integers as the reals that they are.
  int emit_read(const ElementNode& e, int block, bool as_real = false) {
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

  int emit_access(const ElementNode& e, const TileOperand& operand, bool integer, int block) {
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
    return emit_gather(e, operand, integer, block);
  }

  // An address as a sum: terms that surely lie inside, and axes whose positions have to be kept inside.
  struct Address {
    Index sum;
    std::vector<std::size_t> axes;
    bool empty() const { return axes.empty() && sum == Index(0); }
  };

  int emit_gather(const ElementNode& e, const TileOperand& operand, bool integer, int block) {
    const auto strides = strides_of(operand.sizes, operand.layout);
    // By row, by element of a row, and by both.
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
    if (!of_rows.empty() && of_row.empty() && of_elements.empty()) {
      for (const Index& term : regular) i.affine.add(in_box(*variables_.affine(term)), 1);
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

  // Positions that a guard or a table may carry outside are kept inside: what is read there is not used.
  int emit_address(const ElementNode& e, const TileOperand& operand, const Address& address, int block) {
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

  // A result that becomes an integer, within bounds that the output's small type can hold, is stored from the real.
  int without_integers(int result) const {
    using In = Instruction::Kind;
    const Instruction& last = at(0, result);
    if (last.kind != In::kToInteger || (output_type_ != DataType::kInt8 && output_type_ != DataType::kUint8)) return result;
    const double least = output_type_ == DataType::kInt8 ? -128 : 0, most = least + 255;
    bool low = false, high = false;
    for (int r = last.arguments[0]; at(0, r).kind == In::kMaximum || at(0, r).kind == In::kMinimum;) {
      const Instruction& limit = at(0, r);
      const int side = at(0, limit.arguments[0]).kind == In::kConstant ? 0 : 1;
      const Instruction& bound = at(0, limit.arguments[side]);
      if (bound.kind != In::kConstant || !(bound.real >= least && bound.real <= most)) break;
      (limit.kind == In::kMaximum ? low : high) = true;
      r = limit.arguments[1 - side];
    }
    return low && high ? last.arguments[0] : result;
  }

  static void fuse_multiply_add(Block& block) {
    std::vector<int> uses(block.instructions.size());
    for (const Instruction& i : block.instructions)
      for (const int a : i.arguments)
        if (a >= 0 && i.kind != Instruction::Kind::kOuter) ++uses[a];
    for (Instruction& i : block.instructions) {
      if (i.kind != Instruction::Kind::kAdd) continue;
      for (int side = 0; side < 2; ++side) {
        const int m = i.arguments[side];
        const Instruction& product = block.instructions[m];
        if (product.kind != Instruction::Kind::kMultiply || uses[m] != 1 || m == block.result) continue;
        const int other = i.arguments[1 - side];
        i.kind = Instruction::Kind::kMultiplyAdd;
        i.arguments[0] = product.arguments[0];
        i.arguments[1] = product.arguments[1];
        i.arguments[2] = other;
        break;
      }
    }
  }

  DataType output_type_;
  const std::vector<TileOperand>& operands_;
  bool in_double_;
  Variables variables_;
  std::size_t axes_;
  std::vector<int> dimension_;  // of each axis of the output, in the box
  std::int64_t block_ = 0;      // of channels
  int inner_channel_ = -1;
  int innermost_ = -1;        // dimension of rows; -1: there are none
  int rows_ = -1, row_ = -1;  // the blocks of what is computed for each row, and for an element of each, if there are any
  std::map<const ElementNode*, Changes> changes_;
  std::vector<int> block_of_;  // of each reduction variable
  BoxProgram box_;
  std::map<std::pair<const ElementNode*, int>, int> emitted_;
  std::vector<Element> kept_;
  std::map<std::tuple<int, int, bool, int, int, int, int, int, std::int64_t, std::vector<std::int64_t>, std::uint64_t,
                      std::int64_t, const Function*>,
           int>
      known_;
};

bool wants_double(const TileOperand& output, const std::vector<TileOperand>& operands) {
  if (output.type == DataType::kDouble) return true;
  return std::any_of(operands.begin(), operands.end(), [](const TileOperand& o) { return o.type == DataType::kDouble; });
}

}  // namespace

std::unique_ptr<TileProgram> compile_tiles(const Element& element, const Indices& position, const TileOperand& output,
                                           std::vector<TileOperand> operands, const TileOptions& options) {
  try {
    Variables variables;
    for (std::size_t a = 0; a < position.size(); ++a) {
      const Atom* atom = position[a].as_atom();
      variables.add(atom != nullptr ? atom->id : ~std::uint64_t{a}, {0, output.sizes[a]});
    }
    const bool in_double = options.precision_double || wants_double(output, operands);
    std::vector<BoxProgram> boxes;
    if (element_count(output.sizes) > 0) {
      std::vector<Variables> pending{variables};
      while (!pending.empty()) {
        Variables box = std::move(pending.back());
        pending.pop_back();
        std::set<const ElementNode*> seen;
        const auto cut =
            pending.size() + boxes.size() < kMaxBoxes ? find_cut(element, box, position.size(), operands) : std::nullopt;
        if (cut) {
          const Range range = box.range(cut->axis);
          Variables other = box;
          box.set_range(cut->axis, {range.low, cut->at});
          other.set_range(cut->axis, {cut->at, range.high});
          pending.push_back(std::move(other));
          pending.push_back(std::move(box));
          continue;
        }
        boxes.push_back(BoxCompiler(output, operands, in_double, std::move(box), position.size()).compile(element));
        coalesce(boxes.back());
      }
    }
    std::vector<DataType> types;
    for (const TileOperand& o : operands) types.push_back(o.type);
    return make_executor(std::move(boxes), output, std::move(types), options.isa, in_double);
  } catch (const NotCompilable&) {
    return nullptr;
  }
}

std::vector<double> sample_function(const Element& element, int operand, std::span<const double> points) {
  const Index i = Index::fresh("i");
  const Operand argument(0, {DataType::kDouble, {Index(points.size())}});
  const Element of_samples =
      rewrite(element, [&](const ElementNode& read) { return read.operand == operand ? argument({i}) : Element(); }, {});
  const TileOperand samples{DataType::kDouble, {static_cast<std::int64_t>(points.size())}, kPlain};
  const auto program = compile_tiles(of_samples, {i}, samples, {samples}, {Isa::kBaseline, true});
  std::vector<double> values(program ? points.size() : 0);
  if (!program) return values;
  const std::byte* in = reinterpret_cast<const std::byte*>(points.data());
  program->run(&in, reinterpret_cast<std::byte*>(values.data()), Workers(1));
  return values;
}

}  // namespace rewright::cpu
