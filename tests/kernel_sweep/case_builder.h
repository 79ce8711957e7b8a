// Builds random graphs for the sweep: inputs and constants of random elements, sizes of models.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/testing.h"
#include "tests/kernel_sweep/cases.h"

namespace rewright::testing {

struct CaseBuilder {
  using Named = std::vector<std::pair<std::string, AttributeValue>>;
  SweepSizes limit;
  std::mt19937_64 random;
  Graph graph;
  std::vector<Tensor> inputs;

  CaseBuilder(std::uint64_t seed, const SweepSizes& sizes) : limit(sizes), random(seed * 0x9e3779b97f4a7c15ULL + 1) {}

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  bool chance(double share) { return std::uniform_real_distribution<double>(0, 1)(random) < share; }
  std::int64_t log_pick(std::int64_t low, std::int64_t high) {
    const double e = std::uniform_real_distribution<double>(std::log(static_cast<double>(low)),
                                                            std::log(static_cast<double>(high) + 0.99))(random);
    return std::clamp(static_cast<std::int64_t>(std::exp(e)), low, high);
  }
  // Numbers of channels: common ones of models, or arbitrary.
  std::int64_t channels(std::int64_t most = 2048) {
    static constexpr std::int64_t kUsual[] = {1,   3,   16,  24,  32,  48,  64,  80,  96,   128,  160,  192,
                                              256, 320, 384, 480, 512, 640, 768, 960, 1024, 1280, 1536, 2048};
    const std::int64_t c = chance(0.6) ? kUsual[pick(0, std::ssize(kUsual) - 1)] : log_pick(1, 2048);
    return std::min(c, most);
  }

  Tensor tensor(const Sizes& sizes, double low, double high) {
    Tensor result(DataType::kFloat, sizes);
    std::uint64_t state = random();
    for (float& x : result.mutable_data<float>()) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      x = static_cast<float>(low + (high - low) * static_cast<double>(state >> 40) * 0x1p-24);
    }
    return result;
  }
  ValueId input(const Sizes& sizes, double low = -2, double high = 2) { return input(tensor(sizes, low, high)); }
  ValueId input(Tensor t) {
    const TensorType type{t.type(), to_indices(t.sizes())};
    inputs.push_back(std::move(t));
    return graph.add_input("x" + std::to_string(inputs.size()), type);
  }
  ValueId constant(const Sizes& sizes, double low = -1, double high = 1) {
    return graph.add_constant(tensor(sizes, low, high));
  }
  ValueId number(double v) { return graph.add_constant(Tensor::scalar(DataType::kFloat, v)); }
  Tensor integers(DataType type, const Sizes& sizes, std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> elements(static_cast<std::size_t>(element_count(sizes)));
    for (auto& e : elements) e = pick(low, high);
    return Tensor::from_integers(type, sizes, elements);
  }
  ValueId op(std::string_view name, std::vector<ValueId> operands, Named attributes = {}) {
    return node(graph, name, std::move(operands), std::move(attributes))[0];
  }
  Sizes sizes(ValueId v) const { return values(graph.value(v).type.shape); }

  // Sizes of a parameter by channel, for axis 1 of `rank` axes.
  static Sizes by_channel(std::int64_t count, std::size_t rank) {
    Sizes result(rank - 1, 1);
    result[0] = count;
    return result;
  }
  // Sizes of 1 to 4 axes within the limits.
  Sizes some_sizes(std::size_t least = 1, std::size_t most = 4) {
    for (;;) {
      Sizes s;
      for (std::int64_t a = pick(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)); a > 0; --a)
        s.push_back(log_pick(1, 3000));
      if (static_cast<double>(element_count(s)) <= limit.elements) return s;
    }
  }
  struct Matrices {
    std::int64_t m, k, n;
    Sizes batch;
  };
  Matrices matrices() {
    for (;;) {
      Matrices r{log_pick(1, 1024), log_pick(1, 8192), log_pick(1, 8192), {}};
      for (std::int64_t b = chance(0.5) ? pick(1, 2) : 0; b > 0; --b) r.batch.push_back(log_pick(1, 16));
      const auto batch = static_cast<double>(element_count(r.batch));
      const auto m = static_cast<double>(r.m), k = static_cast<double>(r.k), n = static_cast<double>(r.n);
      if (k * n <= limit.weights && batch * m * k * n <= limit.multiplications &&
          batch * std::max(m * k, m * n) <= limit.elements)
        return r;
    }
  }

  // ---- Integers of 8 bits
  DataType byte_type() { return chance(0.5) ? DataType::kInt8 : DataType::kUint8; }
  Tensor bytes(DataType type, const Sizes& s) {
    return type == DataType::kInt8 ? integers(type, s, -128, 127) : integers(type, s, 0, 255);
  }
  ValueId zero_point(DataType type) { return graph.add_constant(bytes(type, {})); }
  ValueId scale(double low, double high, std::int64_t count = 0) {
    return graph.add_constant(tensor(count > 0 ? Sizes{count} : Sizes{}, low, high));
  }
};

}  // namespace rewright::testing
