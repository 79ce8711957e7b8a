// keeps_order against the positions of all elements.
#include "runtime/planning/keeps_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "expressions/index.h"
#include "operators/operator.h"

using namespace rewright;
using namespace rewright::planning;

TEST_CASE("a permutation of axes keeps the order if only axes of size 1 move") {
  std::mt19937 random(3);
  const auto pick = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  int kept = 0;
  for (int instance = 0; instance < 400; ++instance) {
    const auto rank = static_cast<std::size_t>(pick(1, 4));
    Sizes sizes;
    Indices position;
    std::vector<std::size_t> axes;
    for (std::size_t a = 0; a < rank; ++a) {
      sizes.push_back(pick(0, 9) == 0 ? 0 : pick(0, 1) == 0 ? 1 : pick(2, 3));
      position.push_back(Index::fresh("i"));
      axes.push_back(a);
    }
    std::shuffle(axes.begin(), axes.end(), random);
    // Axes of size 1 are read at 0, as broadcast ones, or at their variable. Sometimes one is missing, or one is added.
    Sizes operand_sizes;
    Indices read;
    for (const std::size_t a : axes) {
      if (sizes[a] == 1 && pick(0, 3) == 0) continue;
      operand_sizes.push_back(sizes[a]);
      read.push_back(sizes[a] == 1 && pick(0, 1) == 0 ? Index(0) : position[a]);
    }
    if (pick(0, 3) == 0) {
      operand_sizes.push_back(1);
      read.emplace_back(0);
    }
    bool expected = true;
    const std::int64_t count = element_count(sizes);
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t rest = n, address = 0;
      Sizes at(rank);
      for (std::size_t a = rank; a-- > 0; rest /= sizes[a]) at[a] = rest % sizes[a];
      for (std::size_t r = 0; r < read.size(); ++r) {
        const auto axis = std::find(position.begin(), position.end(), read[r]) - position.begin();
        address = address * operand_sizes[r] + (read[r].is_constant() ? 0 : at[static_cast<std::size_t>(axis)]);
      }
      expected = expected && address == n;
    }
    const Operand operand(0, {DataType::kFloat, to_indices(operand_sizes)});
    INFO("instance " << instance);
    CHECK(keeps_order(operand(read), position, sizes, operand_sizes) == expected);
    kept += expected ? 1 : 0;
  }
  CHECK(kept > 100);
  CHECK(kept < 400);
}
