// The order of a group's tensors, and the bands in which they are computed. Internal to the tile engine and the search for
// loops.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/tile/extraction.h"
#include "runtime/cpu/tile/stages.h"

namespace rewright::cpu {

// A tensor of a group: a stage or a value.
struct GroupTensor {
  Element element;
  Indices position;
  TileOperand output;
  int number = 0;  // by which others read it
  bool is_result = false;
  LoopProgram::Stored stored;
};

std::int64_t bytes_of(const TileOperand& operand);

// Calls `visit` for all reads of the expression, also for those inside of positions.
void for_each_read(const Element& e, const std::function<void(const ElementNode&)>& visit);

// May the tensor be computed in bands of the first `axes` axes together with `others`, which it reads only at its own positions
// of these axes? `operands`: all that have numbers.
bool fits_in_bands(const GroupTensor& tensor, const GroupTensor& first, int axes, const std::vector<const GroupTensor*>& others,
                   const std::vector<TileOperand>& operands);

// All tensors of a loop program, in an order in which they can be computed.
struct GroupTensors {
  std::vector<GroupTensor> tensors;
  std::vector<TileOperand> operands;  // by number: the group's, values, stages
  int given = 0;                      // the group's operands
};
// nullopt: the loop program does not fit the values.
std::optional<GroupTensors> tensors_of(std::span<const GroupValue> values, std::vector<TileOperand> operands,
                                       const LoopProgram& loops);
// By value: the sub-expressions that may be stored. None for values that are not stored themselves.
std::vector<std::vector<Storable>> storable_parts(std::span<const GroupValue> values, std::vector<TileOperand> operands,
                                                  const LoopProgram& loops);

// Fewer bytes stay in the caches without bands.
inline constexpr std::int64_t kLeastBandedBytes = 256 << 10;

// The passes that the estimate finds fastest. `operands`: all that have numbers.
std::vector<LoopProgram::Pass> arranged(const std::vector<GroupTensor>& tensors, const std::vector<TileOperand>& operands,
                                        int threads);

}  // namespace rewright::cpu
