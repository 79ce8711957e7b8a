// Element-wise sums over processes (all-reduce, reduce-scatter, all-gather) by several algorithms, and what each algorithm
// costs in the alpha-beta model: alpha is the time of a message, beta the time of a byte.
//
//   std::vector<float> gradients = ...;  // equally many in each process
//   all_reduce(processes, all_reduce_from_name("ring"), std::as_writable_bytes(std::span(gradients)), DataType::kFloat);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distribution/communicator.h"

namespace rewright::distribution {

enum class AllReduceStrategy {
  kEngine,             // Communicator::sum: the all-reduce of MPI or NCCL
  kParameterServer,    // process 0 receives and adds all vectors, then sends out the sum
  kNaive,              // each process sends its whole vector to every other
  kRing,               // reduce-scatter, then all-gather, both around a ring (Patarasuk and Yuan, JPDC 2009)
  kTree,               // added along a binomial tree to process 0, then broadcast along the same tree
  kButterfly,          // recursive halving with neighbours first, then doubling (Thakur, Rabenseifner and Gropp, IJHPCA 2005)
  kRecursiveDoubling,  // a butterfly whose rounds each exchange the whole vector
  kHierarchical,       // a tree within each node, and a ring of the nodes' first processes
};

struct AllReduce {
  AllReduceStrategy strategy = AllReduceStrategy::kEngine;
  // Hierarchical only: how many consecutive ranks form a node; 0: the processes of one machine do (Communicator::nodes).
  std::size_t node = 0;
};

// The strategies' names, in the order of AllReduceStrategy: "engine", "parameter-server", "naive", "ring", "tree", "butterfly",
// "recursive-doubling", "hierarchical".
std::span<const std::string_view> all_reduce_names();
// Parses one of these names; "hierarchical:4" also sets `node`. Throws Error(kUsage) for any other text.
AllReduce all_reduce_from_name(std::string_view name);

// Replaces each value by its sum over all processes, the same bits in all of them. The type is float, double, float16 or
// bfloat16, and each addition rounds to it. All processes call it with equally many values.
void all_reduce(Communicator& processes, const AllReduce& how, std::span<std::byte> values, DataType type);

// The bytes that all processes together send for a vector of `bytes` bytes. 0 for the engine, where this is not known.
std::uint64_t all_reduce_bytes(const AllReduce& how, std::size_t processes, std::uint64_t bytes);
// The longest chain of messages that wait for each other. The alpha-beta model predicts the time messages * alpha + bytes *
// beta. Both numbers are 0 for the engine.
struct LongestChain {
  double messages, bytes;
};
LongestChain longest_chain(const AllReduce& how, std::size_t processes, double bytes);

// A vector divided into one part for each process: part p consists of the elements bounds[p] to bounds[p + 1] - 1.
using Bounds = std::vector<std::size_t>;
// Parts whose sizes differ by at most one element.
Bounds even_bounds(std::size_t count, std::size_t processes);

// Adds around a ring: this process's own part then holds the sum over all processes, and the other parts are undefined.
void reduce_scatter(Communicator& processes, std::span<std::byte> values, DataType type, const Bounds& bounds);
// Copies around a ring: every part then holds the values of the process that owns it. `width`: bytes of an element.
void all_gather_parts(Communicator& processes, std::span<std::byte> values, std::size_t width, const Bounds& bounds);

// A reduce-scatter over several vectors in each process, added in a fixed order: first those of process 0, then those of
// process 1, and so on. The result has the same bits however the same vectors are distributed over processes; each process
// holds equally many. The sum replaces this process's own part of vectors[0]. 16-bit values are added in float and rounded
// once.
void reduce_scatter_in_order(Communicator& processes, std::span<const std::span<std::byte>> vectors, DataType type,
                             const Bounds& bounds);

}  // namespace rewright::distribution
