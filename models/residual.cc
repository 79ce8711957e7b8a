// Residual networks and their relatives: layer counts and widths are those of the papers named in models.cc.
#include "models/builder.h"
#include "models/networks.h"

namespace rewright::models {

namespace {

ValueId bottleneck(Builder& b, ValueId x, std::int64_t width, std::int64_t out, std::int64_t stride, std::int64_t group) {
  ValueId y = b.relu(b.conv_norm(x, width, Builder::Window::same(1)));
  y = b.relu(b.conv_norm(y, width, Builder::Window::same(3, stride), group));
  y = b.conv_norm(y, out, Builder::Window::same(1));
  if (stride != 1 || b.size(x, 1) != out) x = b.conv_norm(x, out, Builder::Window::same(1, stride));
  return b.relu(b.add(y, x));
}

Graph residual_network(std::uint64_t seed, std::int64_t group, std::int64_t width) {
  Builder b(seed);
  ValueId x = b.input("input", {1, 3, 224, 224});
  x = b.relu(b.conv_norm(x, 64, Builder::Window::same(7, 2)));
  x = b.max_pool(x, Builder::Window::same(3, 2));
  const std::int64_t blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (std::int64_t block = 0; block < blocks[stage]; ++block)
      x = bottleneck(b, x, width << stage, std::int64_t{256} << stage, stage > 0 && block == 0 ? 2 : 1, group);
  b.output("output", b.classifier(b.flatten(b.global_average_pool(x)), 1000));
  return b.finish();
}

}  // namespace

Graph build_resnet50(std::uint64_t seed) { return residual_network(seed, 1, 64); }
Graph build_resnext50(std::uint64_t seed) { return residual_network(seed, 32, 128); }

Graph build_densenet121(std::uint64_t seed) {
  constexpr std::int64_t kGrowth = 32;
  Builder b(seed);
  ValueId x = b.input("input", {1, 3, 224, 224});
  x = b.relu(b.conv_norm(x, 2 * kGrowth, Builder::Window::same(7, 2)));
  x = b.max_pool(x, Builder::Window::same(3, 2));
  const std::int64_t layers[] = {6, 12, 24, 16};
  for (int stage = 0; stage < 4; ++stage) {
    for (std::int64_t layer = 0; layer < layers[stage]; ++layer) {
      ValueId y = b.conv(b.relu(b.batch_norm(x)), 4 * kGrowth, Builder::Window::same(1));
      y = b.conv(b.relu(b.batch_norm(y)), kGrowth, Builder::Window::same(3));
      x = b.concat({x, y}, 1);
    }
    if (stage == 3) break;
    x = b.conv(b.relu(b.batch_norm(x)), b.size(x, 1) / 2, Builder::Window::same(1));
    x = b.average_pool(x, Builder::Window::square(2, 2, 0));
  }
  x = b.global_average_pool(b.relu(b.batch_norm(x)));
  b.output("output", b.classifier(b.flatten(x), 1000));
  return b.finish();
}

}  // namespace rewright::models
