// Inception-v3 (Szegedy et al., 2016), figures 5 to 7 and 10, without the auxiliary classifier.
#include "models/builder.h"
#include "models/networks.h"

namespace rewright::models {

namespace {

using Window = Builder::Window;

class Inception {
 public:
  explicit Inception(Builder& builder) : b(builder) {}

  ValueId conv(ValueId x, std::int64_t channels, Window w) { return b.relu(b.conv_norm(x, channels, w, 1, 1e-3)); }
  ValueId square(ValueId x, std::int64_t channels, std::int64_t kernel) { return conv(x, channels, Window::same(kernel)); }
  ValueId wide(ValueId x, std::int64_t channels, std::int64_t n) { return conv(x, channels, {1, n, 1, 0, (n - 1) / 2}); }
  ValueId tall(ValueId x, std::int64_t channels, std::int64_t n) { return conv(x, channels, {n, 1, 1, (n - 1) / 2, 0}); }
  ValueId valid(ValueId x, std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
    return conv(x, channels, Window::square(kernel, stride, 0));
  }
  ValueId average(ValueId x) { return b.average_pool(x, Window::same(3), true); }

  ValueId mixed_a(ValueId x, std::int64_t pooled) {
    return b.concat({square(x, 64, 1), square(square(x, 48, 1), 64, 5), square(square(square(x, 64, 1), 96, 3), 96, 3),
                     square(average(x), pooled, 1)},
                    1);
  }
  ValueId reduce_a(ValueId x) {
    return b.concat(
        {valid(x, 384, 3, 2), valid(square(square(x, 64, 1), 96, 3), 96, 3, 2), b.max_pool(x, Window::square(3, 2, 0))}, 1);
  }
  ValueId mixed_b(ValueId x, std::int64_t c) {
    const ValueId two = tall(wide(square(x, c, 1), c, 7), 192, 7);
    const ValueId four = wide(tall(wide(tall(square(x, c, 1), c, 7), c, 7), c, 7), 192, 7);
    return b.concat({square(x, 192, 1), two, four, square(average(x), 192, 1)}, 1);
  }
  ValueId reduce_b(ValueId x) {
    return b.concat({valid(square(x, 192, 1), 320, 3, 2), valid(tall(wide(square(x, 192, 1), 192, 7), 192, 7), 192, 3, 2),
                     b.max_pool(x, Window::square(3, 2, 0))},
                    1);
  }
  ValueId mixed_c(ValueId x) {
    const ValueId narrow = square(x, 384, 1), deep = square(square(x, 448, 1), 384, 3);
    return b.concat({square(x, 320, 1), b.concat({wide(narrow, 384, 3), tall(narrow, 384, 3)}, 1),
                     b.concat({wide(deep, 384, 3), tall(deep, 384, 3)}, 1), square(average(x), 192, 1)},
                    1);
  }

 private:
  Builder& b;
};

}  // namespace

Graph build_inception_v3(std::uint64_t seed) {
  Builder b(seed);
  Inception net(b);
  ValueId x = b.input("input", {1, 3, 299, 299});
  x = net.square(net.valid(net.valid(x, 32, 3, 2), 32, 3, 1), 64, 3);
  x = b.max_pool(x, Window::square(3, 2, 0));
  x = net.valid(net.square(x, 80, 1), 192, 3, 1);
  x = b.max_pool(x, Window::square(3, 2, 0));
  for (const std::int64_t pooled : {32, 64, 64}) x = net.mixed_a(x, pooled);
  x = net.reduce_a(x);
  for (const std::int64_t c : {128, 160, 160, 192}) x = net.mixed_b(x, c);
  x = net.reduce_b(x);
  for (int i = 0; i < 2; ++i) x = net.mixed_c(x);
  b.output("output", b.classifier(b.flatten(b.global_average_pool(x)), 1000));
  return b.finish();
}

Graph build_inception_block(std::uint64_t seed) {
  Builder b(seed);
  b.output("output", Inception(b).mixed_a(b.input("input", {1, 192, 35, 35}), 32));
  return b.finish();
}

}  // namespace rewright::models
