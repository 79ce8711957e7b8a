// Instructions and their blocks.
#include "runtime/cpu/tile/box_compiler.h"

#include <algorithm>

#include "expressions/free_variables.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

}  // namespace

BoxProgram BoxCompiler::compile(const Element& element) {
  box_.blocks.emplace_back();
  box_.blocks[0].result = without_integers(emit(element, 0));
  for (Block& block : box_.blocks) fuse(block);
  return std::move(box_);
}

int BoxCompiler::add(int block, Instruction i) {
  using Key = std::tuple<int, int, bool, bool, int, int, int, int, int, std::int64_t, std::vector<std::int64_t>, std::uint64_t,
                         std::int64_t, std::int64_t, const Function*>;
  std::uint64_t bits = 0;
  static_assert(sizeof bits == sizeof i.real);
  std::copy_n(reinterpret_cast<const char*>(&i.real), sizeof bits, reinterpret_cast<char*>(&bits));
  if (i.kind != Instruction::Kind::kReduce) {
    Key key{block,
            static_cast<int>(i.kind),
            i.integer,
            i.tolerant,
            i.arguments[0],
            i.arguments[1],
            i.arguments[2],
            i.operand,
            i.other,
            i.affine.constant,
            i.affine.coefficients,
            bits,
            i.number,
            i.apart,
            i.function};
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    const int number = static_cast<int>(box_.blocks[block].instructions.size());
    known_.emplace(std::move(key), number);
  }
  box_.blocks[block].instructions.push_back(std::move(i));
  return static_cast<int>(box_.blocks[block].instructions.size()) - 1;
}

int BoxCompiler::add(int block, Instruction::Kind kind, bool integer, int a, int b, int c) {
  Instruction i{kind};
  i.integer = integer;
  i.integer_arguments = box_.blocks[block].instructions[a].integer;
  i.arguments[0] = a;
  i.arguments[1] = b;
  i.arguments[2] = c;
  return add(block, std::move(i));
}

int BoxCompiler::number(int block, std::int64_t value) {
  Instruction i{Instruction::Kind::kConstant};
  i.integer = true;
  i.number = value;
  return add(block, std::move(i));
}

int BoxCompiler::real_constant(int block, double value) {
  Instruction i{Instruction::Kind::kConstant};
  i.real = value;
  return add(block, std::move(i));
}

void BoxCompiler::find_depth(const Index& index, std::set<const ElementNode*>& seen, int& deepest) const {
  for_each_atom(index, [&](const Atom& atom) {
    if (atom.kind == Atom::Kind::kBound) {
      if (const auto v = variables_.find(atom.id); v && static_cast<std::size_t>(*v) >= axes_)
        deepest = std::max(deepest, block_of_[*v - axes_]);
    } else if (atom.kind == Atom::Kind::kLoad) {
      find_depth(atom.element, seen, deepest);
    }
  });
}

void BoxCompiler::find_depth(const Element& e, std::set<const ElementNode*>& seen, int& deepest) const {
  if (!seen.insert(e.get()).second) return;
  for_each_index(*e, [&](const Index& index) { find_depth(index, seen, deepest); });
  for (const Element& a : e->arguments) find_depth(a, seen, deepest);
}

BoxCompiler::Changes BoxCompiler::changes(const Index& index) {
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

BoxCompiler::Changes BoxCompiler::changes(const Element& e) {
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

bool BoxCompiler::is_direct(const ElementNode& e) const {
  if (e.kind == Kind::kConstant) return true;
  if (e.kind == Kind::kFromIndex) return variables_.affine(e.index).has_value();
  if (e.kind == Kind::kConvert) return e.arguments[0]->kind == Kind::kRead && is_direct(*e.arguments[0]);
  return e.kind == Kind::kRead &&
         std::all_of(e.position.begin(), e.position.end(), [&](const Index& i) { return variables_.affine(i).has_value(); });
}

int BoxCompiler::block_for(int block, const Changes& c) {
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

int BoxCompiler::take_over(int block, int from, int r, bool uniform) {
  if (from == block) return r;
  Instruction i{from == row_ ? Instruction::Kind::kRepeat : Instruction::Kind::kSpread};
  i.integer = at(from, r).integer;
  i.child = from;
  i.other = r;
  i.number = uniform && i.kind == Instruction::Kind::kSpread ? 1 : 0;
  return add(block, std::move(i));
}

int BoxCompiler::outer(int block, int parent_register) {
  Instruction i{Instruction::Kind::kOuter};
  i.integer = at(box_.blocks[block].parent, parent_register).integer;
  i.arguments[0] = parent_register;
  return add(block, std::move(i));
}

int BoxCompiler::emit(const Element& e, int block) {
  const auto key = std::pair(e.get(), block);
  if (const auto found = emitted_.find(key); found != emitted_.end()) return found->second;
  int result = -1;
  if (block == 0 && innermost_ >= 0 && !is_direct(*e)) {
    const Changes c = changes(e);
    const int there = block_for(0, c);
    if (there != 0) result = take_over(0, there, emit(e, there), !c.along && !c.across);
  } else if (block > 0 && box_.blocks[block].part == Block::Part::kElements && e->kind != Kind::kConstant) {
    std::set<const ElementNode*> seen;
    int deepest = 0;
    find_depth(e, seen, deepest);
    // Blocks are numbered in nesting order along the current chain.
    bool here = false;
    for (int b = block; b >= 0; b = box_.blocks[b].parent) here = here || b == deepest;
    if (here && deepest != block) result = outer(block, emit(e, box_.blocks[block].parent));
  }
  if (result < 0) result = emit_here(e, block);
  emitted_[key] = result;
  if (guards_ > 0) emitted_under_guard_.push_back(key);
  kept_.push_back(e);  // keeps the address from being reused
  return result;
}

}  // namespace rewright::cpu
