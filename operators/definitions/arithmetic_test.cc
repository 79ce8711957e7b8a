#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

const double kNaN = std::nan("");

TEST_CASE("arithmetic broadcasts known and symbolic sizes") {
  const Index n = Index::symbol("N"), m = Index::symbol("M");
  CHECK(shape_of("Add", {reals({2, 1, 4}), reals({3, 1})}) == "[2, 3, 4]");
  CHECK(shape_of("Mul", {reals({n, 3}), reals({})}) == "[N, 3]");
  CHECK(shape_of("Where", {{DataType::kBool, {n, 1}}, reals({4}), reals({1})}) == "[N, 4]");
  CHECK(shape_of("Max", {reals({2}), reals({5, 1}), reals({3, 1, 1})}) == "[3, 5, 2]");
  CHECK(define("Sub", {reals({n}), reals({m})}).requirements().size() == 1);
  CHECK(define("Sub", {reals({n}), reals({n})}).requirements().empty());
}

TEST_CASE("arithmetic refuses shapes and types that do not fit") {
  CHECK(shape_of("Add", {reals({2, 3}), reals({4})}) == "shapes [2, 3] and [4] cannot be broadcast together");
  CHECK(shape_of("Add", {reals({2}), integers({2})}) == "element types differ: float and int64");
  CHECK(shape_of("Add", {{DataType::kBool, {2}}, {DataType::kBool, {2}}}) == "elements are bool, must be numbers");
  CHECK(shape_of("And", {reals({2}), reals({2})}) == "elements are float, must be truth values");
  CHECK(shape_of("BitShift", {integers({2}), integers({2})}, {{"direction", std::string("UP")}}) ==
        "direction is UP, must be LEFT or RIGHT");
}

TEST_CASE("comparisons and logic give truth values") {
  for (const char* name : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    CHECK(define(name, {reals({2}), reals({2})}).outputs()[0].type.type == DataType::kBool);
  const Tensor a = tensor({3}, {1, 2, kNaN}), b = tensor({3}, {2, 2, 2});
  CHECK(evaluate("Less", {a, b})[0].integers() == std::vector<std::int64_t>{1, 0, 0});
  CHECK(evaluate("GreaterOrEqual", {a, b})[0].integers() == std::vector<std::int64_t>{0, 1, 0});
  CHECK(evaluate("Equal", {a, b})[0].integers() == std::vector<std::int64_t>{0, 1, 0});
  const Tensor p = tensor({4}, {0, 0, 1, 1}, DataType::kBool), q = tensor({4}, {0, 1, 0, 1}, DataType::kBool);
  CHECK(evaluate("Xor", {p, q})[0].integers() == std::vector<std::int64_t>{0, 1, 1, 0});
}

TEST_CASE("integer division goes towards zero, remainders follow divisor or dividend") {
  std::vector<std::int64_t> dividends, divisors, quotients, modulos, remainders;
  for (std::int64_t a = -7; a <= 7; ++a)
    for (std::int64_t b : {-3, -2, 2, 3}) {
      dividends.push_back(a);
      divisors.push_back(b);
      quotients.push_back(a / b);
      remainders.push_back(a % b);
      modulos.push_back(((a % b) + b) % b);
    }
  const auto count = static_cast<std::int64_t>(dividends.size());
  const Tensor a = Tensor::from_integers(DataType::kInt64, {count}, dividends);
  const Tensor b = Tensor::from_integers(DataType::kInt64, {count}, divisors);
  CHECK(evaluate("Div", {a, b})[0].integers() == quotients);
  CHECK(evaluate("Mod", {a, b})[0].integers() == modulos);
  CHECK(evaluate("Mod", {a, b}, {{"fmod", true}})[0].integers() == remainders);
}

TEST_CASE("remainders of reals have the sign of divisor or dividend") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor a = tensor({4}, {5.5, -5.5, 5.5, -1}), b = tensor({4}, {2, 2, -2, infinity});
  CHECK(evaluate("Mod", {a, b})[0].reals() == std::vector<double>{1.5, 0.5, -0.5, infinity});
  CHECK(evaluate("Mod", {a, b}, {{"fmod", true}})[0].reals() == std::vector<double>{1.5, -1.5, 1.5, -1});
}

TEST_CASE("a shift to the right keeps the sign of signed integers alone") {
  const Named right{{"direction", std::string("RIGHT")}};
  const Tensor by = tensor({2}, {1, 9}, DataType::kInt8), unsigned_by = tensor({2}, {1, 9}, DataType::kUint8);
  CHECK(evaluate("BitShift", {tensor({2}, {-8, -8}, DataType::kInt8), by}, right)[0].integers() ==
        std::vector<std::int64_t>{-4, -1});
  CHECK(evaluate("BitShift", {tensor({2}, {200, 200}, DataType::kUint8), unsigned_by}, right)[0].integers() ==
        std::vector<std::int64_t>{100, 0});
  CHECK(evaluate("BitShift", {tensor({2}, {200, 1}, DataType::kUint8), unsigned_by})[0].integers() ==
        std::vector<std::int64_t>{144, 0});
}

TEST_CASE("unsigned integers wrap") {
  const Tensor a = tensor({2}, {200, 3}, DataType::kUint8), b = tensor({2}, {100, 5}, DataType::kUint8);
  CHECK(evaluate("Add", {a, b})[0].integers() == std::vector<std::int64_t>{44, 8});
  CHECK(evaluate("Sub", {a, b})[0].integers() == std::vector<std::int64_t>{100, 254});
}

TEST_CASE("a power has its base's type") {
  const Tensor base = Tensor::from_integers(DataType::kInt64, {3}, std::vector<std::int64_t>{2, 3, -5});
  const Tensor whole = Tensor::from_integers(DataType::kInt64, {3}, std::vector<std::int64_t>{10, 0, 3});
  CHECK(evaluate("Pow", {base, whole})[0].integers() == std::vector<std::int64_t>{1024, 1, -125});
  const Tensor half = tensor({1}, {0.5}, DataType::kFloat);
  CHECK(evaluate("Pow", {base, half})[0].type() == DataType::kInt64);
  CHECK(evaluate("Pow", {tensor({1}, {2.25}), half})[0].reals() == std::vector<double>{1.5});
}

TEST_CASE("variadic operators take any number of operands") {
  const Tensor a = tensor({2}, {1, 5}), b = tensor({2}, {4, 2}), c = tensor({1}, {3});
  CHECK(evaluate("Max", {a, b, c})[0].reals() == std::vector<double>{4, 5});
  CHECK(evaluate("Min", {a})[0].reals() == std::vector<double>{1, 5});
  CHECK(evaluate("Sum", {a, b, c})[0].reals() == std::vector<double>{8, 10});
  CHECK(evaluate("Mean", {a, b, c})[0].reals()[1] == Approx(10.0 / 3));
  CHECK(std::isnan(evaluate("Max", {a, tensor({1}, {kNaN})})[0].reals()[0]));
}

TEST_CASE("Where takes only the chosen element") {
  const Tensor condition = tensor({2, 1}, {1, 0}, DataType::kBool);
  CHECK(evaluate("Where", {condition, tensor({2}, {1, 2}), tensor({1}, {kNaN})})[0].reals()[1] == 2);
}

}  // namespace
}  // namespace rewright::testing
