// Networks whose training form has parallel branches that can be merged into one convolution.
#include <array>
#include <cmath>

#include "models/builder.h"
#include "models/networks.h"

namespace rewright::models {

namespace {

using Window = Builder::Window;

// Vasu et al., 2023, figure 2: branches of kernel k, one 1x1 branch where k > 1, a batch norm where shapes allow it; summed.
ValueId mobileone_block(Builder& b, ValueId x, std::int64_t channels, std::int64_t kernel, std::int64_t stride,
                        std::int64_t group, int branches) {
  const bool identity = stride == 1 && b.size(x, 1) == channels;
  const double gain = 1 / std::sqrt(branches + (kernel > 1 ? 1 : 0) + (identity ? 1 : 0));
  const auto branch = [&](std::int64_t k) { return b.conv_norm(x, channels, Window::same(k, stride), group, 1e-5, gain); };
  ValueId sum = branch(kernel);
  for (int i = 1; i < branches; ++i) sum = b.add(sum, branch(kernel));
  if (kernel > 1) sum = b.add(sum, branch(1));
  if (identity) sum = b.add(sum, b.batch_norm(x, 1e-5, gain));
  return b.relu(sum);
}

}  // namespace

Graph build_mobileone_s0(std::uint64_t seed) {
  constexpr std::array<std::int64_t, 4> kWidths = {48, 128, 256, 1024}, kBlocks = {2, 8, 10, 1};
  constexpr int kBranches = 4;
  Builder b(seed);
  ValueId x = b.input("input", {1, 3, 224, 224});
  x = mobileone_block(b, x, 48, 3, 2, 1, 1);
  for (std::size_t stage = 0; stage < 4; ++stage)
    for (std::int64_t block = 0; block < kBlocks[stage]; ++block) {
      const std::int64_t in = b.size(x, 1);
      x = mobileone_block(b, x, in, 3, block == 0 ? 2 : 1, in, kBranches);
      x = mobileone_block(b, x, kWidths[stage], 1, 1, 1, kBranches);
    }
  b.output("output", b.classifier(b.flatten(b.global_average_pool(x)), 1000));
  return b.finish();
}

Graph build_repvgg_a0(std::uint64_t seed) {
  constexpr std::array<std::int64_t, 4> kWidths = {48, 96, 192, 1280}, kBlocks = {2, 4, 14, 1};
  Builder b(seed);
  ValueId x = b.input("input", {1, 3, 224, 224});
  const auto block = [&](ValueId in, std::int64_t channels, std::int64_t stride) {
    const bool identity = stride == 1 && b.size(in, 1) == channels;
    const double gain = 1 / std::sqrt(identity ? 3 : 2);
    ValueId sum = b.add(b.conv_norm(in, channels, Window::same(3, stride), 1, 1e-5, gain),
                        b.conv_norm(in, channels, Window::same(1, stride), 1, 1e-5, gain));
    if (identity) sum = b.add(sum, b.batch_norm(in, 1e-5, gain));
    return b.relu(sum);
  };
  x = block(x, 48, 2);
  for (std::size_t stage = 0; stage < 4; ++stage)
    for (std::int64_t i = 0; i < kBlocks[stage]; ++i) x = block(x, kWidths[stage], i == 0 ? 2 : 1);
  b.output("output", b.classifier(b.flatten(b.global_average_pool(x)), 1000));
  return b.finish();
}

}  // namespace rewright::models
