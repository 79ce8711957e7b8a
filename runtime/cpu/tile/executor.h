// Runs the boxes of a tile program; R: float or double, the type of its real registers. Internal to the tile engine.
//
// A thread runs the tiles of its piece one after the other. For each tile it executes the instructions of block 0, each a
// vector loop over the tile's elements, and those of other blocks where an instruction asks for their results.
#pragma once

#include <array>
#include <type_traits>
#include <vector>

#include "runtime/cpu/tile/box_plan.h"

namespace rewright::cpu {

template <class R>
class Executor final : public TileProgram {
 public:
  Executor(std::vector<BoxProgram> boxes, TileOperand output, std::vector<DataType> operand_types, const TileOptions& options);
  void run(const std::byte* const* operands, std::byte* output, const Workers& workers) const override;
  void run_in_order(const std::byte* const* operands, const Use& use) const override;
  void run_band(const std::byte* const* operands, std::byte* output, std::int64_t band) const override;
  std::int64_t bands() const override { return plans_[0].bands.bands; }
  double nanoseconds() const override;

 private:
  // The contents of a register with its own memory (BlockPlan::kept) from an earlier tile, to avoid filling it again.
  struct Kept {
    const void* address = nullptr;
    std::int64_t value = 0;
    std::vector<Count> extents;
  };
  struct Registers {
    std::vector<void*> at;    // the elements: in the register's own memory, or in a tensor
    std::vector<void*> home;  // the register's own memory; null: none
    std::vector<Kept> kept;
  };
  // The state of one thread.
  struct Context {
    const BoxPlan* plan;
    const std::byte* const* operands;
    std::vector<Count> current;  // by variable
    std::vector<Registers> blocks;
    std::vector<Tile> tiles;        // by block
    std::vector<Count> element;     // by block: position in the enclosing tile, for reductions that run along their variables
    Count row_start = 0;            // start of the last computed part of a row
    std::vector<std::byte> memory;  // of the registers
    std::vector<std::vector<R>> partial;  // by block: see Levels
  };
  // Partial results of a long sum: level 0 is the result, and each higher level sums kTogether results of the one below, so
  // that the error does not grow with the number of terms.
  static constexpr Count kTogether = 32;
  static constexpr std::size_t kMostLevels = 13;  // enough for 64 bits' worth of terms
  struct Levels {
    R* first;
    std::vector<R>& others;  // one level after the other
    Count size;
    std::array<Count, kMostLevels> counts = {};
    std::size_t highest = 0;

    R* at(std::size_t level) const { return level == 0 ? first : others.data() + static_cast<Count>(level - 1) * size; }
  };

  // ---- Tiles (execute.cc)
  static Context& context();  // of the calling thread
  void set_up(Context& c, const BoxPlan& plan, const std::byte* const* operands) const;
  void set_up_block(Context& c, std::size_t b, std::byte* memory) const;
  void copy_rows(const Context& c, const Tile& tile, const Instruction& load, std::byte* target) const;
  void run_tiles(const BoxPlan& plan, const std::byte* const* operands, std::byte* output, Count first, Count last) const;
  void store(const Context& c, const Tile& tile, const Affine& address, std::byte* target, int result) const;

  // ---- Instructions (execute_instructions.cc)
  // Executes a block for a tile. Register `must_copy` is filled at its `at`, even if a tensor holds its elements; -1: none.
  void evaluate(Context& c, int b, const Tile& tile, int must_copy) const;
  // Fills registers from tensors, positions and other blocks.
  void read(Context& c, int b, int r, const Tile& tile, bool must_copy) const;
  template <class T, class Loops>
  void read(Context& c, int b, int r, const Tile& tile, bool must_copy, const Loops& loops) const;
  template <class T, class M>
  void load(Context& c, int b, int r, const Tile& tile, bool must_copy, const Elements<T, M>& loops) const;
  template <class T, class M>
  void gather_axis(const Context& c, int b, const Instruction& i, T* d, const Tile& tile, const Elements<T, M>& loops) const;
  template <class T, class M>
  void gather_rows(const Context& c, const Instruction& i, T* d, const Tile& tile, const Elements<T, M>& loops) const;
  template <class T, class M>
  void fill_once(Context& c, int b, int r, T* d, T value, const Tile& tile, const Elements<T, M>& loops) const;
  template <class T>
  void repeat(Context& c, const Instruction& i, int r, T* d, const T* row, const Tile& tile) const;
  template <class T, class M>
  void select_span(const Context& c, int b, int r, const Tile& tile, const Elements<T, M>& loops) const;
  template <class T>
  void indices(Context& c, int b, int r, const Tile& tile, const IntegerFunctions<T>& loops) const;
  void evaluate_rows(Context& c, int b, const Tile& tile) const;
  void evaluate_row(Context& c, int b, const Tile& tile) const;
  // Computes registers elementwise from others of the block.
  void compute(Context& c, int b, int r, Count n) const;
  template <class T, class Loops>
  void compute_integers(const Context& c, int b, int r, Count n, const Loops& loops) const;
  void compute_reals(const Context& c, int b, int r, Count n) const;
  void function(const Context& c, int b, int r, Count n) const;
  void position(const Instruction& i, std::int64_t* d, const std::int64_t* indices, Count n) const;

  // ---- Reductions (execute_reductions.cc)
  void reduce(Context& c, int b, int r, const Tile& tile) const;
  template <class T, class M>
  bool reduce_columns(const Context& c, int b, int r, const Tile& tile, const Elements<T, M>& loops) const;
  template <class T, class M>
  void reduce_around(Context& c, int b, int r, const Tile& tile, const Elements<T, M>& loops) const;
  template <class T, class M>
  void reduce_along(Context& c, int b, int r, const Tile& tile, const Elements<T, M>& loops) const;
  Count select_together(Context& c, int child, const Tile& tile, const Count* steps, Count together) const;
  void add_up(Levels& levels, const R* from, std::size_t level = 0) const;
  void finish(Levels& levels) const;

  // Calls f(loops, an element) with the loops for a register's type.
  template <class F>
  void with_loops(const Context& c, const Instruction& i, F f) const {
    if (!i.integer) return f(real_, R());
    if (!i.narrow) return f(tables_.i64, std::int64_t());
    switch (c.plan->narrow) {
      case DataType::kUint8:
        return f(tables_.u8, std::uint8_t());
      case DataType::kInt8:
        return f(tables_.i8, std::int8_t());
      case DataType::kInt16:
        return f(tables_.i16, std::int16_t());
      default:
        return f(tables_.i32, std::int32_t());
    }
  }
  // The type of an operand's elements as an instruction reads them.
  DataType type_read(const Context& c, const Instruction& i) const {
    return i.bits ? c.plan->narrow : operand_types_[i.operand];
  }
  // Does a register of type T hold elements as a tensor of this type does?
  template <class T>
  static bool is_held(DataType type) {
    if constexpr (std::is_same_v<T, R>)
      return type == kOwn;
    else if constexpr (sizeof(T) == 8)
      return type == DataType::kInt64 || type == DataType::kUint64;
    else
      return scalar(type) != Scalar::kReal && byte_size(type) == sizeof(T);
  }

  static constexpr DataType kOwn = std::is_same_v<R, float> ? DataType::kFloat : DataType::kDouble;
  template <class T>
  static T* values(const Context& c, std::size_t b, int r) {
    return r < 0 ? nullptr : static_cast<T*>(c.blocks[b].at[r]);
  }
  static R* reals(const Context& c, std::size_t b, int r) { return static_cast<R*>(c.blocks[b].at[r]); }
  static std::int64_t* integers(const Context& c, std::size_t b, int r) {
    return static_cast<std::int64_t*>(c.blocks[b].at[r]);
  }
  static const Instruction& instruction(const Context& c, int b, int r) { return c.plan->program.blocks[b].instructions[r]; }
  // The value at the tile's first element.
  static Count start(const Affine& a, const Context& c) {
    Count at = a.constant;
    for (std::size_t v = 0; v < a.coefficients.size(); ++v) at += a.coefficients[v] * c.current[v];
    return at;
  }
  // Are the tile's elements contiguous in memory?
  static bool contiguous(const Affine& a, const Tile& tile) {
    Count step = 1;
    for (std::size_t k = tile.variables.size(); k-- > 0;) {
      if (tile.extents[k] != 1 && a.coefficient(tile.variables[k]) != step) return false;
      step *= tile.extents[k];
    }
    return true;
  }

  // Calls f(address relative to the tile's first element, position in the tile, stride, elements) for every row of the tile:
  // the elements along its innermost variable.
  template <class F>
  static void for_each_row(const Affine& a, const Tile& tile, F f) {
    const std::size_t rank = tile.variables.size();
    if (rank == 0) return f(Count{0}, Count{0}, Count{0}, Count{1});
    const Count inner = tile.extents[rank - 1], stride = a.coefficient(tile.variables[rank - 1]);
    if (tile.size == inner) return f(Count{0}, Count{0}, stride, inner);
    Count steps[16] = {};
    Count at = 0;
    for (Count row = 0; row * inner < tile.size; ++row) {
      f(at, row * inner, stride, inner);
      for (std::size_t k = rank - 1; k-- > 0;) {
        const Count coefficient = a.coefficient(tile.variables[k]);
        at += coefficient;
        if (++steps[k] < tile.extents[k]) break;
        at -= coefficient * steps[k];
        steps[k] = 0;
      }
    }
  }

  TileOperand output_;
  std::vector<DataType> operand_types_;
  const RealLoops<R>& real_;
  const LoopTables& tables_;
  std::vector<BoxPlan> plans_;
};

}  // namespace rewright::cpu
