// Groups of expressions, compiled by a loop program (loop_program.h): softmax's maxima and sums, layer norm's means and
// variances as stages, or a normalization that is written out, band by band.
//
// By estimate a reduction that does not depend on every output axis becomes a tensor over the axes it depends on, and so does
// what is computed from such tensors alone (a deviation), and other work that many elements share, such as the places that a
// grid samples in all channels. Several values share the stages that they have in common. What reads each other along the same
// first axes is computed band by band, so that it stays in the caches.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/tile/loop_program.h"
#include "runtime/cpu/tile/program.h"
#include "runtime/cpu/tile/replication.h"

namespace rewright::cpu {

class StagedProgram {
 public:
  // One tensor: a stage or a value.
  struct Part {
    std::unique_ptr<TileProgram> program;    // null: an operand has the elements that are replicated
    std::optional<Replication> replication;  // of the program's result, which is in scratch memory then
    std::size_t from = 0;                    // its place in scratch memory; without a program bytes in the operand ...
    std::size_t operand = 0;                 // ... of this number
    std::size_t number = 0;                  // by which later parts read the tensor
    int result = -1;                         // number of the output; -1: it is in scratch memory ...
    std::size_t offset = 0;                  // ... from this byte on
    bool in_bands = false;                   // that memory is for a band, and each thread has its own
    std::size_t position_bytes = 0;          // of a position of the axis that is cut
  };
  struct Pass {
    std::vector<Part> parts;                       // one, if it is not in bands
    std::int64_t bands = 0;                        // 0: not in bands
    std::int64_t along = 1, band = 0, extent = 0;  // bands along the cut axis, their positions, and those of the axis
    double nanoseconds = 0;
  };
  struct Memory {
    std::size_t whole = 0, by_thread = 0;  // bytes: of whole tensors, and for each thread
    int threads = 1;
    std::size_t numbers = 0;  // of operands, values and stages
  };
  StagedProgram(std::vector<Pass> passes, Memory memory, LoopProgram loops)
      : passes_(std::move(passes)), memory_(memory), loops_(std::move(loops)) {}

  // `outputs`: the values that are results, in their order.
  void run(std::span<const std::byte* const> operands, std::span<std::byte* const> outputs, std::byte* scratch,
           const Workers& workers) const;
  std::size_t scratch_bytes() const { return memory_.whole + memory_.by_thread * static_cast<std::size_t>(memory_.threads); }
  const LoopProgram& loops() const { return loops_; }

 private:
  using Addresses = std::vector<const std::byte*>;
  void run_whole(const Part& part, Addresses& addresses, std::span<std::byte* const> outputs, std::byte* scratch,
                 const Workers& workers) const;
  void run_bands(const Pass& pass, Addresses& addresses, std::span<std::byte* const> outputs, std::byte* scratch,
                 const Workers& workers) const;

  std::vector<Pass> passes_;
  Memory memory_;
  LoopProgram loops_;
};

// A value of a group: an expression over the group's operands, and over earlier values, which are the operands behind these.
struct GroupValue {
  Element element;
  Indices position;
  TileOperand output;
  bool is_result = true;
};

// As compile_tiles. `loops`: how; null: by the estimate, and null is returned if several values have nothing in common that is
// worth it. A loop program that does not fit the values gives null.
std::optional<StagedProgram> compile_stages(std::span<const GroupValue> values, std::vector<TileOperand> operands,
                                            const TileOptions& options, const LoopProgram* loops = nullptr);

}  // namespace rewright::cpu
