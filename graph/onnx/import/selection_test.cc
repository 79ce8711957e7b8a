// Selections and maxima of regions against what defines them, element by element.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>

#include "graph/onnx/onnx.h"
#include "graph/testing.h"
#include "operators/testing/share.h"

namespace rewright::graph {

namespace {

std::vector<Tensor> run(const std::string& text, const std::vector<Tensor>& inputs) {
  return interpret(import_onnx_bytes(text_bytes("agraph " + text, 22), "selection"), inputs);
}

struct Random {
  std::mt19937 generator;
  explicit Random(unsigned seed) : generator(seed) {}
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  }
  double between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(generator); }
};

}  // namespace

TEST_CASE("distinct elements in their order, with their places and how often they occur, in all types") {
  const std::pair<std::string, DataType> types[]{
      {"float", DataType::kFloat},   {"double", DataType::kDouble}, {"float16", DataType::kHalf},  {"int64", DataType::kInt64},
      {"uint64", DataType::kUint64}, {"int8", DataType::kInt8},     {"uint32", DataType::kUint32}, {"bool", DataType::kBool}};
  for (unsigned seed = 0; seed < testing::instances(64); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::string& name = types[seed % 8].first;
    const DataType type = types[seed % 8].second;
    const std::int64_t count = seed % 3 == 0 ? random.pick(0, 20) : random.pick(100, 700);
    const bool real = is_real(type), sorted = random.pick(0, 3) > 0;
    std::vector<double> reals;
    std::vector<std::int64_t> integers;
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t next = seed % 2 ? random.pick(-9, 9) : random.pick(INT64_MIN, INT64_MAX);
      integers.push_back(type == DataType::kBool ? next & 1 : next);
      const double special[]{0.0, -0.0, HUGE_VAL, -HUGE_VAL};
      reals.push_back(random.pick(0, 9) == 0 ? special[random.pick(0, 3)]
                                             : std::ldexp(static_cast<double>(next), seed % 2 ? 0 : -50));
    }
    const Tensor x = real ? Tensor::from_reals(type, {count}, reals) : Tensor::from_integers(type, {count}, integers);
    const auto found =
        run("(" + name + "[" + std::to_string(count) + "] x) => (" + name +
                "[A] y, int64[A] first, int64[C] which, int64[A] often) { y, first, which, often = Unique <sorted = " +
                (sorted ? "1" : "0") + "> (x) }",
            {x});
    // Elements as they are held, unsigned ones of 64 bits too.
    const std::vector<double> held = real ? x.reals() : std::vector<double>();
    const std::vector<std::int64_t> held_integers = real ? std::vector<std::int64_t>() : x.integers();
    const auto before = [&](std::int64_t a, std::int64_t b) {
      const auto p = static_cast<std::size_t>(a), q = static_cast<std::size_t>(b);
      if (real) return held[p] < held[q];
      if (type == DataType::kUint64)
        return static_cast<std::uint64_t>(held_integers[p]) < static_cast<std::uint64_t>(held_integers[q]);
      return held_integers[p] < held_integers[q];
    };
    std::map<std::int64_t, std::int64_t, decltype(before)> often(before);  // by the first place
    for (std::int64_t n = 0; n < count; ++n) ++often[n];
    std::vector<std::pair<std::int64_t, std::int64_t>> expected(often.begin(), often.end());
    if (!sorted) std::sort(expected.begin(), expected.end());
    std::vector<std::int64_t> first, counts, which;
    for (const auto& [place, times] : expected) first.push_back(place), counts.push_back(times);
    for (std::int64_t n = 0; n < count; ++n)
      which.push_back(std::find_if(first.begin(), first.end(), [&](auto f) { return !before(f, n) && !before(n, f); }) -
                      first.begin());
    CHECK(found[1].integers() == first);
    CHECK(found[2].integers() == which);
    CHECK(found[3].integers() == counts);
    REQUIRE(found[0].size() == static_cast<std::int64_t>(first.size()));
    for (std::size_t k = 0; k < first.size(); ++k) {
      const auto at = static_cast<std::size_t>(first[k]);
      CHECK((real ? found[0].reals()[k] == held[at] : found[0].integers()[k] == held_integers[at]));
    }
  }
}

TEST_CASE("what is not a number is one element, behind all others") {
  const double nan = std::nan("");
  for (const std::int64_t more : {0, 200}) {  // sorted in different manners
    std::vector<double> x{nan, 3, -1, nan, HUGE_VAL, 3};
    x.insert(x.end(), static_cast<std::size_t>(more), 3);
    const auto found =
        run("(float[N] x) => (float[A] y, int64[A] first, int64[C] which, int64[A] often) "
            "{ y, first, which, often = Unique (x) }",
            {Tensor::from_reals(DataType::kFloat, {static_cast<std::int64_t>(x.size())}, x)});
    CHECK(found[1].integers() == std::vector<std::int64_t>{2, 1, 4, 0});
    CHECK(found[3].integers() == std::vector<std::int64_t>{1, 2 + more, 1, 2});
    CHECK(std::isnan(found[0].reals()[3]));
  }
}

TEST_CASE("distinct rows and columns of an axis") {
  for (unsigned seed = 0; seed < testing::instances(20); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t rows = random.pick(1, 30), columns = random.pick(1, 3);
    std::vector<std::int64_t> x;
    for (std::int64_t n = 0; n < rows * columns; ++n) x.push_back(random.pick(0, 2));
    std::map<std::vector<std::int64_t>, std::int64_t> often;
    for (std::int64_t r = 0; r < rows; ++r) ++often[{x.begin() + r * columns, x.begin() + (r + 1) * columns}];
    std::vector<std::int64_t> expected, counts;
    for (const auto& [row, times] : often) expected.insert(expected.end(), row.begin(), row.end()), counts.push_back(times);
    const auto found =
        run("(int64[R, C] x) => (int64[A, C] y, int64[A] first, int64[R] which, int64[A] often) "
            "{ y, first, which, often = Unique <axis = 0> (x) }",
            {Tensor::from_integers(DataType::kInt64, {rows, columns}, x)});
    CHECK(found[0].integers() == expected);
    CHECK(found[3].integers() == counts);
  }
}

TEST_CASE("boxes by falling score, without those that overlap a better one too much") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t batches = random.pick(1, 2), classes = random.pick(1, 3),
                       count = seed % 3    ? random.pick(1, 40)
                               : seed % 12 ? random.pick(130, 300)
                                           : random.pick(600, 1600);
    const std::int64_t most = random.pick(0, 3) == 0 ? random.pick(0, 5) : count;
    const double limit = random.pick(0, 3) == 0 ? random.pick(0, 1) : random.between(0, 1), least = random.between(-1, 0.5);
    const bool centered = random.pick(0, 1) == 1, grid = random.pick(0, 1) == 1;  // grid: overlaps that are just the limit
    std::vector<double> boxes, scores;
    for (std::int64_t n = 0; n < batches * count * 4; ++n)
      boxes.push_back(grid ? static_cast<double>(random.pick(0, 4)) : static_cast<float>(random.between(-1, 3)));
    for (std::int64_t n = 0; n < batches * classes * count; ++n)
      scores.push_back(random.pick(0, 3) == 0 ? static_cast<double>(random.pick(-1, 1))
                                              : static_cast<float>(random.between(-1, 1)));
    if (grid) std::fill(scores.begin() + count / 2, scores.begin() + count / 2 + count / 4, -0.0);  // as good as 0
    const auto real = [](double v) { return Tensor::from_reals(DataType::kFloat, {1}, std::vector{v}); };
    const std::vector<Tensor> inputs{Tensor::from_reals(DataType::kFloat, {batches, count, 4}, boxes),
                                     Tensor::from_reals(DataType::kFloat, {batches, classes, count}, scores),
                                     Tensor::from_integers(DataType::kInt64, {1}, std::vector{most}), real(limit), real(least)};
    const auto found =
        run("(float[B, N, 4] boxes, float[B, C, N] scores, int64[1] most, float[1] limit, float[1] least) => "
            "(int64[A, 3] y) { y = NonMaxSuppression <center_point_box = " +
                std::string(centered ? "1" : "0") + "> (boxes, scores, most, limit, least) }",
            inputs);
    const double allowed = inputs[3].reals()[0], wanted = inputs[4].reals()[0];
    std::vector<std::int64_t> expected;
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t c = 0; c < classes; ++c) {
        const double* score = scores.data() + (b * classes + c) * count;
        std::vector<std::int64_t> order;
        for (std::int64_t n = 0; n < count; ++n)
          if (score[n] > wanted) order.push_back(n);
        std::stable_sort(order.begin(), order.end(), [&](auto p, auto q) { return score[p] > score[q]; });
        std::vector<std::int64_t> kept;
        for (const std::int64_t n : order) {
          const auto edges = [&](std::int64_t at) {
            const double* v = boxes.data() + (b * count + at) * 4;
            if (centered) return std::array{v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
            return std::array{std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
          };
          const auto overlaps = [&](std::int64_t other) {
            const auto p = edges(n), q = edges(other);
            const double height = std::min(p[2], q[2]) - std::max(p[0], q[0]),
                         width = std::min(p[3], q[3]) - std::max(p[1], q[1]);
            if (height <= 0 || width <= 0) return false;
            const auto area = [](const auto& e) { return (e[2] - e[0]) * (e[3] - e[1]); };
            const double all = area(q) + area(p) - height * width;
            return all > 0 && height * width / all > allowed;
          };
          if (static_cast<std::int64_t>(kept.size()) >= most) break;
          if (std::none_of(kept.begin(), kept.end(), overlaps)) kept.push_back(n);
        }
        for (const std::int64_t n : kept) expected.insert(expected.end(), {b, c, n});
      }
    CHECK(found[0].integers() == expected);
  }
}

TEST_CASE("the largest elements of regions, in all channels and types, with those that are no numbers") {
  const std::pair<std::string, DataType> types[]{
      {"float", DataType::kFloat}, {"double", DataType::kDouble}, {"float16", DataType::kHalf}};
  for (unsigned seed = 0; seed < testing::instances(45); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto& [name, type] = types[seed % 3];
    const std::int64_t images = random.pick(1, 2), channels = random.pick(1, 40), height = random.pick(1, 9),
                       width = random.pick(1, 9);
    const std::int64_t down = random.pick(1, 4), across = random.pick(1, 4), count = random.pick(1, 5);
    std::vector<double> elements, rois;
    for (std::int64_t n = 0; n < images * channels * height * width; ++n) {
      const double special[]{std::nan(""), HUGE_VAL, -HUGE_VAL};
      elements.push_back(seed % 2 && random.pick(0, 30) == 0 ? special[random.pick(0, 2)] : random.between(-1, 1));
    }
    for (std::int64_t n = 0; n < count; ++n) {
      rois.push_back(static_cast<double>(random.pick(0, images - 1)));
      for (const std::int64_t low : {-2, 0})  // whole numbers: bins are those of the sizes in between
        for (const std::int64_t size : {width, height}) rois.push_back(static_cast<double>(random.pick(low, size + 1)));
    }
    const Tensor x = Tensor::from_reals(type, {images, channels, height, width}, elements);
    const auto found = run("(" + name + "[I, C, H, W] x, " + name + "[N, 5] rois) => (" + name +
                               "[N, C, P, Q] y) { y = MaxRoiPool <pooled_shape = [" + std::to_string(down) + ", " +
                               std::to_string(across) + "]> (x, rois) }",
                           {x, Tensor::from_reals(type, {count, 5}, rois)})[0]
                           .reals();
    const std::vector<double> held = x.reals();
    std::size_t at = 0;
    for (std::int64_t n = 0; n < count; ++n)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = 0; p < down; ++p)
          for (std::int64_t q = 0; q < across; ++q, ++at) {
            const double* const roi = rois.data() + n * 5;
            // Bin b of k begins at floor(b * size / k) and ends before ceil((b + 1) * size / k).
            const auto part = [](double begin, double end, std::int64_t bin, std::int64_t bins, std::int64_t size) {
              const auto length = static_cast<std::int64_t>(std::max(end - begin + 1, 1.0));
              const std::int64_t first = bin * length / bins + static_cast<std::int64_t>(begin);
              const std::int64_t behind = ((bin + 1) * length + bins - 1) / bins + static_cast<std::int64_t>(begin);
              return std::pair(std::clamp<std::int64_t>(first, 0, size), std::clamp<std::int64_t>(behind, 0, size));
            };
            const auto [top, bottom] = part(roi[2], roi[4], p, down, height);
            const auto [left, right] = part(roi[1], roi[3], q, across, width);
            double largest = top < bottom && left < right ? -HUGE_VAL : 0;
            for (std::int64_t r = top; r < bottom; ++r)
              for (std::int64_t k = left; k < right; ++k) {
                const double v = held[static_cast<std::size_t>(
                    ((static_cast<std::int64_t>(roi[0]) * channels + c) * height + r) * width + k)];
                if (v > largest || std::isnan(v)) largest = v;
                if (std::isnan(largest)) break;
              }
            bool any = false;
            for (std::int64_t r = top; r < bottom; ++r)
              for (std::int64_t k = left; k < right; ++k)
                any = any || std::isnan(held[static_cast<std::size_t>(
                                 ((static_cast<std::int64_t>(roi[0]) * channels + c) * height + r) * width + k)]);
            if (any)
              CHECK(std::isnan(found[at]));
            else
              CHECK(found[at] == largest);
          }
  }
}

TEST_CASE("boxes by falling score, without those that overlap a better one") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t batches = random.pick(1, 2), classes = random.pick(1, 4), count = random.pick(1, 300),
                       most = random.pick(0, 3) == 0 ? INT64_MAX : random.pick(0, 40);
    const bool few_scores = random.pick(0, 1) == 0, has_least = random.pick(0, 1) == 0;  // many of the same
    std::vector<double> boxes, scores;
    for (std::int64_t n = 0; n < batches * count; ++n) {
      const auto top = static_cast<double>(random.pick(0, 40)), left = static_cast<double>(random.pick(0, 40));
      boxes.insert(boxes.end(),
                   {top, left, top + static_cast<double>(random.pick(1, 16)), left + static_cast<double>(random.pick(1, 16))});
    }
    constexpr double kSpecial[]{0.0, -0.0, HUGE_VAL, -HUGE_VAL};
    for (std::int64_t n = 0; n < batches * classes * count; ++n)
      scores.push_back(random.pick(0, 19) == 0 ? kSpecial[random.pick(0, 3)]
                       : few_scores            ? static_cast<double>(random.pick(-3, 3)) / 4
                                               : static_cast<float>(random.between(-1, 1)));
    const double limit = 0.25, least = -0.25;
    const auto number = [](DataType type, double v) { return Tensor::from_reals(type, {1}, std::vector{v}); };
    const Tensor wanted = Tensor::from_integers(DataType::kInt64, {1}, std::vector{most});
    std::vector<Tensor> inputs{Tensor::from_reals(DataType::kFloat, {batches, count, 4}, boxes),
                               Tensor::from_reals(DataType::kFloat, {batches, classes, count}, scores), wanted,
                               number(DataType::kFloat, limit)};
    if (has_least) inputs.push_back(number(DataType::kFloat, least));
    const auto found = run("(float[A, B, 4] boxes, float[A, C, B] scores, int64[1] most, float[1] limit" +
                               std::string(has_least ? ", float[1] least" : "") +
                               ") => (int64[S, 3] y) { y = NonMaxSuppression (boxes, scores, most, limit" +
                               (has_least ? ", least" : "") + ") }",
                           inputs);
    std::vector<std::int64_t> expected;
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t c = 0; c < classes; ++c) {
        const auto score = [&](std::int64_t n) { return scores[static_cast<std::size_t>((b * classes + c) * count + n)]; };
        const auto box = [&](std::int64_t n, std::size_t k) { return boxes[static_cast<std::size_t>(b * count + n) * 4 + k]; };
        const auto overlap = [&](std::int64_t m, std::int64_t n) {
          const double height = std::min(box(m, 2), box(n, 2)) - std::max(box(m, 0), box(n, 0)),
                       width = std::min(box(m, 3), box(n, 3)) - std::max(box(m, 1), box(n, 1));
          if (height <= 0 || width <= 0) return 0.0;
          const auto area = [&](std::int64_t i) { return (box(i, 2) - box(i, 0)) * (box(i, 3) - box(i, 1)); };
          return height * width / (area(m) + area(n) - height * width);
        };
        std::vector<std::int64_t> order, kept;
        for (std::int64_t n = 0; n < count; ++n)
          if (!has_least || score(n) > least) order.push_back(n);
        std::stable_sort(order.begin(), order.end(), [&](auto m, auto n) { return score(m) > score(n); });
        for (const std::int64_t n : order)
          if (std::ssize(kept) < most && std::none_of(kept.begin(), kept.end(), [&](auto m) { return overlap(m, n) > limit; }))
            kept.push_back(n), expected.insert(expected.end(), {b, c, n});
      }
    CHECK(found[0].integers() == expected);
  }
}

}  // namespace rewright::graph
