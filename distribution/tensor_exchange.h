// Tensors that processes hold in parts, and the exchanges between one distribution and another.
//
//   parts to the whole (all-gather), parts along one axis to parts along another (all-to-all), rows of the neighbours (a halo):
//       redistribute(processes, mine, sizes, from, to)
//   tensors of the full size combined to the whole (all-reduce) or to parts (reduce-scatter):
//       combine(processes, mine, Reduction::kSum, to)
//   one process's tensor to parts in all (scatter):
//       scatter(processes, whole, sizes, to, 0)
//
// Each is one round of messages, an all-reduce two, sent and received all at once. Short ones among many processes go in pairs,
// in log2(P) rounds (Thakur, Rabenseifner and Gropp, IJHPCA 2005): neighbours first, to combine, and last to gather, so that
// little goes to other machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "distribution/communicator.h"
#include "expressions/element.h"
#include "expressions/tensor.h"
#include "expressions/tensor_pool.h"

namespace rewright::distribution {

// The rows of one axis that each process has; without rows, each process has the whole tensor.
struct TensorParts {
  struct Rows {
    std::int64_t begin = 0, end = 0;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  std::size_t axis = 0;
  std::vector<Rows> rows;  // by process; parts may be uneven or empty, and those that are wanted may overlap
  bool is_whole() const { return rows.empty(); }
  friend bool operator==(const TensorParts&, const TensorParts&) = default;
};

// The messages in which processes gather or combine a tensor.
enum class ExchangeWay {
  kAtOnce,  // each process and each other
  kHalves,  // in pairs: halves of the tensor are combined, then halves of these, and put together in the opposite order
  kWhole,   // in pairs that combine the whole tensor: half as many messages for an all-reduce, others go by halves
};
// Tensors of up to so many bytes go so. A plan has those that are fastest on its machine.
struct PairLimits {
  double whole = 0, halves = 0;
  friend bool operator==(const PairLimits&, const PairLimits&) = default;
};
// No plan has any: parts are so short that the number of messages decides.
PairLimits usual_limits(std::size_t processes);
// Pairs need many processes, and a power of 2. What plans are simulated by, too.
bool can_pair(std::size_t processes);
ExchangeWay way_of(std::size_t processes, double bytes, const PairLimits& limits);

// The sizes of a process's part of a tensor of these sizes.
Sizes part_sizes(const Sizes& whole, const TensorParts& parts, std::size_t process);
// The part of the tensor that a process has.
Tensor part_of(const Tensor& whole, const TensorParts& parts, std::size_t process);
// The whole tensor from everybody's parts, by process.
Tensor put_together(const std::vector<Tensor>& parts, const Sizes& whole, const TensorParts& from);

// From this process's part of a tensor of the sizes `whole` to its part of another distribution. Every row is in one part of
// `from`. Memory for the result and for messages is the pool's, if there is one. Throws Error(kUnsupported) for strings,
// Error(kBadInput) where `mine` is no such part.
Tensor redistribute(Communicator& processes, const Tensor& mine, const Sizes& whole, const TensorParts& from,
                    const TensorParts& to, const std::optional<PairLimits>& limits = {}, TensorPool* pool = nullptr);

// This process's part of the combination of all processes' tensors, which have the same sizes. Elements are combined in the
// order of the processes, so that all have the same bits; 16-bit reals in float, rounded once. In pairs neighbours are combined
// first, then pairs of neighbours and so on, rounded once a round: the same bits by halves and whole, and wherever in a tensor
// an element stands. Throws Error(kUnsupported) for types without arithmetic.
Tensor combine(Communicator& processes, const Tensor& mine, Reduction reduction, const TensorParts& to,
               const std::optional<PairLimits>& limits = {}, TensorPool* pool = nullptr);

// Combines a tensor that owns its memory with another one of its type and sizes, which comes second. Throws Error(kUnsupported)
// for types without arithmetic.
void combine_into(Tensor& total, const Tensor& other, Reduction reduction);

// This process's part of the tensor that process `root` has. Others may pass an empty tensor of the same type.
Tensor scatter(Communicator& processes, const Tensor& whole, DataType type, const Sizes& sizes, const TensorParts& to,
               std::size_t root);
// The whole tensor in process `root`, from everybody's parts; an empty one in the others.
Tensor gather(Communicator& processes, const Tensor& mine, const Sizes& whole, const TensorParts& from, std::size_t root);

}  // namespace rewright::distribution
