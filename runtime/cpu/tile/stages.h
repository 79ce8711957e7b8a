// Expressions whose reductions serve many elements, computed in stages: softmax's maxima and sums, layer norm's means and
// variances. A reduction that does not depend on every output axis becomes a tensor over the axes it depends on.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/tile/program.h"

namespace rewright::cpu {

class StagedProgram {
 public:
  struct Stage {
    std::unique_ptr<TileProgram> program;
    std::size_t offset = 0;  // offset of its result in scratch memory
  };
  StagedProgram(std::vector<Stage> stages, std::unique_ptr<TileProgram> last, std::size_t scratch_bytes)
      : stages_(std::move(stages)), last_(std::move(last)), scratch_bytes_(scratch_bytes) {}
  void run(std::span<const std::byte* const> operands, std::byte* output, std::byte* scratch, const Workers& workers) const;
  std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  std::vector<Stage> stages_;
  std::unique_ptr<TileProgram> last_;
  std::size_t scratch_bytes_;
};

// As compile_tiles.
std::optional<StagedProgram> compile_stages(const Element& element, const Indices& position, const TileOperand& output,
                                            std::vector<TileOperand> operands, const TileOptions& options);

}  // namespace rewright::cpu
