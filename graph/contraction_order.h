// The order in which the tensors of a contraction are multiplied, two at a time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace rewright::graph {

// Sets of factors or of variables, by bits.
using Bits = std::uint64_t;

// A sum of products: factors[i] are the variables of the i-th factor, `result` those of the result. The others are summed over.
// Variable v runs over sizes[v] numbers. At most 64 of each.
struct SumOfProducts {
  std::vector<Bits> factors;
  Bits result = 0;
  std::vector<std::int64_t> sizes;

  // The variables that these factors share with the others or with the result, once the rest is summed over.
  Bits kept(Bits of_factors) const;
};

// Pairs of sets of factors, each of one factor or multiplied by an earlier pair; the last pair makes all of them. The order
// takes the fewest operations (2 for each combination of the pair's variables, 1 for each element stored) for up to 10 factors:
// by dynamic programming over sets, as orders of joins are found (Selinger et al., SIGMOD 1979). For more factors the cheapest
// pair is multiplied first. Empty for one factor.
std::vector<std::pair<Bits, Bits>> contraction_order(const SumOfProducts& sum);

// The operations of such an order, as they are counted there.
double operations_of(const SumOfProducts& sum, const std::vector<std::pair<Bits, Bits>>& order);

}  // namespace rewright::graph
