#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

using Scalars = std::function<double(double)>;
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_CASE("activations follow their formulas") {
  struct Case {
    std::string name;
    Named named;
    Scalars f;
  };
  const std::vector<Case> cases = {
      {"Relu", {}, [](double x) { return x > 0 ? x : 0; }},
      {"LeakyRelu", {{"alpha", Real(0.3)}}, [](double x) { return x > 0 ? x : 0.3 * x; }},
      {"Elu", {{"alpha", Real(0.7)}}, [](double x) { return x > 0 ? x : 0.7 * (std::exp(x) - 1); }},
      {"Selu", {{"alpha", Real(1.5)}, {"gamma", Real(2.)}}, [](double x) { return x > 0 ? 2 * x : 3 * (std::exp(x) - 1); }},
      {"Celu", {{"alpha", Real(0.5)}}, [](double x) { return x > 0 ? x : 0.5 * (std::exp(x / 0.5) - 1); }},
      {"ThresholdedRelu", {{"alpha", Real(0.5)}}, [](double x) { return x > 0.5 ? x : 0; }},
      {"Shrink",
       {{"bias", Real(0.25)}, {"lambd", Real(1.)}},
       [](double x) { return x < -1  ? x + 0.25
                             : x > 1 ? x - 0.25
                                     : 0; }},
      {"HardSigmoid", {}, [](double x) { return std::fmax(0, std::fmin(1, 0.2 * x + 0.5)); }},
      {"HardSwish", {}, [](double x) { return x * std::fmax(0, std::fmin(1, x / 6 + 0.5)); }},
      {"Sigmoid", {}, sigmoid},
      {"Swish", {{"alpha", Real(1.7)}}, [](double x) { return x * sigmoid(1.7 * x); }},
      {"Softplus", {}, [](double x) { return std::log(1 + std::exp(x)); }},
      {"Softsign", {}, [](double x) { return x / (1 + std::fabs(x)); }},
      {"Mish", {}, [](double x) { return x * std::tanh(std::log(1 + std::exp(x))); }},
      {"Gelu", {}, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"Gelu",
       {{"approximate", std::string("tanh")}},
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {"Neg", {}, [](double x) { return -x; }},
      {"Reciprocal", {}, [](double x) { return 1 / x; }},
      {"Round", {}, [](double x) { return std::nearbyint(x); }},
      {"Sign", {}, [](double x) { return x > 0   ? 1
                                         : x < 0 ? -1
                                                 : 0; }},
      {"Erf", {}, [](double x) { return std::erf(x); }},
      {"Asinh", {}, [](double x) { return std::asinh(x); }},
  };
  std::mt19937 random(1);
  for (const Case& c : cases) {
    INFO(c.name);
    const Tensor x = random_tensor({3, 5}, random);
    const std::vector<double> in = x.reals(), out = evaluate(c.name, {x}, c.named)[0].reals();
    for (std::size_t i = 0; i < in.size(); ++i) CHECK(out[i] == Approx(c.f(in[i])).epsilon(1e-6).margin(1e-9));
  }
}

TEST_CASE("activations keep symbolic shapes and refuse other types") {
  const Index n = Index::symbol("N");
  CHECK(shape_of("Relu", {reals({n, 3 * n})}) == "[N, 3*N]");
  CHECK(shape_of("Relu", {{DataType::kUint8, {2}}}) == "elements are uint8, must be signed numbers");
  CHECK(shape_of("Sqrt", {integers({2})}) == "elements are int64, must be real numbers");
  CHECK(shape_of("Gelu", {reals({2})}, {{"approximate", std::string("fast")}}) == "approximate is fast, must be none or tanh");
  CHECK(shape_of("PRelu", {reals({2, 3}), reals({2})}) == "slope of shape [2] does not broadcast to [2, 3]");
  CHECK(shape_of("Clip", {reals({2}), reals({2})}) == "min has shape [2], must be one element");
}

TEST_CASE("PRelu broadcasts its slope") {
  const Tensor x = tensor({2, 2}, {-1, 2, -3, -4}), slope = tensor({2, 1}, {0.5, 2});
  CHECK(evaluate("PRelu", {x, slope})[0].reals() == std::vector<double>{-0.5, 2, -6, -8});
}

TEST_CASE("Clip takes either bound or none") {
  const Tensor x = tensor({3}, {-5, 0, 5}), low = tensor({}, {-1}), high = tensor({}, {2});
  CHECK(evaluate("Clip", {x})[0].reals() == std::vector<double>{-5, 0, 5});
  CHECK(evaluate("Clip", {x, low})[0].reals() == std::vector<double>{-1, 0, 5});
  CHECK(evaluate("Clip", {x, Tensor(), high})[0].reals() == std::vector<double>{-5, 0, 2});
  CHECK(evaluate("Clip", {x, high, low})[0].reals() == std::vector<double>{-1, -1, -1});
}

TEST_CASE("IsInf looks for the signs that it is asked for") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({4}, {infinity, -infinity, 1, std::nan("")});
  CHECK(evaluate("IsInf", {x})[0].integers() == std::vector<std::int64_t>{1, 1, 0, 0});
  CHECK(evaluate("IsInf", {x}, {{"detect_negative", false}})[0].integers() == std::vector<std::int64_t>{1, 0, 0, 0});
  CHECK(evaluate("IsInf", {x}, {{"detect_positive", false}})[0].integers() == std::vector<std::int64_t>{0, 1, 0, 0});
}

}  // namespace
}  // namespace rewright::testing
