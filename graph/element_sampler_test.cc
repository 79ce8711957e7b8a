#include "graph/element_sampler.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace rewright;
using namespace rewright::graph;

namespace {

using Named = std::vector<std::pair<std::string, AttributeValue>>;

struct Built {
  std::mt19937 random;
  Graph graph;
  std::vector<Tensor> inputs;

  explicit Built(unsigned seed) : random(seed) {}
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  Tensor tensor(const Sizes& sizes) {
    std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
    for (double& e : elements) e = std::uniform_real_distribution<double>(-1, 1)(random);
    return Tensor::from_reals(DataType::kFloat, sizes, elements);
  }
  ValueId input(const Sizes& sizes) {
    inputs.push_back(tensor(sizes));
    return graph.add_input("x" + std::to_string(inputs.size()), {DataType::kFloat, to_indices(sizes)});
  }
  ValueId op(std::string_view name, std::vector<ValueId> operands, Named attributes = {}) {
    const Operator& o = registry().get(name);
    Attributes all = o.defaults();
    for (auto& [field, value] : attributes) all.at(o.field(field).value()) = std::move(value);
    return graph.add_node(o, std::move(all), std::move(operands))[0];
  }
};

// Only inputs are stored.
ElementSampler sampler_of(const Built& b, std::vector<std::unique_ptr<StoredElements>>& stored) {
  stored.resize(b.graph.value_count());
  for (std::size_t i = 0; i < b.inputs.size(); ++i)
    stored[b.graph.inputs()[i]] = stored_elements_of(b.inputs[i].type(), b.inputs[i].size(), b.inputs[i].bytes().data());
  return ElementSampler(b.graph, [&stored](ValueId v) { return stored[v].get(); });
}

}  // namespace

TEST_CASE("single elements are those of the interpreter, through several operators") {
  for (unsigned seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    Built b(seed);
    const std::int64_t channels = b.pick(1, 6), outputs = b.pick(1, 6), size = b.pick(3, 7);
    ValueId y = b.op("Conv", {b.input({2, channels, size, size}), b.graph.add_constant(b.tensor({outputs, channels, 3, 2}))},
                     {{"strides", Indices{b.pick(1, 2), 1}}, {"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 0}}});
    if (b.pick(0, 1)) y = b.op("Relu", {y});
    if (b.pick(0, 1)) y = b.op("Softmax", {y}, {{"axis", Index(b.pick(1, 3))}});
    if (b.pick(0, 1)) y = b.op("LogSoftmax", {y}, {{"axis", Index(3)}});
    if (b.pick(0, 1)) y = b.op("Mul", {y, b.op("Sigmoid", {y})});
    if (b.pick(0, 1)) y = b.op("Cast", {y}, {{"to", DataType::kHalf}});
    if (b.pick(0, 1)) y = b.op("ReduceSumSquare", {y}, {{"axes", Indices{1, 2}}});
    if (b.pick(0, 1)) y = b.op("Cast", {b.op("Floor", {b.op("Mul", {y, y})})}, {{"to", DataType::kInt32}});
    if (b.pick(0, 1)) y = b.op("CumSum", {y}, {{"axis", Index(1)}});
    b.graph.add_output("y", y);
    const Tensor expected = interpret(b.graph, b.inputs).at(0);
    const std::vector<double> reals = expected.reals();
    std::vector<std::unique_ptr<StoredElements>> stored;
    ElementSampler sampler = sampler_of(b, stored);
    for (std::int64_t n = 0; n < 40; ++n) {
      const std::int64_t at = b.pick(0, expected.size() - 1);
      const std::optional<Sample> sample = sampler.element(y, at, 1'000'000);
      REQUIRE(sample);
      if (!sample->certain) continue;
      CHECK((sample->is_real ? sample->real : static_cast<double>(sample->integer)) == reals[static_cast<std::size_t>(at)]);
    }
  }
}

TEST_CASE("a computation in floats stays within the bound, which is close") {
  for (const std::int64_t length : {1, 10, 300, 20000}) {
    CAPTURE(length);
    Built b(static_cast<unsigned>(length));
    const ValueId y = b.op("MatMul", {b.input({20, length}), b.input({length, 3})});
    b.graph.add_output("y", y);
    std::vector<std::unique_ptr<StoredElements>> stored;
    ElementSampler sampler = sampler_of(b, stored);
    const auto left = b.inputs[0].data<float>(), right = b.inputs[1].data<float>();
    for (std::int64_t at = 0; at < 60; ++at) {
      float sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < length; ++k) {
        const float term =
            left[static_cast<std::size_t>(at / 3 * length + k)] * right[static_cast<std::size_t>(k * 3 + at % 3)];
        sum += term;
        magnitude += std::fabs(term);
      }
      const std::optional<Sample> sample = sampler.element(y, at, 1'000'000);
      REQUIRE((sample && sample->certain));
      CHECK(std::fabs(sum - sample->real) <= sample->error);
      // A few units in the last place of each term, and of the sum of magnitudes times the root of the number of terms.
      const auto terms = static_cast<double>(length);
      CHECK(sample->error <= 0x1p-20 * magnitude * (1 + std::sqrt(terms)));
    }
  }
}

TEST_CASE("what rounding decides is uncertain, and what takes too long is not computed") {
  Built b(1);
  const ValueId x = b.input({3, 1000});
  const ValueId sum = b.op("ReduceSum", {x}, {{"axes", Indices{1}}, {"keepdims", false}});
  const ValueId zero = b.op("Sub", {sum, b.op("ReduceSum", {x}, {{"axes", Indices{1}}, {"keepdims", false}})});
  const ValueId sign = b.op("Cast", {b.op("Ceil", {zero})}, {{"to", DataType::kInt32}});
  const ValueId number = b.op("Cast", {x}, {{"to", DataType::kInt32}});
  b.graph.add_output("y", sign);
  b.graph.add_output("z", number);
  std::vector<std::unique_ptr<StoredElements>> stored;
  ElementSampler sampler = sampler_of(b, stored);
  CHECK_FALSE(sampler.element(sign, 0, 100'000)->certain);
  CHECK(sampler.element(number, 7, 100'000)->certain);
  CHECK_FALSE(sampler.element(sum, 1, 900));
  CHECK(sampler.element(sum, 1, 1100));
}

TEST_CASE("elements of results that do not fit into memory") {
  Built b(1);
  const ValueId row = b.input({1, 1 << 20}), column = b.input({1 << 17, 1});
  const ValueId table = b.op("Add", {column, row});
  const ValueId y = b.op("Softmax", {b.op("Mul", {table, table})}, {{"axis", Index(0)}});  // 512 GiB
  b.graph.add_output("y", y);
  std::vector<std::unique_ptr<StoredElements>> stored;
  ElementSampler sampler = sampler_of(b, stored);
  const std::optional<Sample> sample = sampler.element(y, (std::int64_t{1} << 36) + 5, 10'000'000);
  REQUIRE((sample && sample->certain));
  double all = 0, one = 0;
  const auto r = b.inputs[0].data<float>(), c = b.inputs[1].data<float>();
  for (std::size_t i = 0; i < c.size(); ++i) {
    const double t = static_cast<double>(c[i]) + r[5], e = std::exp(t * t);
    all += e;
    if (i == std::size_t{1} << 16) one = e;
  }
  CHECK(sample->real == Approx(one / all).epsilon(1e-5));
}
