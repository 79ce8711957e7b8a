#include <vector>

#include "models/builder.h"
#include "models/networks.h"

namespace rewright::models {

// The recurrent cell that Zoph and Le (2017, appendix, figure 8) found, unrolled: eight products of the step's input and of the
// state, combined pairwise.
Graph build_nasrnn(std::uint64_t seed) {
  constexpr std::int64_t kWidth = 512, kSteps = 5;
  Builder b(seed);
  const auto tanh = [&](ValueId x) { return b.node("Tanh", {x}); };
  ValueId state = b.input("state", {1, kWidth});
  std::vector<ValueId> inputs;
  for (std::int64_t step = 0; step < kSteps; ++step) inputs.push_back(b.input("input_" + std::to_string(step), {1, kWidth}));
  for (const ValueId x : inputs) {
    std::vector<ValueId> t;
    for (int i = 0; i < 8; ++i) t.push_back(b.add(b.linear(x, kWidth, false), b.linear(state, kWidth, false)));
    const ValueId first = b.add(b.relu(t[0]), b.sigmoid(t[3]));
    const ValueId second = b.add(b.sigmoid(t[1]), tanh(t[2]));
    const ValueId third = b.mul(b.sigmoid(t[4]), tanh(t[5]));
    const ValueId fourth = b.mul(b.sigmoid(t[6]), b.relu(t[7]));
    const ValueId left = b.mul(tanh(first), tanh(fourth));
    const ValueId right = b.add(b.sigmoid(second), tanh(third));
    state = tanh(b.mul(tanh(right), tanh(left)));
  }
  b.output("output", state);
  return b.finish();
}

}  // namespace rewright::models
