#include "operators/definitions/random_bits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "expressions/power_of_two.h"
#include "operators/definitions/families.h"
#include "operators/operator.h"

namespace rewright::operators {

namespace {

constexpr int kRounds = 10;
constexpr std::array<std::uint32_t, 2> kMultipliers{0xD2511F53, 0xCD9E8D57}, kKeySteps{0x9E3779B9, 0xBB67AE85};

// y[i], with n = i + first: word n mod 4 of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1,
// 2, 3, SC 2011) of the counter (n div 4, part, stream, step) and the key `seed`, as a number below 2^32.
struct RandomBits {
  static constexpr std::string_view kName = "RandomBits";
  static constexpr InputCount kInputs{2, 2};
  Index count = 0, seed = 0, stream = 0, first = 0;

  template <class V>
  void fields(V&& v) {
    v("count", count), v("seed", seed), v("stream", stream), v("first", first);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &step = in[0], &part = in[1];
    for (const Operand* operand : {&step, &part}) {
      d.require(operand->type() == DataType::kInt64,
                [&] { return "an input is " + std::string(name(operand->type())) + ", int64 is needed"; });
      d.require_rank(*operand, 0, "step or part");
    }
    d.require(less_equal(0, count), [&] { return "count " + count.to_string() + " is negative"; });
    d.require(seed.is_constant(), [&] { return "the seed must be a number"; });
    d.output(DataType::kInt64, {count}, [=, *this](const Indices& i) {
      const Index n = i[0] + first;
      const Element low = integer(0xFFFFFFFF), width = integer(32);
      const auto lower = [&](const Element& x) { return apply(functions::bit_and, x, low); };
      const auto upper = [&](const Element& x) { return apply(functions::shift_right_unsigned, x, width); };
      const auto mixed = [](const Element& a, const Element& b) { return apply(functions::bit_xor, a, b); };
      std::array<Element, 4> c{lower(from_index(floor_div(n, 4))), lower(part({})), lower(from_index(stream)), lower(step({}))};
      const auto key = static_cast<std::uint64_t>(seed.value());
      std::array<std::uint32_t, 2> k{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
      for (int round = 0; round < kRounds; ++round) {
        const Element first = c[0] * integer(kMultipliers[0]), second = c[2] * integer(kMultipliers[1]);
        c = {mixed(mixed(upper(second), c[1]), integer(k[0])), lower(second), mixed(mixed(upper(first), c[3]), integer(k[1])),
             lower(first)};
        for (std::size_t w = 0; w < 2; ++w) k[w] += kKeySteps[w];
      }
      const Element word = from_index(mod(n, 4));
      const auto is = [&](int k) { return apply(functions::equal, word, integer(k)); };
      return select(is(0), c[0], select(is(1), c[1], select(is(2), c[2], c[3])));
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.type = {};
    m.write = [](OnnxSink&, const Attributes&, const std::vector<OnnxValue>&, const std::vector<OnnxValue>&) { return false; };
  }
};

// The fraction bits of a 16-bit type, and the exponent of its smallest positive number.
struct ShortFormat {
  int digits, lowest;
};
std::optional<ShortFormat> short_format(DataType type) {
  if (type == DataType::kHalf) return ShortFormat{11, -24};
  if (type == DataType::kBfloat16) return ShortFormat{8, -133};
  return std::nullopt;
}

// x rounded to one of its two neighbours in the type. The probability of rounding away from 0 is the distance to the neighbour
// nearer to 0, relative to the distance of the neighbours: it happens if bits / 2^32 is less. The mean over all bits is x
// (Gupta et al., Deep Learning with Limited Numerical Precision, ICML 2015).
struct StochasticRound {
  static constexpr std::string_view kName = "StochasticRound";
  static constexpr InputCount kInputs{2, 2};
  DataType to = DataType::kBfloat16;

  template <class V>
  void fields(V&& v) {
    v("to", to);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    d.require(is_real(in[0].type()) && in[1].type() == DataType::kInt64,
              [&] { return std::string("x must be real and its bits int64"); });
    d.require(short_format(to).has_value(), [&] { return std::string(name(to)) + " is no type of 16 bits"; });
    d.require(in[0].shape() == in[1].shape(), [&] { return std::string("x and its bits have different shapes"); });
    const auto [digits, lowest] = short_format(to).value();
    d.output(to, in[0].shape(), [=, x = in[0], bits = in[1], digits = digits, lowest = lowest](const Indices& i) {
      const Element value = x(i), magnitude = apply(functions::abs, value);
      const Element power = maximum(apply(functions::power_of_two, magnitude), real(std::ldexp(1.0, lowest + digits - 1)));
      const Element unit = power * real(std::ldexp(1.0, 1 - digits));
      // Also exact in float: it divides by powers of two, and only drops digits of x below the unit.
      const Element scaled = magnitude / unit, below = apply(functions::floor, scaled);
      const Element rest = convert(apply(functions::ceil, (scaled - below) * real(std::ldexp(1.0, 32))), Scalar::kInteger);
      const Element up = select(apply(functions::less, bits(i), rest), real(1), real(0));
      const Element finite = apply(functions::less, magnitude, real(std::numeric_limits<double>::infinity()));
      const Element changes = apply(functions::logical_and, finite, apply(functions::less, real(0), magnitude));
      return select(changes, apply(functions::sign, value) * ((below + up) * unit), value);
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.type = {};
    m.write = [](OnnxSink&, const Attributes&, const std::vector<OnnxValue>&, const std::vector<OnnxValue>&) { return false; };
  }
};

}  // namespace

ValueId add_stochastic_round(GraphBuilder& b, ValueId x, DataType to, const RandomSource& random, std::int64_t first) {
  const Indices shape = b.shape_of(x);
  const ValueId bits = b.add("RandomBits", {random.step, random.part},
                             {{"count", product(shape)},
                              {"seed", Index(static_cast<std::int64_t>(random.seed))},
                              {"stream", Index(random.draws)},
                              {"first", Index(first)}});
  return b.add("StochasticRound", {x, b.reshaped(bits, shape)}, {{"to", to}});
}

std::array<ValueId, 2> add_dropout(GraphBuilder& b, ValueId x, double ratio, RandomSource& random) {
  const TensorType type = b.type_of(x);
  if (!(ratio >= 0 && ratio < 1)) throw Error(ErrorCode::kBadInput, "the ratio is " + std::to_string(ratio));
  const ValueId bits = b.add("RandomBits", {random.step, random.part},
                             {{"count", product(type.shape)},
                              {"seed", Index(static_cast<std::int64_t>(random.seed))},
                              {"stream", Index(random.draws++)}});
  const ValueId limit =
      b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector<std::int64_t>{std::llround(std::ldexp(ratio, 32))}));
  const ValueId kept = b.add("GreaterOrEqual", {b.reshaped(bits, type.shape), limit});
  const ValueId grown = b.add("Mul", {x, b.scalar(type.type, 1 / (1 - ratio))});
  return {b.add("Where", {kept, grown, b.scalar(type.type, 0)}), kept};
}

void register_random_bits(Registry& r) {
  r.add<RandomBits>();
  r.add<StochasticRound>();
}

}  // namespace rewright::operators
