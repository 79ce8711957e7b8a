// NASNet-A (Zoph et al., 2018), figure 4: the normal and the reduction cell, each of five pairs of operations.
#include "models/builder.h"
#include "models/networks.h"

namespace rewright::models {

namespace {

using Window = Builder::Window;

class Cell {
 public:
  Cell(Builder& builder, std::int64_t filters) : b(builder), filters_(filters) {}

  // Brings an input of the cell to the channels and size of the current one.
  ValueId fit(ValueId x, std::int64_t height) {
    const std::int64_t stride = b.size(x, 2) == height ? 1 : 2;
    return b.conv_norm(b.relu(x), filters_, Window::same(1, stride), 1, 1e-3);
  }
  // Twice a depthwise convolution followed by a pointwise one.
  ValueId separable(ValueId x, std::int64_t kernel, std::int64_t stride = 1) {
    for (int twice = 0; twice < 2; ++twice) {
      x = b.conv(b.relu(x), filters_, Window::same(kernel, twice == 0 ? stride : 1), filters_);
      x = b.conv_norm(x, filters_, Window::same(1), 1, 1e-3);
    }
    return x;
  }
  ValueId average(ValueId x, std::int64_t stride = 1) { return b.average_pool(x, Window::same(3, stride)); }
  ValueId maximum(ValueId x, std::int64_t stride) { return b.max_pool(x, Window::same(3, stride)); }

  ValueId normal(ValueId previous, ValueId current) {
    const ValueId h = fit(current, b.size(current, 2)), p = fit(previous, b.size(current, 2));
    return b.concat({p, b.add(separable(h, 3), h), b.add(separable(p, 3), separable(h, 5)), b.add(average(h), p),
                     b.add(average(p), average(p)), b.add(separable(p, 5), separable(p, 3))},
                    1);
  }
  ValueId reduction(ValueId previous, ValueId current) {
    const ValueId h = fit(current, b.size(current, 2)), p = fit(previous, b.size(current, 2));
    const ValueId one = b.add(separable(h, 5, 2), separable(p, 7, 2));
    const ValueId two = b.add(maximum(h, 2), separable(p, 7, 2));
    const ValueId three = b.add(average(h, 2), separable(p, 5, 2));
    const ValueId four = b.add(maximum(h, 2), separable(one, 3));
    const ValueId five = b.add(average(one), two);
    return b.concat({two, three, four, five}, 1);
  }

 private:
  Builder& b;
  std::int64_t filters_;
};

}  // namespace

Graph build_nasnet_a(std::uint64_t seed) {
  constexpr std::int64_t kFilters = 44, kCells = 4;
  Builder b(seed);
  ValueId previous = b.conv_norm(b.input("input", {1, 3, 224, 224}), 32, Window::square(3, 2, 1), 1, 1e-3);
  ValueId current = previous;
  const auto step = [&](ValueId next) {
    previous = current;
    current = next;
  };
  step(Cell(b, kFilters / 4).reduction(previous, current));
  step(Cell(b, kFilters / 2).reduction(previous, current));
  for (std::int64_t filters = kFilters; filters <= 4 * kFilters; filters *= 2) {
    if (filters > kFilters) step(Cell(b, filters).reduction(previous, current));
    for (std::int64_t cell = 0; cell < kCells; ++cell) step(Cell(b, filters).normal(previous, current));
  }
  b.output("output", b.classifier(b.flatten(b.global_average_pool(b.relu(current))), 1000));
  return b.finish();
}

}  // namespace rewright::models
