#include "operators/random_bits.h"

#include <array>
#include <cmath>

#include "operators/families.h"
#include "operators/operator.h"

namespace rewright {

namespace {

constexpr int kRounds = 10;
constexpr std::array<std::uint32_t, 2> kMultipliers{0xD2511F53, 0xCD9E8D57}, kKeySteps{0x9E3779B9, 0xBB67AE85};

// y[i]: word i mod 4 of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011) of the
// counter (i div 4, part, stream, step) and the key `seed`, as a number below 2^32.
struct RandomBits {
  static constexpr std::string_view kName = "RandomBits";
  static constexpr InputCount kInputs{2, 2};
  Index count = 0, seed = 0, stream = 0;

  template <class V>
  void fields(V&& v) {
    v("count", count), v("seed", seed), v("stream", stream);
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
      const Element low = integer(0xFFFFFFFF), width = integer(32);
      const auto lower = [&](const Element& x) { return apply(functions::bit_and, x, low); };
      const auto upper = [&](const Element& x) { return apply(functions::shift_right_unsigned, x, width); };
      const auto mixed = [](const Element& a, const Element& b) { return apply(functions::bit_xor, a, b); };
      std::array<Element, 4> c{lower(from_index(floor_div(i[0], 4))), lower(part({})), lower(from_index(stream)),
                               lower(step({}))};
      const auto key = static_cast<std::uint64_t>(seed.value());
      std::array<std::uint32_t, 2> k{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
      for (int round = 0; round < kRounds; ++round) {
        const Element first = c[0] * integer(kMultipliers[0]), second = c[2] * integer(kMultipliers[1]);
        c = {mixed(mixed(upper(second), c[1]), integer(k[0])), lower(second), mixed(mixed(upper(first), c[3]), integer(k[1])),
             lower(first)};
        for (std::size_t n = 0; n < 2; ++n) k[n] += kKeySteps[n];
      }
      const Element word = from_index(mod(i[0], 4));
      const auto is = [&](int n) { return apply(functions::equal, word, integer(n)); };
      return select(is(0), c[0], select(is(1), c[1], select(is(2), c[2], c[3])));
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.type = {};
    m.write = [](OnnxSink&, const Attributes&, const std::vector<OnnxValue>&, const std::vector<OnnxValue>&) { return false; };
  }
};

}  // namespace

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

void register_random_bits(Registry& r) { r.add<RandomBits>(); }

}  // namespace rewright
