// Adding up what processes hold, so that all of them hold the sum. M: the bytes of a process, N: the number of processes,
// alpha: the time of a message, beta: the time of a byte.
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
  kEngine,             // what the library that connects the processes has
  kParameterServer,    // the first process adds and answers
  kNaive,              // each sends all it has to each
  kRing,               // parts go round twice: added, then as they are (Patarasuk and Yuan, JPDC 2009)
  kTree,               // added along a binomial tree to the first process, and spread along the same
  kButterfly,          // recursive halving, then doubling (Thakur, Rabenseifner and Gropp, IJHPCA 2005)
  kRecursiveDoubling,  // the butterfly that exchanges all in each round
  kHierarchical,       // a tree within each node, a ring of the first processes of the nodes
};

struct AllReduce {
  AllReduceStrategy strategy = AllReduceStrategy::kEngine;
  // hierarchical: processes of a node, counted off by their ranks; 0: as the machines that they run on say.
  std::size_t node = 0;
};

// All names, in the order of the strategies: "engine", "parameter-server", "naive", "ring", "tree", "butterfly",
// "recursive-doubling", "hierarchical".
std::span<const std::string_view> all_reduce_names();
// One of these, or "hierarchical:4". Throws Error(kUsage).
AllReduce all_reduce_from_name(std::string_view name);

// In place of the values, their sums over all processes, the same bits in all of them. Values are float, double, float16 or
// bfloat16; each addition rounds to their type.
void all_reduce(Communicator& processes, const AllReduce& how, std::span<std::byte> values, DataType type);

// Bytes that all processes together send for vectors of M bytes. The engine's are not known: 0.
std::uint64_t all_reduce_bytes(const AllReduce& how, std::size_t processes, std::uint64_t bytes);
// What the alpha-beta model says about the time: messages * alpha + bytes * beta along the longest chain. Both are 0 for the
// engine.
struct LongestChain {
  double messages, bytes;
};
LongestChain longest_chain(const AllReduce& how, std::size_t processes, double bytes);

// Vectors cut into a part for each process: part p goes from element bounds[p] to bounds[p + 1].
using Bounds = std::vector<std::size_t>;
Bounds even_bounds(std::size_t count, std::size_t processes);

// After reduce_scatter() the part of this process holds the sum over all; the others hold anything. After all_gather_parts()
// each part holds what its process has in it. Both go round a ring.
void reduce_scatter(Communicator& processes, std::span<std::byte> values, DataType type, const Bounds& bounds);
void all_gather_parts(Communicator& processes, std::span<std::byte> values, std::size_t width, const Bounds& bounds);

// The sum of all vectors of all processes (each holds equally many, the first process the first), in one order of adding: the
// same bits for any number of processes that hold the same vectors together. It is the first vector's part of this process that
// holds the sum. Values of 16 bits are added in float, and rounded once.
void reduce_scatter_in_order(Communicator& processes, std::span<const std::span<std::byte>> vectors, DataType type,
                             const Bounds& bounds);

}  // namespace rewright::distribution
