#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "operators/specification.h"
#include "operators/testing.h"

namespace rewright::testing {
namespace {

using Values = std::vector<double>;

Tensor whole(Sizes sizes, const std::vector<std::int64_t>& values) {
  return Tensor::from_integers(DataType::kInt64, std::move(sizes), values);
}

TEST_CASE("Gather by positions that count from either end") {
  const Tensor x = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(evaluate("Gather", {x, whole({2}, {-1, 0})}, {{"axis", Index(1)}})[0].reals() == Values{3, 1, 6, 4});
  CHECK(evaluate("Gather", {x, whole({}, {1})})[0] == tensor({3}, {4, 5, 6}));
  CHECK(evaluate("GatherElements", {x, whole({2, 1}, {2, -3})}, {{"axis", Index(1)}})[0].reals() == Values{3, 4});
  CHECK(evaluate("GatherND", {x, whole({2, 2}, {1, 2, 0, -1})})[0].reals() == Values{6, 3});
  CHECK(evaluate("GatherND", {x, whole({2, 1}, {2, 0})}, {{"batch_dims", Index(1)}})[0].reals() == Values{3, 4});
  CHECK(evaluate("GatherND", {x, whole({2}, {1, -1})})[0].reals() == Values{6});
  const Index n = Index::symbol("N");
  CHECK(shape_of("Gather", {reals({5, n}), integers({2, 7})}) == "[2, 7, N]");
  CHECK(shape_of("Gather", {reals({5}), reals({2})}) == "indices are float, integers are needed");
}

TEST_CASE("scattering") {
  const Tensor x = tensor({2, 2}, {1, 2, 3, 4});
  CHECK(evaluate("ScatterElements", {x, whole({1, 2}, {1, 0}), tensor({1, 2}, {8, 9})})[0].reals() == Values{1, 9, 8, 4});
  CHECK(evaluate("ScatterElements", {x, whole({2, 2}, {0, 0, 1, -1}), tensor({2, 2}, {1, 2, 3, 4})},
                 {{"axis", Index(1)}, {"reduction", std::string("add")}})[0]
            .reals() == Values{4, 2, 3, 11});
  CHECK(
      evaluate("ScatterND", {x, whole({1, 1}, {1}), tensor({1, 2}, {8, 9})}, {{"reduction", std::string("mul")}})[0].reals() ==
      Values{1, 2, 24, 36});
  CHECK_THROWS_AS(evaluate("ScatterND", {x, whole({1, 1}, {2}), tensor({1, 2}, {8, 9})}), Error);
}

TEST_CASE("scatters execute what is specified of them") {
  std::mt19937 random(5);
  const auto number = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const auto filled = [&](Sizes sizes, int low, int high) {
    FieldTensor t{DataType::kInt64, sizes, {}};
    for (std::int64_t n = 0; n < element_count(sizes); ++n)
      t.elements.push_back(static_cast<std::uint64_t>(static_cast<std::int64_t>(number(low, high))));
    return t;
  };
  const auto tensor_of = [](const FieldTensor& t) {
    return whole(t.sizes, std::vector<std::int64_t>(t.elements.begin(), t.elements.end()));
  };
  for (int round = 0; round < 60; ++round) {
    const char* reductions[] = {"none", "add", "mul", "max", "min"};
    const bool rows = round % 2 == 1;
    const Sizes sizes{number(1, 4), number(1, 4), number(1, 3)};
    const int axis = number(0, 2), depth = number(1, 3);
    std::vector<FieldTensor> inputs{filled(sizes, -5, 5)};
    if (rows) {
      Sizes places{number(1, 3), number(1, 3), depth}, changed{places[0], places[1]};
      const int least = static_cast<int>(*std::min_element(sizes.begin(), sizes.begin() + depth));
      changed.insert(changed.end(), sizes.begin() + depth, sizes.end());
      inputs.push_back(filled(places, -least, least - 1)), inputs.push_back(filled(changed, -5, 5));
    } else {
      Sizes changed = sizes;
      for (std::int64_t& size : changed) size = number(1, static_cast<int>(size));
      const int size = static_cast<int>(sizes[static_cast<std::size_t>(axis)]);
      changed[static_cast<std::size_t>(axis)] = number(1, 5);
      inputs.push_back(filled(changed, -size, size - 1)), inputs.push_back(filled(changed, -5, 5));
    }
    Named named{{"reduction", std::string(reductions[round / 2 % 5])}};
    if (!rows) named.emplace_back("axis", Index(axis));
    const Operator& op = registry().get(rows ? "ScatterND" : "ScatterElements");
    const std::vector<Tensor> executed =
        evaluate(op.name(), {tensor_of(inputs[0]), tensor_of(inputs[1]), tensor_of(inputs[2])}, named);
    const std::vector<FieldTensor> meant = interpret_in_field(specified(op), attributes(op, named), inputs, 7);
    INFO(op.name() << " " << to_string(attributes(op, named).back()));
    CHECK(tensor_of(meant.at(0)) == executed.at(0));
  }
}

TEST_CASE("TopK puts the first of equal elements first") {
  const Tensor x = tensor({4}, {1, 3, 3, 2});
  const auto y = evaluate("TopK", {x}, {{"k", Index(3)}});
  CHECK(y[0].reals() == Values{3, 3, 2});
  CHECK(y[1].integers() == std::vector<std::int64_t>{1, 2, 3});
  CHECK(evaluate("TopK", {x}, {{"k", Index(1)}, {"largest", Index(0)}})[1].integers() == std::vector<std::int64_t>{0});
  CHECK(shape_of("TopK", {reals({4})}, {{"k", Index(5)}}) == "k is 5, the axis has size 4");
}

TEST_CASE("TopK takes NaN for the largest element") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  std::vector<double> elements(40);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = i % 3 == 0 ? nan : static_cast<double>(i * 7 % 11);
  elements[4] = infinity, elements[5] = -infinity;
  for (const int largest : {0, 1}) {
    const auto y = evaluate("TopK", {tensor({40}, elements)}, {{"k", Index(40)}, {"largest", Index(largest)}});
    const std::vector<std::int64_t> places = y[1].integers();
    const auto is_before = [&](std::int64_t a, std::int64_t b) {
      const double x = elements[static_cast<std::size_t>(a)], other = elements[static_cast<std::size_t>(b)];
      if (std::isnan(x) && std::isnan(other)) return a < b;
      if (std::isnan(x) || std::isnan(other)) return std::isnan(x) == (largest == 1);
      return x == other ? a < b : (x > other) == (largest == 1);
    };
    CHECK(std::is_sorted(places.begin(), places.end(), is_before));
  }
}

TEST_CASE("OneHot is off everywhere for an index outside") {
  const Tensor values = tensor({2}, {-1, 1});
  CHECK(evaluate("OneHot", {whole({3}, {1, -1, 7}), values}, {{"depth", Index(2)}})[0].reals() == Values{-1, 1, -1, 1, -1, -1});
}

}  // namespace
}  // namespace rewright::testing
