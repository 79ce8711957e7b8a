// Philox's random words, four at a time.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

using Words = std::array<std::uint32_t, 4>;
constexpr double kBlock = 12;  // nanoseconds

Words philox(Words c, std::uint64_t key) {
  auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{c[0]} * 0xD2511F53U, second = std::uint64_t{c[2]} * 0xCD9E8D57U;
    c = {static_cast<std::uint32_t>(second >> 32) ^ c[1] ^ low, static_cast<std::uint32_t>(second),
         static_cast<std::uint32_t>(first >> 32) ^ c[3] ^ high, static_cast<std::uint32_t>(first)};
    low += 0x9E3779B9U, high += 0xBB67AE85U;
  }
  return c;
}

class RandomBitsKernel final : public Kernel {
 public:
  RandomBitsKernel(std::int64_t first, std::int64_t count, std::uint64_t seed, std::int64_t stream)
      : first_(first), end_(first + count), seed_(seed), stream_(static_cast<std::uint32_t>(stream)) {}

  void run(const Call& call) const override {
    const auto scalar = [&](std::size_t n) {
      std::int64_t value;
      std::memcpy(&value, call.inputs[n], sizeof value);
      return static_cast<std::uint32_t>(value);
    };
    const std::uint32_t step = scalar(0), part = scalar(1);
    auto* const y = reinterpret_cast<std::int64_t*>(call.outputs[0]);
    const std::int64_t first_block = first_ / 4, blocks = (end_ + 3) / 4 - first_block;
    const std::int64_t pieces = call.workers.pieces(kBlock * static_cast<double>(blocks), blocks);
    call.workers.share(pieces, [&](std::int64_t piece, int) {
      const std::int64_t end = first_block + first_unit(blocks, piece + 1, pieces);
      for (std::int64_t b = first_block + first_unit(blocks, piece, pieces); b < end; ++b) {
        const Words words = philox({static_cast<std::uint32_t>(b), part, stream_, step}, seed_);
        for (std::int64_t n = std::max(first_, 4 * b); n < std::min(end_, 4 * b + 4); ++n)
          y[n - first_] = words[static_cast<std::size_t>(n - 4 * b)];
      }
    });
  }

 private:
  std::int64_t first_, end_;  // words
  std::uint64_t seed_;
  std::uint32_t stream_;
};

class RandomBitsPlan final : public NodePlan {
 public:
  explicit RandomBitsPlan(const Node& node) : node_(node) {}
  void emit(Planner& planner, ValueId result) override {
    const AttributeReader attributes(node_);
    std::vector<int> inputs{planner.storage(node_.inputs[0], kPlain), planner.storage(node_.inputs[1], kPlain)};
    planner.add_step(
        std::make_unique<RandomBitsKernel>(attributes.number("first"), attributes.number("count"),
                                           static_cast<std::uint64_t>(attributes.number("seed")), attributes.number("stream")),
        std::move(inputs), {planner.add_value(result, kPlain)});
  }

 private:
  const Node& node_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_random_bits(Planner&, const Node& node) { return std::make_unique<RandomBitsPlan>(node); }

}  // namespace rewright::cpu
