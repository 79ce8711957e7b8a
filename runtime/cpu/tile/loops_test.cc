// The tile engine's loops beside the functions' definitions.
#include "runtime/cpu/tile/loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::tested_isas;

namespace {

constexpr double kLoopInfinity = std::numeric_limits<double>::infinity();

// Numbers of all magnitudes, whole ones, and special ones.
template <class R>
std::vector<R> loop_arguments(std::mt19937& random, std::size_t count, bool large) {
  const double special[] = {0.0,   -0.0,  kLoopInfinity, -kLoopInfinity, std::nan(""),
                            1e-40, -3e38, 2147483648.0,  -2147483648.0,  1e10};
  std::uniform_real_distribution<double> uniform(-9, 9);
  std::vector<R> values(count);
  for (R& v : values) {
    const auto kind = random() % 8;
    v = static_cast<R>(kind == 0 && large ? special[random() % std::size(special)]
                       : kind < 3         ? std::round(uniform(random))
                                          : uniform(random));
  }
  return values;
}

std::vector<std::int64_t> loop_integers(std::mt19937& random, std::size_t count, bool large) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t special[] = {0, -1, kMost, -kMost - 1, std::int64_t{1} << 31, -(std::int64_t{1} << 31), 64, 0x7FFFFFFF};
  std::vector<std::int64_t> values(count);
  for (std::int64_t& v : values)
    v = random() % 5 == 0 && large ? special[random() % std::size(special)] : static_cast<std::int64_t>(random() % 41) - 20;
  return values;
}

bool alike(double actual, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  return actual == expected || std::fabs(actual - expected) <= tolerance * std::fabs(expected) + 1e-44;
}

template <class R>
void check_real_functions(Isa isa, std::mt19937& random) {
  const RealLoops<R>& loops = real_loops<R>(isa);
  const double unit = std::numeric_limits<R>::epsilon();
  for (const Function* f : all_functions()) {
    if (f->real == nullptr) continue;
    for (const std::size_t n : {1U, 5U, 16U, 300U, 700U}) {
      const bool large = n != 300;
      CAPTURE(cpu::name(isa), f->name, n, sizeof(R));
      const std::vector<R> x = loop_arguments<R>(random, n, large), y = loop_arguments<R>(random, n, large);
      std::vector<R> result(n);
      std::vector<std::int64_t> truth(n);
      if (f->arity == 2 && loops.binary(*f) != nullptr)
        loops.binary (*f)(result.data(), x.data(), y.data(), static_cast<Count>(n));
      else if (f == &functions::softplus || f == &functions::floor || f == &functions::ceil)
        loops.unary (*f)(result.data(), x.data(), static_cast<Count>(n));
      else if (f->arity == 1 && loops.predicate(*f) != nullptr)
        loops.predicate (*f)(truth.data(), x.data(), static_cast<Count>(n));
      else
        continue;
      int wrong = 0;
      for (std::size_t k = 0; k < n; ++k) {
        const double arguments[] = {x[k], y[k]};
        const double expected = f->real(arguments);
        const double rounded = f->result == Scalar::kReal ? static_cast<R>(expected) : expected;
        wrong += !alike(f->result == Scalar::kReal ? result[k] : static_cast<double>(truth[k]), rounded, 4 * unit);
      }
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE("exponentials and tanh have the same bits with AVX2 and AVX-512") {
  std::vector<float> x = {0.0f, -0.0f, 88.7f, 88.8f, 89.5f, -87.4f, -90.0f, -103.9f, -104.5f, INFINITY, -INFINITY, NAN, 3e38f};
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-110, 95);
  while (x.size() < 5003) x.push_back(uniform(random));
  for (const Function* f : {&functions::exp, &functions::sigmoid, &functions::tanh}) {
    std::vector<std::vector<float>> results;
    for (const Isa isa : tested_isas()) {
      if (isa == Isa::kBaseline) continue;  // multiplies and adds in two steps
      results.emplace_back(x.size());
      real_loops<float>(isa).unary (*f)(results.back().data(), x.data(), static_cast<Count>(x.size()));
    }
    int different = 0;
    for (const std::vector<float>& y : results)
      for (std::size_t i = 0; i < x.size(); ++i)
        different += !std::isnan(x[i]) && std::bit_cast<std::uint32_t>(y[i]) != std::bit_cast<std::uint32_t>(results[0][i]);
    CAPTURE(f->name);
    CHECK(different == 0);
  }
}

TEST_CASE("inverse trigonometric functions are exact to a few units, and have the same bits with AVX2 and AVX-512") {
  std::vector<float> x = {
      0.0f,    -0.0f,    0.5f,      -0.5f, 1.0f,  -1.0f, std::nextafter(0.5f, 1.0f), std::nextafter(1.0f, 2.0f), 1e-40f,
      -1e-20f, INFINITY, -INFINITY, NAN,   3e38f, -7.0f};
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(-1, 1), exponent(-30, 0);
  while (x.size() < 9001) x.push_back(uniform(random)), x.push_back(std::exp2(exponent(random))), x.push_back(1 - x.back());
  for (std::size_t i = 0; i < 3000; ++i) x.push_back(1 / x[i + 20]);
  for (const Function* f : {&functions::asin, &functions::acos, &functions::atan}) {
    CAPTURE(f->name);
    std::vector<std::vector<float>> results;
    for (const Isa isa : tested_isas()) {
      std::vector<float> y(x.size());
      real_loops<float>(isa).unary (*f)(y.data(), x.data(), static_cast<Count>(x.size()));
      int wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double argument = x[i];
        wrong += !alike(y[i], f->real(&argument), 3e-7) || (y[i] == 0 && std::signbit(y[i]) != std::signbit(x[i]) && x[i] != 1);
      }
      CHECK(wrong == 0);
      if (isa != Isa::kBaseline) results.push_back(std::move(y));  // multiplies and adds in two steps
    }
    int different = 0;
    for (const std::vector<float>& y : results)
      for (std::size_t i = 0; i < x.size(); ++i)
        different += !std::isnan(y[i]) && std::bit_cast<std::uint32_t>(y[i]) != std::bit_cast<std::uint32_t>(results[0][i]);
    CHECK(different == 0);
  }
}

TEST_CASE("loops over reals agree with the functions' definitions") {
  std::mt19937 random(1);
  for (const Isa isa : tested_isas()) {
    check_real_functions<float>(isa, random);
    check_real_functions<double>(isa, random);
  }
}

TEST_CASE("loops over integers agree with the functions' definitions, beyond 32 bits as well") {
  std::mt19937 random(2);
  for (const Isa isa : tested_isas()) {
    const IntegerLoops& loops = loops_for<LoopTables>(isa).i64;
    for (const Function* f : all_functions()) {
      if (f->integer == nullptr || (f->arity == 1 ? loops.unary(*f) == nullptr : loops.binary(*f) == nullptr)) continue;
      for (const std::size_t n : {1U, 7U, 256U, 300U, 700U})
        for (const bool large : {false, true}) {
          CAPTURE(cpu::name(isa), f->name, n, large);
          const std::vector<std::int64_t> x = loop_integers(random, n, large);
          std::vector<std::int64_t> y = loop_integers(random, n, large), result(n);
          if (random() % 2 == 0) y.assign(n, 3);
          const auto count = static_cast<Count>(n);
          f->arity == 1 ? loops.unary (*f)(result.data(), x.data(), count)
                        : loops.binary (*f)(result.data(), x.data(), y.data(), count);
          int wrong = 0;
          for (std::size_t k = 0; k < n; ++k) {
            const std::int64_t arguments[] = {x[k], y[k]};
            wrong += result[k] != f->integer(arguments);
          }
          CHECK(wrong == 0);
        }
    }
    for (const bool large : {false, true}) {
      const std::vector<std::int64_t> x = loop_integers(random, 700, large), y = loop_integers(random, 700, large);
      std::vector<std::int64_t> quotients(700);
      loops.floor_divide(quotients.data(), x.data(), y.data(), 700);
      int wrong = 0;
      for (std::size_t k = 0; k < 700; ++k) {
        if (y[k] == 0 || y[k] == -1) continue;
        const std::int64_t expected = x[k] / y[k] - (x[k] % y[k] != 0 && (x[k] < 0) != (y[k] < 0));
        wrong += quotients[k] != expected;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("rows reduced together have the bits of single ones, columns are exact and alike on all processors") {
  std::mt19937 random(7);
  const Count counts[] = {1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 33}, many[] = {1, 31, 64, 100, 1024, 1025, 3000};
  for (const Count n : counts) {
    const Count rows = 1 + static_cast<Count>(random() % 70);
    std::vector<float> x(static_cast<std::size_t>(rows * n)), y(static_cast<std::size_t>(rows));
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& v : x) v = random() % 9 == 0 ? -0.0f : uniform(random);
    x[random() % x.size()] = std::nanf("");
    for (const Isa isa : tested_isas()) {
      const RealLoops<float>& loops = real_loops<float>(isa);
      CAPTURE(cpu::name(isa), n, rows);
      const auto check = [&](Elements<float>::Rows together, float (*single)(const float*, Count)) {
        together(y.data(), x.data(), rows, n);
        int wrong = 0;
        for (Count r = 0; r < rows; ++r) {
          const float expected = single(x.data() + r * n, n), actual = y[static_cast<std::size_t>(r)];
          wrong += std::isnan(expected) ? !std::isnan(actual)
                                        : std::bit_cast<std::uint32_t>(expected) != std::bit_cast<std::uint32_t>(actual);
        }
        CHECK(wrong == 0);
      };
      check(loops.row_sum, loops.sum);
      check(loops.row_product, loops.product);
      check(loops.row_largest, loops.largest);
      check(loops.row_smallest, loops.smallest);
    }
    for (const Count steps : many) {
      const Count stride = n + (random() % 2 == 0 ? 0 : 3);
      std::vector<float> s(static_cast<std::size_t>(steps * stride));
      for (float& v : s) v = uniform(random);
      std::vector<std::vector<float>> sums;
      for (const Isa isa : tested_isas()) {
        const RealLoops<float>& loops = real_loops<float>(isa);
        CAPTURE(cpu::name(isa), n, steps, stride);
        std::vector<float> largest(static_cast<std::size_t>(n));
        sums.emplace_back(static_cast<std::size_t>(n));
        loops.column_sum(sums.back().data(), s.data(), stride, steps, n);
        loops.column_largest(largest.data(), s.data(), stride, steps, n);
        int wrong = 0;
        for (Count c = 0; c < n; ++c) {
          double sum = 0, most = -2;
          for (Count k = 0; k < steps; ++k) {
            const double v = s[static_cast<std::size_t>(k * stride + c)];
            sum += v;
            most = std::max(most, v);
          }
          wrong += std::fabs(sum - static_cast<double>(sums.back()[static_cast<std::size_t>(c)])) >
                   1e-6 * static_cast<double>(steps);
          wrong += static_cast<double>(largest[static_cast<std::size_t>(c)]) != most;
        }
        CHECK(wrong == 0);
        CHECK(sums.back() == sums.front());
      }
    }
  }
}

// Rows of every length with NaN, infinities and zeros of both signs.
template <class T, class M>
void check_extremes(std::mt19937& random, const std::vector<const Elements<T, M>*>& tables) {
  for (Count n = 1; n <= 100; ++n) {
    const Count rows = 1 + static_cast<Count>(random() % 150);
    std::vector<T> x(static_cast<std::size_t>(rows * n));
    for (T& v : x) {
      v = static_cast<T>(static_cast<int>(random() % 251) - 125);
      if constexpr (std::is_floating_point_v<T>) {
        using Limits = std::numeric_limits<T>;
        const T special[] = {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), T(0), -T(0)};
        if (random() % 64 == 0) v = special[random() % std::size(special)];
      }
    }
    for (const bool largest : {true, false}) {
      std::vector<std::vector<T>> results;
      for (const Elements<T, M>* const loops : tables) {
        CAPTURE(n, rows, largest, sizeof(T));
        results.emplace_back(static_cast<std::size_t>(rows));
        (largest ? loops->row_largest : loops->row_smallest)(results.back().data(), x.data(), rows, n);
        int wrong = 0;
        for (Count r = 0; r < rows; ++r) {
          const std::span<const T> row(x.data() + r * n, static_cast<std::size_t>(n));
          const T actual = results.back()[static_cast<std::size_t>(r)];
          const T single = (largest ? loops->largest : loops->smallest)(row.data(), n);
          T expected = row[0];
          for (const T v : row) expected = expected != expected || (largest ? expected > v : expected < v) ? expected : v;
          wrong += expected != expected ? actual == actual : actual != expected;
          wrong += std::memcmp(&actual, &single, sizeof(T)) != 0;
        }
        CHECK(wrong == 0);
        CHECK(std::memcmp(results.back().data(), results.front().data(), static_cast<std::size_t>(rows) * sizeof(T)) == 0);
      }
    }
  }
}
TEST_CASE("largest and smallest of rows of any length, alike on all processors") {
  std::mt19937 random(11);
  const auto check = [&](auto zero, auto truth, auto&& table) {
    std::vector<const Elements<decltype(zero), decltype(truth)>*> tables;
    for (const Isa isa : tested_isas()) tables.push_back(&table(loops_for<LoopTables>(isa)));
    check_extremes(random, tables);
  };
  const std::int64_t truth = 0;
  check(
      0.0f, truth, [](const LoopTables& t) -> auto& { return t.f32; });
  check(
      0.0, truth, [](const LoopTables& t) -> auto& { return t.f64; });
  check(
      truth, truth, [](const LoopTables& t) -> auto& { return t.i64; });
  check(
      std::uint8_t{}, std::uint8_t{}, [](const LoopTables& t) -> auto& { return t.u8; });
  check(
      std::int8_t{}, std::int8_t{}, [](const LoopTables& t) -> auto& { return t.i8; });
  check(
      std::int16_t{}, std::int16_t{}, [](const LoopTables& t) -> auto& { return t.i16; });
  check(
      std::int32_t{}, std::int32_t{}, [](const LoopTables& t) -> auto& { return t.i32; });
}

TEST_CASE("conversions between halves, integers and floats") {
  std::mt19937 random(3);
  for (const Isa isa : tested_isas()) {
    CAPTURE(cpu::name(isa));
    const RealLoops<float>& loops = real_loops<float>(isa);
    std::vector<std::uint16_t> halves(65536), again(65536);
    for (std::size_t k = 0; k < halves.size(); ++k) halves[k] = static_cast<std::uint16_t>(k);
    std::vector<float> floats(halves.size());
    for (const bool brain : {false, true}) {
      const DataType type = brain ? DataType::kBfloat16 : DataType::kHalf;
      loops.load(floats.data(), halves.data(), type, 1, 65536);
      int wrong = 0;
      for (std::size_t k = 0; k < halves.size(); ++k) {
        const float expected = brain ? bfloat16_to_float(halves[k]) : half_to_float(halves[k]);
        wrong += !(floats[k] == expected || (std::isnan(expected) && std::isnan(floats[k])));
        floats[k] = expected * (1 + static_cast<float>(random() % 64) * 0x1p-15f);
      }
      loops.store(again.data(), type, 1, floats.data(), 65536);
      for (std::size_t k = 0; k < halves.size(); ++k) {
        const std::uint16_t expected = brain ? float_to_bfloat16(floats[k]) : float_to_half(floats[k]);
        const float a = brain ? bfloat16_to_float(again[k]) : half_to_float(again[k]);
        wrong += !(again[k] == expected || (std::isnan(floats[k]) && std::isnan(a)));
      }
      CHECK(wrong == 0);
    }
    for (const bool large : {false, true}) {
      const std::vector<float> x = loop_arguments<float>(random, 700, large);
      std::vector<std::int64_t> integers(700);
      loops.to_integer(integers.data(), x.data(), 700);
      const std::vector<std::int64_t> y = loop_integers(random, 700, large);
      std::vector<float> reals(700);
      loops.from_integer(reals.data(), y.data(), 700);
      int wrong = 0;
      for (std::size_t k = 0; k < 700; ++k) {
        using Limits = std::numeric_limits<std::int64_t>;
        const double v = x[k];
        wrong += integers[k] != (std::isnan(v) ? 0
                                 : v >= 0x1p63 ? Limits::max()
                                 : v < -0x1p63 ? Limits::min()
                                               : static_cast<std::int64_t>(v));
        wrong += reals[k] != static_cast<float>(y[k]);
      }
      CHECK(wrong == 0);
    }
  }
}
