// Small networks for small devices; tables as in the papers named in models.cc.
#include <array>

#include "models/builder.h"
#include "models/networks.h"

namespace rewright::models {

Graph build_squeezenet(std::uint64_t seed) {
  Builder b(seed);
  const auto fire = [&](ValueId x, std::int64_t squeeze, std::int64_t expand) {
    const ValueId s = b.relu(b.conv(x, squeeze, Builder::Window::same(1), 1, true));
    const ValueId one = b.relu(b.conv(s, expand, Builder::Window::same(1), 1, true));
    const ValueId three = b.relu(b.conv(s, expand, Builder::Window::same(3), 1, true));
    return b.concat({one, three}, 1);
  };
  const auto pool = [&](ValueId x) { return b.max_pool(x, Builder::Window::square(3, 2, 0), true); };
  ValueId x = b.input("input", {1, 3, 224, 224});
  x = pool(b.relu(b.conv(x, 96, Builder::Window::square(7, 2, 0), 1, true)));
  x = pool(fire(fire(fire(x, 16, 64), 16, 64), 32, 128));
  x = pool(fire(fire(fire(fire(x, 32, 128), 48, 192), 48, 192), 64, 256));
  x = fire(x, 64, 256);
  x = b.relu(b.conv(x, 1000, Builder::Window::same(1), 1, true));
  b.output("output", b.flatten(b.global_average_pool(x)));
  return b.finish();
}

Graph build_mobilenet_v2(std::uint64_t seed) {
  struct Stage {
    std::int64_t expansion, channels, blocks, stride;
  };
  constexpr std::array<Stage, 7> kStages = {
      {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}};
  Builder b(seed);
  ValueId x = b.input("input", {1, 3, 224, 224});
  x = b.relu6(b.conv_norm(x, 32, Builder::Window::same(3, 2)));
  for (const Stage& stage : kStages)
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      const std::int64_t stride = block == 0 ? stage.stride : 1, hidden = b.size(x, 1) * stage.expansion;
      ValueId y = stage.expansion == 1 ? x : b.relu6(b.conv_norm(x, hidden, Builder::Window::same(1)));
      y = b.relu6(b.conv_norm(y, hidden, Builder::Window::same(3, stride), hidden));
      y = b.conv_norm(y, stage.channels, Builder::Window::same(1));
      x = stride == 1 && b.size(x, 1) == stage.channels ? b.add(x, y) : y;
    }
  x = b.global_average_pool(b.relu6(b.conv_norm(x, 1280, Builder::Window::same(1))));
  b.output("output", b.classifier(b.flatten(x), 1000));
  return b.finish();
}

Graph build_efficientnet_b0(std::uint64_t seed) {
  struct Stage {
    std::int64_t expansion, kernel, stride, channels, blocks;
  };
  constexpr std::array<Stage, 7> kStages = {{{1, 3, 1, 16, 1},
                                             {6, 3, 2, 24, 2},
                                             {6, 5, 2, 40, 2},
                                             {6, 3, 2, 80, 3},
                                             {6, 5, 1, 112, 3},
                                             {6, 5, 2, 192, 4},
                                             {6, 3, 1, 320, 1}}};
  Builder b(seed);
  ValueId x = b.input("input", {1, 3, 224, 224});
  x = b.silu(b.conv_norm(x, 32, Builder::Window::same(3, 2)));
  for (const Stage& stage : kStages)
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      const std::int64_t stride = block == 0 ? stage.stride : 1, in = b.size(x, 1), hidden = in * stage.expansion;
      ValueId y = stage.expansion == 1 ? x : b.silu(b.conv_norm(x, hidden, Builder::Window::same(1)));
      y = b.silu(b.conv_norm(y, hidden, Builder::Window::same(stage.kernel, stride), hidden));
      ValueId gate = b.silu(b.conv(b.global_average_pool(y), in / 4, Builder::Window::same(1), 1, true));
      gate = b.sigmoid(b.conv(gate, hidden, Builder::Window::same(1), 1, true));
      y = b.conv_norm(b.mul(gate, y), stage.channels, Builder::Window::same(1));
      x = stride == 1 && in == stage.channels ? b.add(y, x) : y;
    }
  x = b.global_average_pool(b.silu(b.conv_norm(x, 1280, Builder::Window::same(1))));
  b.output("output", b.classifier(b.flatten(x), 1000));
  return b.finish();
}

}  // namespace rewright::models
