#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

TEST_CASE("shapes of reductions") {
  const Index n = Index::symbol("N");
  CHECK(shape_of("ReduceSum", {reals({n, 3, 4})}) == "[1, 1, 1]");
  CHECK(shape_of("ReduceSum", {reals({n, 3, 4})}, {{"keepdims", false}}) == "[]");
  CHECK(shape_of("ReduceMean", {reals({n, 3, 4})}, {{"axes", Indices{-1, 1}}}) == "[N, 1, 1]");
  CHECK(shape_of("ReduceMax", {reals({n, 3, 4})}, {{"axes", Indices{0}}, {"keepdims", false}}) == "[3, 4]");
  CHECK(shape_of("ReduceSum", {reals({n, 3})}, {{"noop_with_empty_axes", true}}) == "[N, 3]");
  CHECK(shape_of("ReduceSum", {reals({n, 3})}, {{"axes", Indices{2}}}) == "axis 2 of a tensor of rank 2");
  CHECK(shape_of("ReduceSum", {reals({n, 3})}, {{"axes", Indices{1, -1}}}) == "axis 1 stands twice in the axes");
  CHECK(shape_of("ArgMax", {reals({n, 3})}, {{"axis", Index(-1)}, {"keepdims", false}}) == "[N]");
  CHECK(shape_of("ArgMax", {reals({2, 0})}, {{"axis", Index(1)}}) == "axis 1 has no elements ([2, 0])");
}

TEST_CASE("axes 0 and -1 of a scalar reduce nothing") {
  const Tensor x = tensor({}, {-3});
  for (const bool keep : {true, false})
    for (const Index& axis : {Index(0), Index(-1)}) {
      const Named over = {{"axes", Indices{axis}}, {"keepdims", keep}};
      for (const auto& [name, expected] : std::vector<std::pair<std::string, double>>{
               {"ReduceSum", -3}, {"ReduceMean", -3}, {"ReduceMax", -3}, {"ReduceSumSquare", 9}, {"ReduceL2", 3}}) {
        const Tensor y = evaluate(name, {x}, over)[0];
        CHECK(y.sizes().empty());
        CHECK(y.reals() == std::vector<double>{expected});
      }
      for (const std::string name : {"ArgMax", "ArgMin"}) {
        const Tensor y = evaluate(name, {x}, {{"axis", axis}, {"keepdims", keep}})[0];
        CHECK(y.sizes().empty());
        CHECK(y.integers() == std::vector<std::int64_t>{0});
      }
    }
  CHECK(shape_of("ReduceSum", {reals({})}, {{"axes", Indices{1}}}) == "axis 1 of a tensor of rank 0");
}

TEST_CASE("reductions agree with loops") {
  using Values = std::vector<double>;
  const std::vector<std::pair<std::string, std::function<double(const Values&)>>> cases = {
      {"ReduceSum",
       [](const Values& v) {
         double s = 0;
         for (double e : v) s += e;
         return s;
       }},
      {"ReduceMean",
       [](const Values& v) {
         double s = 0;
         for (double e : v) s += e;
         return s / static_cast<double>(v.size());
       }},
      {"ReduceProd",
       [](const Values& v) {
         double s = 1;
         for (double e : v) s *= e;
         return s;
       }},
      {"ReduceMax", [](const Values& v) { return *std::max_element(v.begin(), v.end()); }},
      {"ReduceMin", [](const Values& v) { return *std::min_element(v.begin(), v.end()); }},
      {"ReduceSumSquare",
       [](const Values& v) {
         double s = 0;
         for (double e : v) s += e * e;
         return s;
       }},
      {"ReduceL1",
       [](const Values& v) {
         double s = 0;
         for (double e : v) s += std::fabs(e);
         return s;
       }},
      {"ReduceL2",
       [](const Values& v) {
         double s = 0;
         for (double e : v) s += e * e;
         return std::sqrt(s);
       }},
      {"ReduceLogSumExp",
       [](const Values& v) {
         double s = 0;
         for (double e : v) s += std::exp(e);
         return std::log(s);
       }},
  };
  std::mt19937 random(10);
  for (const auto& [name, reduce] : cases) {
    INFO(name);
    const Tensor x = random_tensor({3, 4, 5}, random);
    const auto y = evaluate(name, {x}, {{"axes", Indices{0, 2}}})[0].reals();
    REQUIRE(y.size() == 4);
    for (std::size_t middle = 0; middle < 4; ++middle) {
      Values slice;
      for (std::size_t outer = 0; outer < 3; ++outer)
        for (std::size_t inner = 0; inner < 5; ++inner) slice.push_back(x.reals()[(outer * 4 + middle) * 5 + inner]);
      CHECK(y[middle] == Approx(reduce(slice)));
    }
  }
}

TEST_CASE("reductions of integers, truth values and nothing") {
  const Tensor x = Tensor::from_integers(DataType::kInt32, {3}, std::vector<std::int64_t>{-5, 2, 2});
  CHECK(evaluate("ReduceSum", {x})[0].integers() == std::vector<std::int64_t>{-1});
  CHECK(evaluate("ReduceMean", {x})[0].integers() == std::vector<std::int64_t>{0});
  CHECK(evaluate("ReduceMax", {tensor({2}, {0, 1}, DataType::kBool)})[0].integers() == std::vector<std::int64_t>{1});
  CHECK(evaluate("ReduceMin", {tensor({2}, {0, 1}, DataType::kBool)})[0].integers() == std::vector<std::int64_t>{0});
  CHECK(evaluate("ReduceSum", {tensor({0}, {})})[0].reals() == std::vector<double>{0});
  CHECK(evaluate("ReduceProd", {tensor({0}, {})})[0].reals() == std::vector<double>{1});
  CHECK(evaluate("ReduceMax", {tensor({0}, {})})[0].reals()[0] == -std::numeric_limits<double>::infinity());
  CHECK(evaluate("ReduceSum", {tensor({2}, {1, 2})}, {{"noop_with_empty_axes", true}})[0].reals() == std::vector<double>{1, 2});
}

TEST_CASE("ReduceLogSumExp of infinite elements") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({4, 2}, {-infinity, -infinity, -infinity, 3, infinity, 3, infinity, -infinity});
  CHECK(evaluate("ReduceLogSumExp", {x}, {{"axes", Indices{1}}, {"keepdims", false}})[0].reals() ==
        std::vector<double>{-infinity, 3, infinity, infinity});
  CHECK(evaluate("ReduceLogSumExp", {tensor({0}, {})})[0].reals()[0] == -infinity);
  const Tensor whole = Tensor::from_integers(DataType::kInt64, {4}, std::vector<std::int64_t>{40, 40, 40, -2});
  CHECK(evaluate("ReduceLogSumExp", {whole})[0].integers() == std::vector<std::int64_t>{41});  // 40 + log(3)
}

TEST_CASE("CumSum adds up along its axis, from either end") {
  const Tensor x = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Named along{{"axis", Index(-1)}};
  CHECK(evaluate("CumSum", {x}, along)[0].reals() == std::vector<double>{1, 3, 6, 4, 9, 15});
  CHECK(evaluate("CumSum", {x}, {{"axis", Index(1)}, {"exclusive", true}})[0].reals() == std::vector<double>{0, 1, 3, 0, 4, 9});
  CHECK(evaluate("CumSum", {x}, {{"axis", Index(1)}, {"reverse", true}})[0].reals() == std::vector<double>{6, 5, 3, 15, 11, 6});
  CHECK(evaluate("CumProd", {x}, {{"axis", Index(0)}})[0].reals() == std::vector<double>{1, 2, 3, 4, 10, 18});
}

TEST_CASE("ArgMax and ArgMin choose the first of equals, or the last") {
  const Tensor x = tensor({2, 3}, {1, 5, 5, -2, -2, 0});
  CHECK(evaluate("ArgMax", {x}, {{"axis", Index(1)}})[0].integers() == std::vector<std::int64_t>{1, 2});
  CHECK(evaluate("ArgMin", {x}, {{"axis", Index(1)}})[0].integers() == std::vector<std::int64_t>{0, 0});
  CHECK(evaluate("ArgMax", {x}, {{"axis", Index(1)}, {"select_last_index", true}})[0].integers() ==
        std::vector<std::int64_t>{2, 2});
  CHECK(evaluate("ArgMin", {x}, {{"axis", Index(-1)}, {"select_last_index", true}})[0].integers() ==
        std::vector<std::int64_t>{0, 1});
  CHECK(evaluate("ArgMax", {x})[0].sizes() == Sizes{1, 3});
}

}  // namespace
}  // namespace rewright::testing
