// Random tensors. The generator is MT19937, seeded by the node's seed: a node with a seed gives the same numbers each time.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

// The words of std::mt19937 (Matsumoto and Nishimura, 1998), which it is used in place of: made some at a time, in 32 bits and
// in loops that compilers vectorize, they take half of the time of a Dropout in training.
class Twister {
 public:
  using result_type = std::uint32_t;
  explicit Twister(std::uint32_t seed) {
    words_[0] = seed;
    for (std::uint32_t n = 1; n < kState; ++n) words_[n] = 1812433253U * (words_[n - 1] ^ (words_[n - 1] >> 30)) + n;
  }
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() {
    if (next_ == kAtOnce) refill();
    return tempered_[next_++];
  }

 private:
  static constexpr std::size_t kState = 624, kMiddle = 397, kAtOnce = 224;  // at once: no word depends on another new one

  void refill() {
    for (std::size_t n = 0; n < kAtOnce; ++n) {
      const std::uint32_t joined = (words_[n] & 0x80000000U) | (words_[n + 1] & 0x7FFFFFFFU);
      std::uint32_t word = words_[n + kMiddle] ^ (joined >> 1) ^ ((joined & 1U) * 0x9908B0DFU);
      new_[n] = word;
      word ^= word >> 11;
      word ^= (word << 7) & 0x9D2C5680U;
      word ^= (word << 15) & 0xEFC60000U;
      tempered_[n] = word ^ (word >> 18);
    }
    std::copy(words_.begin() + kAtOnce, words_.end(), words_.begin());
    std::copy(new_.begin(), new_.end(), words_.end() - kAtOnce);
    next_ = 0;
  }

  std::array<std::uint32_t, kState> words_;
  std::array<std::uint32_t, kAtOnce> new_{}, tempered_{};
  std::size_t next_ = kAtOnce;
};

class Generator {
 public:
  explicit Generator(const Call& call) : engine_(call.has("seed") ? seed_of(call) : std::random_device()()) {}
  // Uniform in [0, 1), with 53 random bits.
  double uniform() {
    const std::uint32_t high = engine_() >> 5, low = engine_() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }
  double normal() { return normal_(engine_); }

 private:
  // A seed is a float: a whole number gives itself, another one its bits.
  static std::uint32_t seed_of(const Call& call) {
    const double seed = call.has("seed") ? seed_value(call) : 0;
    if (seed >= 0 && seed < 0x1p32 && seed == std::floor(seed)) return static_cast<std::uint32_t>(seed);
    const auto narrow = static_cast<float>(seed);
    std::uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof bits);
    return bits;
  }
  static double seed_value(const Call& call) {
    return call.type() == "Dropout" ? static_cast<double>(call.integer("seed", 0)) : call.real("seed", 0);
  }
  Twister engine_;
  std::normal_distribution<double> normal_;
};

template <class Draw>
void give(Call& call, DataType type, const Sizes& sizes, const Draw& draw) {
  if (!is_real(type) && !is_integer(type) && type != DataType::kBool)
    throw Error(ErrorCode::kUnsupported, "random elements of type " + std::string(name(type)));
  std::vector<double> values = zeros(sizes);
  for (double& v : values) v = draw();
  call.give(Tensor::from_reals(type, sizes, values));
}

DataType type_of(const Call& call, DataType otherwise) {
  return static_cast<DataType>(call.integer("dtype", static_cast<int>(otherwise)));
}

void run_uniform(Call& call, const Sizes& sizes, DataType type) {
  Generator generator(call);
  const double low = call.real("low", 0), high = call.real("high", 1);
  give(call, type, sizes, [&] { return low + (high - low) * generator.uniform(); });
}

void run_normal(Call& call, const Sizes& sizes, DataType type) {
  Generator generator(call);
  const double mean = call.real("mean", 0), scale = call.real("scale", 1);
  give(call, type, sizes, [&] { return mean + scale * generator.normal(); });
}

void run_bernoulli(Call& call) {
  Generator generator(call);
  const Tensor& x = call.tensor(0);
  const std::vector<double> p = x.reals();
  std::size_t next = 0;
  give(call, type_of(call, x.type()), x.sizes(), [&] { return generator.uniform() < p[next++] ? 1 : 0; });
}

// Draws classes by unnormalized logarithms of their probabilities.
void run_multinomial(Call& call) {
  Generator generator(call);
  const Tensor& x = call.tensor(0);
  if (x.sizes().size() != 2 || x.sizes()[1] < 1)
    throw Error(ErrorCode::kBadInput, "its input must have shape [batches, classes]");
  const std::int64_t classes = x.sizes()[1], samples = call.integer("sample_size", 1);
  const std::vector<double> logits = x.reals();
  std::int64_t drawn = 0;
  give(call, type_of(call, DataType::kInt32), {x.sizes()[0], samples}, [&] {
    const double* row = logits.data() + drawn++ / samples * classes;
    const double top = *std::max_element(row, row + classes);
    double total = 0;
    for (std::int64_t c = 0; c < classes; ++c) total += std::exp(row[c] - top);
    double rest = generator.uniform() * total;
    std::int64_t c = 0;
    while (c + 1 < classes && (rest -= std::exp(row[c] - top)) >= 0) ++c;
    return static_cast<double>(c);
  });
}

// In training mode: drops elements with the ratio's probability, and scales the others so that the mean stays.
void run_dropout(Call& call) {
  const Tensor& x = call.tensor(0);
  const double ratio = call.has_input(1) ? call.real_input(1) : 0.5;
  const bool training = call.has_input(2) && call.integer_input(2) != 0;
  if (!(ratio >= 0 && ratio < 1)) throw Error(ErrorCode::kBadInput, "the ratio is " + std::to_string(ratio));
  Tensor mask(DataType::kBool, x.sizes());
  const std::span<std::byte> kept = mask.mutable_bytes();
  std::fill(kept.begin(), kept.end(), std::byte{1});
  if (!training || ratio == 0) {
    call.give(x);
    return call.give(std::move(mask));
  }
  Generator generator(call);
  for (std::byte& k : kept) k = std::byte{generator.uniform() >= ratio};
  const auto scaled = [&](double value, std::size_t i) { return kept[i] == std::byte{1} ? value / (1 - ratio) : 0; };
  if (x.type() == DataType::kFloat) {  // without a copy in double
    Tensor y(x.type(), x.sizes());
    const std::span<const float> from = x.data<float>();
    const std::span<float> to = y.mutable_data<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(scaled(from[i], i));
    call.give(std::move(y));
  } else {
    std::vector<double> values = x.reals();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = scaled(values[i], i);
    call.give(Tensor::from_reals(x.type(), x.sizes(), values));
  }
  call.give(std::move(mask));
}

}  // namespace

void register_random(Procedures& p) {
  p.add_random("RandomUniform", [](Call& call) { run_uniform(call, call.integers("shape"), type_of(call, DataType::kFloat)); });
  p.add_random("RandomNormal", [](Call& call) { run_normal(call, call.integers("shape"), type_of(call, DataType::kFloat)); });
  p.add_random("RandomUniformLike",
               [](Call& call) { run_uniform(call, call.tensor(0).sizes(), type_of(call, call.tensor(0).type())); });
  p.add_random("RandomNormalLike",
               [](Call& call) { run_normal(call, call.tensor(0).sizes(), type_of(call, call.tensor(0).type())); });
  p.add_random("Bernoulli", run_bernoulli);
  p.add_random("Multinomial", run_multinomial);
  p.add_random("Dropout", run_dropout);
}

}  // namespace rewright::operators
