// Expressions whose reductions serve many elements, computed in stages: softmax's maxima and sums, layer norm's means and
// variances. A reduction that does not depend on every output axis becomes a tensor over the axes it depends on, and so does
// what is computed from such tensors alone (a deviation), and other work that many elements share, such as the places that a
// grid samples in all channels. Several outputs share the stages that they have in common.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/tile/program.h"
#include "runtime/cpu/tile/replication.h"

namespace rewright::cpu {

class StagedProgram {
 public:
  struct Stage {
    std::unique_ptr<TileProgram> program;
    std::size_t offset = 0;  // offset of its result in scratch memory
  };
  // An output, from the operands and the stages.
  struct Last {
    std::unique_ptr<TileProgram> program;    // null: an operand has the elements that are replicated
    std::optional<Replication> replication;  // of the program's result, which is in scratch memory then
    std::size_t offset = 0;                  // of that result; without a program bytes in the operand
    std::size_t operand = 0;
  };
  StagedProgram(std::vector<Stage> stages, std::vector<Last> outputs, std::size_t scratch_bytes)
      : stages_(std::move(stages)), outputs_(std::move(outputs)), scratch_bytes_(scratch_bytes) {}
  void run(std::span<const std::byte* const> operands, std::span<std::byte* const> outputs, std::byte* scratch,
           const Workers& workers) const;
  std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  std::vector<Stage> stages_;
  std::vector<Last> outputs_;
  std::size_t scratch_bytes_;
};

struct StagedOutput {
  Element element;
  Indices position;
  TileOperand output;
};
// As compile_tiles. Several outputs: null also if they share no stage.
std::optional<StagedProgram> compile_stages(std::span<const StagedOutput> outputs, std::vector<TileOperand> operands,
                                            const TileOptions& options);

}  // namespace rewright::cpu
