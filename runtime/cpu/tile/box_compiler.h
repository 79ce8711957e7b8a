// Compiles one box of output positions: from the element expression to its program.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/cpu/tile/block.h"

namespace rewright::cpu {

// Thrown if something cannot be compiled; caught by compile_tiles.
struct NotCompilable {};

class BoxCompiler {
 public:
  // `exchanged`: rows run along the last axis but one, for boxes whose last axis is short. `moves_rows`: the element is read
  // from where a table says for its row.
  BoxCompiler(const TileOperand& output, const std::vector<TileOperand>& operands, bool in_double, Variables variables,
              std::size_t axes, bool exchanged, bool moves_rows)
      : output_type_(output.type),
        operands_(operands),
        in_double_(in_double),
        variables_(std::move(variables)),
        axes_(axes),
        least_row_(moves_rows ? kShortRow : kLongRow) {
    lay_out(output, exchanged);
  }

  BoxProgram compile(const Element& element);

 private:
  // Elements: values that are constant along longer rows are computed once. The address of a row that is moved takes longer
  // than any row.
  static constexpr std::int64_t kLongRow = 8, kShortRow = 2;

  // ---- Axes, variables and memory
  // The channel axis is split into blocks if the output or an operand is blocked; the position in a block is a separate
  // variable.
  void lay_out(const TileOperand& output, bool exchanged);

  // From the expression's variables to the box's.
  Affine in_box(const Affine& a) const;

  Affine address(const TileOperand& operand, const std::vector<Affine>& position) const;

  // ---- Instructions
  int add(int block, Instruction i);
  int add(int block, Instruction::Kind kind, bool integer, int a, int b = -1, int c = -1);
  int number(int block, std::int64_t value);
  int real_constant(int block, double value);
  const Instruction& at(int block, int r) const { return box_.blocks[block].instructions[r]; }

  // ---- The block of an expression: the outermost one in which all of its variables are defined.
  void find_depth(const Index& index, std::set<const ElementNode*>& seen, int& deepest) const;
  void find_depth(const Element& e, std::set<const ElementNode*>& seen, int& deepest) const;

  // ---- Rows: values that only change by row, or only along rows, belong to separate blocks.
  struct Changes {
    bool along = false, across = false;  // rows, which are of the innermost variable
    void add(const Changes& other) {
      along = along || other.along;
      across = across || other.across;
    }
  };
  Changes changes(const Index& index);
  Changes changes(const Element& e);
  // Is it a single instruction in any block?
  bool is_direct(const ElementNode& e) const;
  // The block that computes such values for a block; the block itself if there is none.
  int block_for(int block, const Changes& c);
  // A register of the block with the value of register r in a block from block_for.
  // `uniform`: it is the same everywhere.
  int take_over(int block, int from, int r, bool uniform = false);

  int outer(int block, int parent_register);

  int emit(const Element& e, int block);

  int emit_here(const Element& e, int block);

  int emit_binary(const ElementNode& e, Instruction::Kind kind, int block);

  // a + (-1) * b is a subtraction.
  int emit_add(const ElementNode& e, int block);

  int emit_function(const ElementNode& e, int block);
  int emit_tanh_softplus(const ElementNode& softplus, int block);
  int emit_roots(double exponent, int x, int block);
  int function(const Function& f, const ElementNode& e, bool integer_arguments, int block, int a, int b);

  int emit_reduction(const Element& e, int block);
  void reduce_in_two(int child);
  int identity(Reduction reduction, bool integer, int block);

  // ---- Guards
  static constexpr int kAlways = -1, kNever = -2;
  int emit_conditions(const std::vector<Condition>& conditions, int block);
  int emit_difference(const Index& difference, int block);

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

  // `as_real`: integers converted to reals.
  int emit_read(const ElementNode& e, int block, bool as_real = false);

  int emit_access(const ElementNode& e, const TileOperand& operand, bool integer, int block);
  static Index joined(const Index& sum);
  // The address of a read whose positions are not affine, but its address is.
  std::optional<Affine> joined_address(const ElementNode& e, const TileOperand& operand) const;

  // An address as a sum: terms that are certainly inside, and axes whose positions must be clamped.
  struct Address {
    Index sum;
    std::vector<std::size_t> axes;
    bool empty() const { return axes.empty() && sum == Index(0); }
  };

  // The one position that a sum is a multiple of, with the factor; null: it is another sum.
  struct Multiple {
    const Atom* position = nullptr;
    std::int64_t factor = 1, size = 0;
  };
  Multiple multiple_of_position(const Index& sum) const;

  int emit_gather(const ElementNode& e, const TileOperand& operand, bool integer, int block);

  // Positions that a guard or table may put outside are clamped: what is read there is not used.
  int emit_address(const ElementNode& e, const TileOperand& operand, const Address& address, int block);

  // A result that becomes an integer of at most 32 bits, or a truth value, is stored from what it is made of.
  int without_integers(int result) const;

  // Products that are added at once, and comparisons that select at once.
  static void fuse(Block& block);

  DataType output_type_;
  const std::vector<TileOperand>& operands_;
  bool in_double_;
  Variables variables_;
  std::size_t axes_;
  std::int64_t least_row_;
  std::vector<int> dimension_;  // the box's dimension of each output axis
  std::int64_t block_ = 0;      // channels in a block
  int inner_channel_ = -1;
  int innermost_ = -1;        // dimension of rows; -1: none
  int rows_ = -1, row_ = -1;  // blocks for values by row, and by element of a row; -1: none
  std::map<const ElementNode*, Changes> changes_;
  std::vector<int> block_of_;  // by reduction variable
  BoxProgram box_;
  std::map<std::pair<const ElementNode*, int>, int> emitted_;
  int guards_ = 0;            // number of enclosing guards
  bool is_tolerant_ = false;  // is an index emitted under them that may have any position?
  std::vector<std::pair<const ElementNode*, int>> emitted_under_guard_;
  std::vector<Element> kept_;
  std::map<std::tuple<int, int, bool, bool, int, int, int, int, int, std::int64_t, std::vector<std::int64_t>, std::uint64_t,
                      std::int64_t, std::int64_t, const Function*>,
           int>
      known_;
};

}  // namespace rewright::cpu
