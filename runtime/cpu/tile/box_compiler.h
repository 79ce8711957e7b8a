// One box of output positions: from the element expression to the program that computes it.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/cpu/tile/block.h"

namespace rewright::cpu {

// Something that cannot be compiled; caught by compile_tiles.
struct NotCompilable {};

class BoxCompiler {
 public:
  BoxCompiler(const TileOperand& output, const std::vector<TileOperand>& operands, bool in_double, Variables variables,
              std::size_t axes)
      : output_type_(output.type), operands_(operands), in_double_(in_double), variables_(std::move(variables)), axes_(axes) {
    lay_out(output);
  }

  BoxProgram compile(const Element& element);

 private:
  // ---- Axes, variables and memory
  // The channel axis is cut into blocks if the output or an operand lies so; the position in a block is a variable of its own.
  void lay_out(const TileOperand& output);

  // From the variables of the expression to those of the box.
  Affine in_box(const Affine& a) const;

  Affine address(const TileOperand& operand, const std::vector<Affine>& position) const;

  // ---- Instructions
  int add(int block, Instruction i);
  int add(int block, Instruction::Kind kind, bool integer, int a, int b = -1, int c = -1);
  int number(int block, std::int64_t value);
  int real_constant(int block, double value);
  const Instruction& at(int block, int r) const { return box_.blocks[block].instructions[r]; }

  // ---- Which block an expression belongs to: the outermost one that knows all of its variables.
  void find_depth(const Index& index, std::set<const ElementNode*>& seen, int& deepest) const;
  void find_depth(const Element& e, std::set<const ElementNode*>& seen, int& deepest) const;

  // ---- Rows: what changes from row to row only, or along each row only, belongs to a block of its own.
  struct Changes {
    bool along = false, across = false;  // rows, which are of the innermost variable
    void add(const Changes& other) {
      along = along || other.along;
      across = across || other.across;
    }
  };
  Changes changes(const Index& index);
  Changes changes(const Element& e);
  // Is it one instruction wherever it stands?
  bool is_direct(const ElementNode& e) const;
  // The block where such things are computed for a block; that itself if there is none.
  int block_for(int block, const Changes& c);
  // A register of the block, for one of a block that block_for gave.
  int take_over(int block, int from, int r);

  int outer(int block, int parent_register);

  int emit(const Element& e, int block);

  int emit_here(const Element& e, int block);

  int emit_binary(const ElementNode& e, Instruction::Kind kind, int block);

  // a + (-1) * b is a subtraction.
  int emit_add(const ElementNode& e, int block);

  int emit_function(const ElementNode& e, int block);
  int function(const Function& f, const ElementNode& e, bool integer_arguments, int block, int a, int b);

  int emit_reduction(const Element& e, int block);
  int identity(Reduction reduction, bool integer, int block);

  // ---- Guards
  static constexpr int kAlways = -1, kNever = -2;
  int emit_conditions(const std::vector<Condition>& conditions, int block);

  // Emits code under a guard: it is also computed at positions where its result is not used.
  template <class Emit>
  auto guarded(const Emit& emit_all) {
    if (guards_++ == 0) is_tolerant_ = false;
    auto result = emit_all();
    if (--guards_ == 0) {
      if (is_tolerant_)
        for (const auto& key : emitted_under_guard_) emitted_.erase(key);
      emitted_under_guard_.clear();
    }
    return result;
  }

  // ---- Positions
  int emit_index(const Index& index, int block);
  int emit_atom(const AtomPointer& atom, int block);

  // `as_real`: integers as the reals that they are.
  int emit_read(const ElementNode& e, int block, bool as_real = false);

  int emit_access(const ElementNode& e, const TileOperand& operand, bool integer, int block);

  // An address as a sum: terms that surely lie inside, and axes whose positions have to be kept inside.
  struct Address {
    Index sum;
    std::vector<std::size_t> axes;
    bool empty() const { return axes.empty() && sum == Index(0); }
  };

  int emit_gather(const ElementNode& e, const TileOperand& operand, bool integer, int block);

  // Positions that a guard or a table may carry outside are kept inside: what is read there is not used.
  int emit_address(const ElementNode& e, const TileOperand& operand, const Address& address, int block);

  // A result that becomes an integer, within bounds that the output's small type can hold, is stored from the real.
  int without_integers(int result) const;

  static void fuse_multiply_add(Block& block);

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
  int guards_ = 0;            // around what is emitted
  bool is_tolerant_ = false;  // is a position emitted under them that may be any?
  std::vector<std::pair<const ElementNode*, int>> emitted_under_guard_;
  std::vector<Element> kept_;
  std::map<std::tuple<int, int, bool, bool, int, int, int, int, int, std::int64_t, std::vector<std::int64_t>, std::uint64_t,
                      std::int64_t, const Function*>,
           int>
      known_;
};

}  // namespace rewright::cpu
