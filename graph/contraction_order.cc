#include "graph/contraction_order.h"

#include <bit>
#include <limits>

namespace rewright::graph {

namespace {

constexpr std::size_t kMostExact = 10;  // 3^10 pairs of sets

double combinations(const SumOfProducts& sum, Bits variables) {
  double count = 1;
  for (; variables != 0; variables &= variables - 1)
    count *= static_cast<double>(sum.sizes[static_cast<std::size_t>(std::countr_zero(variables))]);
  return count;
}

double operations(const SumOfProducts& sum, Bits left, Bits right) {
  return 2 * combinations(sum, sum.kept(left) | sum.kept(right)) + combinations(sum, sum.kept(left | right));
}

std::vector<std::pair<Bits, Bits>> cheapest_pairs_first(const SumOfProducts& sum) {
  std::vector<Bits> parts;
  for (std::size_t i = 0; i < sum.factors.size(); ++i) parts.push_back(Bits{1} << i);
  std::vector<std::pair<Bits, Bits>> order;
  while (parts.size() > 1) {
    double least = std::numeric_limits<double>::infinity();
    std::size_t first = 0, second = 1;
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (std::size_t j = i + 1; j < parts.size(); ++j)
        if (const double cost = operations(sum, parts[i], parts[j]); cost < least) least = cost, first = i, second = j;
    order.emplace_back(parts[first], parts[second]);
    parts[first] |= parts[second];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(second));
  }
  return order;
}

}  // namespace

Bits SumOfProducts::kept(Bits of_factors) const {
  Bits own = 0, others = result;
  for (std::size_t i = 0; i < factors.size(); ++i) (of_factors >> i & 1 ? own : others) |= factors[i];
  return own & others;
}

std::vector<std::pair<Bits, Bits>> contraction_order(const SumOfProducts& sum) {
  const std::size_t count = sum.factors.size();
  if (count < 2) return {};
  if (count > kMostExact) return cheapest_pairs_first(sum);
  const Bits all = (Bits{1} << count) - 1;
  struct Best {
    double cost = 0;
    Bits left = 0;  // of the pair; 0: a single factor
  };
  std::vector<Best> best(static_cast<std::size_t>(all) + 1);
  for (Bits set = 1; set <= all; ++set) {
    if (std::has_single_bit(set)) continue;
    Best& b = best[set];
    b.cost = std::numeric_limits<double>::infinity();
    const Bits first = set & (~set + 1);  // stands on the left, so that each pair is tried once
    for (Bits left = (set - 1) & set; left != 0; left = (left - 1) & set) {
      if ((left & first) == 0) continue;
      const double cost = best[left].cost + best[set ^ left].cost + operations(sum, left, set ^ left);
      if (b.left == 0 || cost < b.cost) b = {cost, left};
    }
  }
  // The pairs below come first: sets that are parts of a set are smaller numbers.
  std::vector<std::pair<Bits, Bits>> order;
  std::vector<Bits> open = {all};
  while (!open.empty()) {
    const Bits set = open.back();
    open.pop_back();
    if (std::has_single_bit(set)) continue;
    const Bits left = best[set].left;
    order.insert(order.begin(), {left, set ^ left});
    open.push_back(left);
    open.push_back(set ^ left);
  }
  return order;
}

double operations_of(const SumOfProducts& sum, const std::vector<std::pair<Bits, Bits>>& order) {
  double total = 0;
  for (const auto& [left, right] : order) total += operations(sum, left, right);
  return total;
}

}  // namespace rewright::graph
