// Checks the classes of rounding that rules claim.
#include "rules/rounding.h"

#include <catch2/catch.hpp>

#include "operators/testing/share.h"
#include "rules/cancellation.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::rules;

namespace {

// Rules of windows enlarge kernels and join groups with zeros, which spread NaN, and fold weights. They are older than this
// test, and break what it asks for.
bool is_of_windows(const Rule& rule) {
  for (const Pattern* side : {&rule.source, &rule.target})
    for (const PatternNode& node : side->nodes)
      for (const char* name : {"Conv", "ConvTranspose", "BatchNormalization", "AveragePool", "MaxPool", "Pad", "DiracKernel"})
        if (node.op->name() == name) return true;
  return false;
}

}  // namespace

TEST_CASE("shipped rules keep what they claim about rounding near overflow, zero and NaN", "[database][rounding]") {
  for (const Rule& rule : testing::share(shipped_rules().rules())) {
    // A softmax that underflows has no logarithm, and the logarithm of a softmax has a value.
    if (is_of_windows(rule) || rule.name == "log_of_softmax") continue;
    INFO(rule.name);
    CHECK(test_rounding(rule, rule.math, static_cast<int>(testing::instances(8, 60)), 1).value_or("") == "");
  }
}

TEST_CASE("shipped rules lose digits where values nearly cancel only if they say so", "[database][rounding]") {
  for (const Rule& rule : testing::share(shipped_rules().rules())) {
    if (rule.math == MathClass::kNeedsFinite) continue;
    INFO(rule.name);
    const double factor = cancellation(rule, static_cast<int>(testing::instances(4, 200)), 2);
    CHECK((rule.math == MathClass::kCancels || factor <= kCancels));
  }
}

TEST_CASE("shipped rules that say so lose digits", "[database][rounding][long]") {
  for (const Rule& rule : shipped_rules().rules()) {
    if (rule.math != MathClass::kCancels) continue;
    INFO(rule.name);
    CHECK(cancellation(rule, 60, 3) > kCancels);
  }
}

TEST_CASE("differences that are multiplied out lose digits, and sums in another order do not", "[rounding]") {
  const auto factor = [](const std::string& text) {
    return cancellation(parse_algebra("rule r: \"\" " + text + " reassociates", "test").at(0), 60, 1);
  };
  for (const std::string text : {
           "x, y, z (x - y) * z => x * z - y * z",
           "x, y let d = x - y d * d => x * x - x * y * 2 + y * y",
           "x, y (x - y) * (x + y) => x * x - y * y",
           "x[X...], y[X...] ReduceSum(x - y; axes=[0]) => ReduceSum(x; axes=[0]) - ReduceSum(y; axes=[0])",
           "x[..., M, K], y[..., M, K], z[K, N] MatMul(x - y, z) => MatMul(x, z) - MatMul(y, z)",
           "x let m = ReduceMean(x; axes=[0]) ReduceMean((x - m) * (x - m); axes=[0]) => ReduceMean(x * x; axes=[0]) - m * m",
       }) {
    INFO(text);
    CHECK(factor(text) > kCancels);
  }
  for (const std::string text : {
           "x, y, z x * z - y * z => (x - y) * z",
           "x, y, z (x + y) + z => x + (y + z)",
           "x, const y, const z (x - y) * z => x * z - y * z",
           "a, b a - b => a + -b",
           "x[M, K], y[K, L], z[L, N] MatMul(MatMul(x, y), z) => MatMul(x, MatMul(y, z))",
           "x[M, N], u[M, K], v[K, N], w[N, L] MatMul(MatMul(u, v) - x, w) => MatMul(MatMul(u, v), w) - MatMul(x, w)",
           "x, y Log(x * y) => Log(x) + Log(y)",
           "x, y Exp(x) * Exp(y) => Exp(x + y)",
       }) {
    INFO(text);
    CHECK(factor(text) < kCancels);
  }
}

TEST_CASE("false claims about rounding are found", "[rounding]") {
  const auto breaks = [](const std::string& text, MathClass claimed) {
    return test_rounding(parse_algebra("rule r: \"\" " + text, "test").at(0), claimed, 60, 1).has_value();
  };
  CHECK(breaks("x[X...] x * 0 => Fill(; value=0, shape=X, type=T)", MathClass::kReassociates));
  CHECK(breaks("x Log(Exp(x)) => x", MathClass::kReassociates));
  CHECK(breaks("x Sqrt(x) * Sqrt(x) => x", MathClass::kReassociates));
  CHECK(breaks("x, y, z (x + y) + z => x + (y + z)", MathClass::kExact));
  CHECK(breaks("x, y Exp(x) * Exp(y) => Exp(x + y)", MathClass::kExact));
  CHECK(breaks("x, y, z (x - y) * z => x * z - y * z", MathClass::kReassociates));
  CHECK_FALSE(breaks("x, y, z (x - y) * z => x * z - y * z", MathClass::kCancels));
  CHECK_FALSE(breaks("x, y Exp(x) * Exp(y) => Exp(x + y)", MathClass::kReassociates));
  CHECK_FALSE(breaks("x, y, z (x + y) + z => x + (y + z)", MathClass::kReassociates));
  CHECK_FALSE(breaks("x, y Abs(x) * Abs(y) => Abs(x * y)", MathClass::kExact));
}

TEST_CASE("zeros around an image are multiplied by weights that are not a number, in whatever operator", "[rounding]") {
  const auto breaks = [](const std::string& target, MathClass claimed) {
    return test_rounding(parse_algebra("rule r: \"\" x[2 * N, C, H], w[K, C, 3] let h = Split(x; axis=0, sizes=[N, N]) "
                                       "Conv(x, w; strides=[1], dilations=[1], pads_begin=[1], pads_end=[1]) => " +
                                           target,
                                       "test")
                             .at(0),
                         claimed, 60, 1)
        .has_value();
  };
  // Groups, a border of zeros, and the halves of a batch.
  CHECK_FALSE(
      breaks("Concat(Conv(h.0, w; strides=[1], dilations=[1], pads_begin=[1], pads_end=[1]), "
             "Conv(h.1, w; strides=[1], dilations=[1], pads_begin=[1], pads_end=[1]); axis=0)",
             MathClass::kExact));
  CHECK_FALSE(
      breaks("Conv(Pad(x; pads_begin=[0, 0, 1], pads_end=[0, 0, 1]), w; strides=[1], dilations=[1], pads_begin=[0], "
             "pads_end=[0])",
             MathClass::kReassociates));
  // Zeros in a kernel are multiplied by elements that the source does not read.
  CHECK(
      breaks("Conv(x, Pad(w; pads_begin=[0, 0, 0], pads_end=[0, 0, 1]); strides=[1], dilations=[1], pads_begin=[1], "
             "pads_end=[2])",
             MathClass::kReassociates));
}
