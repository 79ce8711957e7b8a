#include "graph/gradients/differentiate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>

#include "graph/gradients/without_gradient.h"
#include "operators/gradient.h"
#include "operators/testing.h"

namespace rewright::graph {
namespace {

using testing::Named;

// An operand: reals from a range, drawn anew, or given elements.
struct Given {
  Sizes sizes;
  double low = -2, high = 2;
  std::vector<std::int64_t> integers = {};  // if not empty, these are the elements
  DataType type = DataType::kDouble;
};
Given ints(Sizes sizes, std::vector<std::int64_t> values, DataType type = DataType::kInt64) {
  return {std::move(sizes), 0, 0, std::move(values), type};
}
Given positive(Sizes sizes) { return {std::move(sizes), 0.3, 2}; }
Given within_one(Sizes sizes) { return {std::move(sizes), -0.9, 0.9}; }

struct Case {
  std::string op;
  std::vector<Given> operands;
  Named fields;
};

Tensor draw(const Given& given, std::mt19937& random) {
  if (!given.integers.empty()) return Tensor::from_integers(given.type, given.sizes, given.integers);
  std::uniform_real_distribution<double> uniform(given.low, given.high);
  std::vector<double> values(static_cast<std::size_t>(element_count(given.sizes)));
  for (double& v : values) v = uniform(random);
  return Tensor::from_reals(DataType::kDouble, given.sizes, values);
}

std::string text(const Case& c) {
  std::string result = c.op;
  for (const Given& given : c.operands) result += " " + to_string(to_indices(given.sizes));
  for (const auto& [name, value] : c.fields) result += " " + name + "=" + to_string(value);
  return result;
}

// A graph that computes the sum over all real outputs of output * weight, and the operands it was built with.
struct Objective {
  Graph graph;
  std::vector<Tensor> operands;
  std::vector<ValueId> inputs, outputs, weights;
  std::vector<Tensor> weight_values;
};

Objective objective(const Case& c, std::mt19937& random) {
  Objective o;
  for (const Given& given : c.operands) {
    o.operands.push_back(draw(given, random));
    o.inputs.push_back(o.graph.add_input("x" + std::to_string(o.inputs.size()),
                                         {o.operands.back().type(), to_indices(o.operands.back().sizes())}));
  }
  const Operator& op = registry().get(c.op);
  for (const ValueId y : o.graph.add_node(op, testing::attributes(op, c.fields), o.inputs)) {
    const TensorType type = o.graph.value(y).type;
    if (type.type != DataType::kDouble) continue;
    o.outputs.push_back(y);
    o.weight_values.push_back(testing::random_tensor(values(type.shape), random));
    o.weights.push_back(o.graph.add_constant(o.weight_values.back()));
  }
  return o;
}

double value(const Objective& o, const std::vector<Tensor>& operands) {
  Graph graph = o.graph;
  graph.set_outputs({});
  for (std::size_t k = 0; k < o.outputs.size(); ++k) graph.add_output("y" + std::to_string(k), o.outputs[k]);
  const std::vector<Tensor> outputs = interpret(graph, operands);
  double sum = 0;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const std::vector<double> y = outputs[k].reals(), w = o.weight_values[k].reals();
    for (std::size_t n = 0; n < y.size(); ++n) sum += y[n] * w[n];
  }
  return sum;
}

std::vector<Tensor> gradients(const Objective& o) {
  Graph graph = o.graph;
  std::vector<Seed> seeds;
  for (std::size_t k = 0; k < o.outputs.size(); ++k) seeds.push_back({o.outputs[k], o.weights[k]});
  std::vector<ValueId> found = differentiate(graph, seeds, o.inputs);
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (found[k] == kNoValue) continue;
    graph.add_output("g" + std::to_string(k), found[k]);
    places.push_back(k);
  }
  graph.tidy();
  const std::vector<Tensor> outputs = interpret(graph, o.operands);
  std::vector<Tensor> result(found.size());
  for (std::size_t k = 0; k < places.size(); ++k) result[places[k]] = outputs[k];
  return result;
}

// The largest difference between the gradients and central differences, relative to 1 plus the gradient's size.
double largest_error(const Objective& o) {
  const std::vector<Tensor> found = gradients(o);
  double largest = 0;
  for (std::size_t k = 0; k < o.operands.size(); ++k) {
    if (!is_real(o.operands[k].type())) continue;
    const std::vector<double> at = o.operands[k].reals();
    const std::vector<double> g = found[k] ? found[k].reals() : std::vector<double>(at.size(), 0);
    if (found[k] && found[k].sizes() != o.operands[k].sizes()) return INFINITY;
    for (std::size_t n = 0; n < at.size(); ++n) {
      constexpr double kStep = 1e-5;
      const auto moved = [&](double by) {
        std::vector<double> values = at;
        values[n] += by;
        std::vector<Tensor> operands = o.operands;
        operands[k] = Tensor::from_reals(DataType::kDouble, o.operands[k].sizes(), values);
        return value(o, operands);
      };
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      const double error = std::abs(slope - g[n]) / (1 + std::abs(slope));
      largest = std::isnan(error) ? INFINITY : std::max(largest, error);
    }
  }
  return largest;
}

Indices axes(std::initializer_list<int> list) {
  Indices result;
  for (const int i : list) result.emplace_back(i);
  return result;
}
const std::string kAdd = "add";

// At least one of each operator that has a gradient, and of each form of its attributes.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* op :
       {"Abs",    "Asinh",           "Atan",      "Celu",     "Cos",       "Cosh",     "Elu",      "Erf",   "Exp",
        "Gelu",   "HardSigmoid",     "HardSwish", "Identity", "LeakyRelu", "Mish",     "Neg",      "Relu",  "Selu",
        "Shrink", "Sigmoid",         "Sign",      "Sin",      "Sinh",      "Softplus", "Softsign", "Swish", "Tan",
        "Tanh",   "ThresholdedRelu", "Floor",     "Ceil",     "Round",     "Dropout"})
    all.push_back({op, {{{3, 4}, -1.4, 1.4}}, {}});
  for (const char* op : {"Log", "Reciprocal", "Sqrt"}) all.push_back({op, {positive({3, 4})}, {}});
  for (const char* op : {"Acos", "Asin", "Atanh"}) all.push_back({op, {within_one({3, 4})}, {}});
  all.push_back({"Acosh", {{{5}, 1.2, 3}}, {}});
  all.push_back({"Gelu", {{{3, 4}}}, {{"approximate", std::string("tanh")}}});
  all.push_back({"Swish", {{{3, 4}}}, {{"alpha", Real(1.7)}}});
  all.push_back({"Cast", {{{3, 4}}}, {{"to", DataType::kDouble}}});
  for (const char* op : {"Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "PRelu"}) {
    all.push_back({op, {{{2, 3, 4}}, {{2, 3, 4}}}, {}});
    all.push_back({op, {{{2, 3, 4}}, {{3, 1}}}, {}});
  }
  for (const char* op : {"Add", "Mul", "Max"}) all.push_back({op, {{{2, 1, 4}}, {{3, 1}}}, {}});
  for (const char* op : {"Sum", "Mean", "Max"}) all.push_back({op, {{{4}}, {{3, 1}}, {{1, 4}}}, {}});
  all.push_back({"Div", {{{2, 3}}, positive({2, 3})}, {}});
  all.push_back({"Div", {{{2, 3}}, positive({1, 3})}, {}});
  all.push_back({"Div", {{{3}}, positive({2, 3})}, {}});
  all.push_back({"Pow", {positive({2, 3}), {{3}}}, {}});
  all.push_back({"Pow", {positive({2, 3}), {{}, 2, 3}}, {}});
  all.push_back({"Mod", {{{2, 3}, 0.1, 5}, positive({3})}, {{"fmod", true}}});
  all.push_back({"Where", {ints({2, 1}, {1, 0}, DataType::kBool), {{2, 3}}, {{3}}}, {}});
  all.push_back({"Clip", {{{3, 4}}, {{}, -1, -0.5}, {{}, 0.5, 1}}, {}});

  all.push_back({"MatMul", {{{2, 3}}, {{3, 4}}}, {}});
  all.push_back({"MatMul", {{{2, 5, 2, 3}}, {{5, 3, 4}}}, {}});
  all.push_back({"MatMul", {{{2, 5, 3}}, {{3, 4}}}, {}});
  all.push_back({"MatMul", {{{3}}, {{2, 3, 4}}}, {}});
  all.push_back({"MatMul", {{{2, 4, 3}}, {{3}}}, {}});
  all.push_back({"MatMul", {{{1, 2, 3}}, {{5, 3, 1}}}, {}});
  all.push_back({"Gemm", {{{2, 3}}, {{3, 4}}, {{4}}}, {}});
  all.push_back(
      {"Gemm", {{{3, 2}}, {{4, 3}}, {{2, 1}}}, {{"transA", true}, {"transB", true}, {"alpha", Real(0.5)}, {"beta", Real(2)}}});
  for (const char* equation : {"bij,bjk->bik", "ij,kj->ik", "bhqd,bhkd->bhqk", "ij->ji", "ij->", "ij,ij->i"}) {
    const std::string e = equation;
    const std::string left = e.substr(0, e.find("->"));
    std::vector<Given> operands{{Sizes{}}};
    const std::map<char, std::int64_t> sizes{{'b', 2}, {'i', 3}, {'j', 4}, {'k', 3}, {'h', 2}, {'q', 3}, {'d', 2}};
    for (const char letter : left) {
      if (letter == ',')
        operands.push_back({Sizes{}});
      else
        operands.back().sizes.push_back(sizes.at(letter));
    }
    all.push_back({"Einsum", operands, {{"equation", e}}});
  }

  for (const int n : {1, 2, 3, 5})
    for (const char* op : {"Det", "CofactorMatrix"}) all.push_back({op, {{{2, n, n}}}, {}});
  for (const char* op : {"Det", "CofactorMatrix"}) all.push_back({op, {{{3, 3}, 0.5, 0.5}}, {}});  // of rank 1

  const auto conv = [](Indices strides, Indices dilations, Indices begin, Indices end, int group) {
    return Named{
        {"strides", strides}, {"dilations", dilations}, {"pads_begin", begin}, {"pads_end", end}, {"group", Index(group)}};
  };
  all.push_back({"Conv", {{{2, 3, 5, 4}}, {{4, 3, 3, 2}}, {{4}}}, {}});
  all.push_back({"Conv", {{{2, 4, 6, 5}}, {{4, 2, 3, 3}}}, conv(axes({2, 1}), axes({1, 1}), axes({1, 0}), axes({0, 1}), 2)});
  all.push_back(
      {"Conv", {{{1, 2, 8, 7}}, {{4, 1, 2, 2}}, {{4}}}, conv(axes({3, 2}), axes({2, 3}), axes({1, 1}), axes({1, 1}), 2)});
  all.push_back({"Conv", {{{2, 2, 7}}, {{3, 2, 3}}}, conv(axes({3}), axes({1}), axes({0}), axes({0}), 1)});
  all.push_back({"Conv", {{{1, 3, 4, 4}}, {{3, 1, 3, 3}}}, conv(axes({1, 1}), axes({1, 1}), axes({1, 1}), axes({1, 1}), 3)});
  all.push_back(
      {"ConvWeightGradient", {{{2, 3, 5, 4}}, {{2, 2, 5, 3}}}, {{"kernel", axes({3, 2})}, {"pads_begin", axes({1, 0})}}});
  all.push_back({"ConvWeightGradient",
                 {{{1, 4, 6, 5}}, {{1, 2, 2, 5}}},
                 {{"kernel", axes({3, 3})}, {"strides", axes({2, 1})}, {"pads_begin", axes({1, 0})}, {"group", Index(2)}}});
  all.push_back({"ConvTranspose", {{{2, 3, 4, 3}}, {{3, 2, 3, 2}}, {{2}}}, {}});
  Named transposed = conv(axes({2, 3}), axes({1, 2}), axes({1, 0}), axes({0, 1}), 2);
  transposed.emplace_back("output_padding", axes({1, 2}));
  all.push_back({"ConvTranspose", {{{1, 4, 3, 3}}, {{4, 2, 3, 2}}, {{4}}}, transposed});

  const auto pool = [](Indices kernel, Indices strides, Indices begin, Indices end, bool ceil) {
    return Named{{"kernel", kernel}, {"strides", strides}, {"pads_begin", begin}, {"pads_end", end}, {"ceil_mode", ceil}};
  };
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    all.push_back({op, {{{2, 3, 6, 5}}}, {{"kernel", axes({2, 3})}}});
    all.push_back({op, {{{1, 2, 7, 6}}}, pool(axes({3, 2}), axes({2, 2}), axes({1, 0}), axes({1, 1}), false)});
    all.push_back({op, {{{1, 2, 7, 6}}}, pool(axes({2, 2}), axes({3, 2}), axes({0, 0}), axes({0, 0}), true)});
    all.push_back({op, {{{1, 2, 9}}}, {{"kernel", axes({3})}, {"dilations", axes({2})}}});
  }
  Named counting = pool(axes({3, 3}), axes({2, 2}), axes({1, 1}), axes({1, 1}), true);
  counting.emplace_back("count_include_pad", true);
  all.push_back({"AveragePool", {{{1, 2, 6, 5}}}, counting});
  all.push_back({"LpPool", {{{1, 2, 4, 4}}}, {{"kernel", axes({2, 2})}, {"p", Index(3)}}});
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}) all.push_back({op, {{{2, 3, 4, 2}}}, {}});

  for (const char* op : {"Softmax", "LogSoftmax"}) {
    all.push_back({op, {{{2, 3, 4}}}, {}});
    all.push_back({op, {{{2, 3, 4}}}, {{"axis", Index(1)}}});
    all.push_back({op, {{{2, 3, 4}}}, {{"axis", Index(1)}, {"flatten", true}}});
  }
  all.push_back({"BatchNormalization", {{{2, 3, 4}}, {{3}}, {{3}}, {{3}}, positive({3})}, {}});
  all.push_back({"LayerNormalization", {{{2, 3, 4}}, {{4}}, {{4}}}, {}});
  all.push_back({"LayerNormalization", {{{2, 3, 4}}, {{3, 4}}}, {{"axis", Index(1)}}});
  all.push_back({"RMSNormalization", {{{2, 3, 4}}, {{4}}}, {}});
  all.push_back({"InstanceNormalization", {{{2, 3, 4, 2}}, {{3}}, {{3}}}, {}});
  all.push_back({"GroupNormalization", {{{2, 4, 3, 2}}, {{4}}, {{4}}}, {{"num_groups", Index(2)}}});
  all.push_back({"MeanVarianceNormalization", {{{2, 3, 2, 2}}}, {}});
  for (const int p : {1, 2}) all.push_back({"LpNormalization", {{{3, 4}}}, {{"p", Index(p)}}});
  for (const int size : {2, 3}) all.push_back({"LRN", {{{2, 5, 2, 2}}}, {{"size", Index(size)}, {"alpha", Real(0.5)}}});

  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1",
                         "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"}) {
    all.push_back({op, {positive({2, 3, 4})}, {{"axes", axes({1})}}});
    all.push_back({op, {positive({2, 3, 4})}, {{"axes", axes({0, 2})}, {"keepdims", false}}});
    all.push_back({op, {positive({2, 3})}, {}});
  }
  for (const bool reverse : {false, true})
    for (const bool exclusive : {false, true})
      all.push_back({"CumSum", {{{2, 4}}}, {{"axis", Index(1)}, {"reverse", reverse}, {"exclusive", exclusive}}});

  for (const bool reverse : {false, true})
    for (const bool exclusive : {false, true}) {
      const Named fields{{"axis", Index(1)}, {"reverse", reverse}, {"exclusive", exclusive}};
      all.push_back({"CumProd", {{{2, 4, 2}}}, fields});
    }
  all.push_back({"CumProd", {{{4}, 0, 0}}, {}});  // with zeros

  all.push_back({"Transpose", {{{2, 3, 4}}}, {{"perm", axes({2, 0, 1})}}});
  all.push_back({"Reshape", {{{2, 3, 4}}}, {{"shape", axes({4, 6})}}});
  all.push_back({"Flatten", {{{2, 3, 4}}}, {}});
  all.push_back({"Squeeze", {{{2, 1, 3}}}, {}});
  all.push_back({"Unsqueeze", {{{2, 3}}}, {{"axes", axes({0, 2})}}});
  all.push_back({"Expand", {{{3, 1}}}, {{"shape", axes({2, 3, 4})}}});
  for (const char* op : {"DepthToSpace", "SpaceToDepth"})
    for (const char* mode : {"DCR", "CRD"})
      all.push_back({op, {{{1, 8, 4, 2}}}, {{"blocksize", Index(2)}, {"mode", std::string(mode)}}});
  all.push_back({"Concat", {{{2, 3}}, {{2, 1}}, {{2, 2}}}, {{"axis", Index(1)}}});
  all.push_back({"Split", {{{2, 6}}}, {{"axis", Index(1)}, {"sizes", axes({1, 3, 2})}}});
  for (const char* mode : {"constant", "edge", "reflect", "wrap"})
    all.push_back({"Pad", {{{3, 4}}}, {{"pads_begin", axes({1, 2})}, {"pads_end", axes({0, 3})}, {"mode", std::string(mode)}}});
  all.push_back({"Pad", {{{3, 4}}, {{}}}, {{"pads_begin", axes({1, -1})}, {"pads_end", axes({0, 2})}}});
  all.push_back({"Tile", {{{2, 3}}}, {{"repeats", axes({3, 2})}}});
  all.push_back({"Slice", {{{5, 6}}}, {{"begin", axes({1, 0})}, {"length", axes({3, 6})}}});
  all.push_back({"Slice", {{{5, 9}}}, {{"begin", axes({4, 1})}, {"length", axes({2, 3})}, {"step", axes({-3, 3})}}});
  all.push_back({"Slice", {{{7}}}, {{"begin", axes({6})}, {"length", axes({7})}, {"step", axes({-1})}}});
  all.push_back({"Trilu", {{{2, 3, 4}}}, {{"upper", false}, {"k", Index(1)}}});
  all.push_back({"Gather", {{{3, 4}}, ints({2, 2}, {2, 0, 0, -1})}, {}});
  all.push_back({"Gather", {{{2, 3, 4}}, ints({2}, {1, 1})}, {{"axis", Index(1)}}});
  all.push_back({"Gather", {{{2, 3}}, ints({}, {1}, DataType::kInt32)}, {{"axis", Index(1)}}});
  all.push_back({"GatherElements", {{{3, 3}}, ints({2, 3}, {0, 2, 1, 0, 0, -1})}, {}});
  all.push_back({"GatherND", {{{2, 3, 2}}, ints({3, 2}, {0, 1, 1, 2, 0, 1})}, {}});
  all.push_back({"GatherND", {{{2, 3, 2}}, ints({2, 2, 1}, {0, 1, 2, 2})}, {{"batch_dims", Index(1)}}});
  all.push_back({"ScatterElements", {{{3, 3}}, ints({1, 3}, {0, 2, 1}), {{1, 3}}}, {}});
  all.push_back({"ScatterElements", {{{3, 3}}, ints({2, 3}, {0, 2, 1, 0, 0, 1}), {{2, 3}}}, {{"reduction", kAdd}}});
  all.push_back({"ScatterND", {{{4, 2}}, ints({2, 1}, {3, 1}), {{2, 2}}}, {}});
  all.push_back({"ScatterND", {{{4, 2}}, ints({2, 1}, {3, 3}), {{2, 2}}}, {{"reduction", kAdd}}});
  for (const char* reduction : {"mul", "max", "min"}) {
    const Named by{{"reduction", std::string(reduction)}};
    all.push_back({"ScatterElements", {{{3, 3}}, ints({2, 3}, {0, 2, 1, 0, 0, 1}), {{2, 3}}}, by});
    all.push_back({"ScatterND", {{{4, 2}}, ints({3, 1}, {3, 3, 1}), {{3, 2}}}, by});
  }
  all.push_back({"ScatterND", {{{4, 2}, 0, 0}, ints({2, 1}, {3, 1}), {{2, 2}}}, {{"reduction", std::string("mul")}}});
  all.push_back({"TopK", {{{3, 5}}}, {{"k", Index(2)}}});
  all.push_back({"TopK", {{{3, 5}}}, {{"k", Index(3)}, {"axis", Index(0)}, {"largest", Index(0)}}});
  const auto bytes = [](Sizes sizes) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(sizes)));
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<std::int64_t>(37 * n % 256) - 128;
    return ints(std::move(sizes), std::move(values), DataType::kInt8);
  };
  all.push_back({"DequantizeLinear", {bytes({2, 3}), {{}}}, {}});
  all.push_back({"DequantizeLinear", {bytes({2, 3}), {{1}}, ints({1}, {5}, DataType::kInt8)}, {}});
  all.push_back({"DequantizeLinear", {bytes({2, 3, 2}), {{3}}, bytes({3})}, {}});
  all.push_back({"DequantizeLinear", {bytes({2, 5}), {{2, 3}}, bytes({2, 3})}, {{"block_size", Index(2)}}});
  all.push_back({"DequantizeLinear", {bytes({6, 2}), {{2, 2}}}, {{"axis", Index(0)}, {"block_size", Index(3)}}});
  all.push_back({"DynamicQuantizeLinear", {{{2, 3}}}, {}});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    all.push_back({"Resize", {{{1, 2, 3, 4}}}, {{"sizes", axes({1, 2, 6, 7})}, {"mode", std::string(mode)}}});
    all.push_back({"Resize", {{{1, 2, 5, 4}}}, {{"sizes", axes({1, 2, 3, 4})}, {"mode", std::string(mode)}}});
  }
  all.push_back({"AffineGrid", {{{2, 2, 3}}}, {{"size", axes({2, 1, 3, 4})}}});
  all.push_back({"AffineGrid", {{{1, 3, 4}}}, {{"size", axes({1, 1, 2, 1, 3})}, {"align_corners", true}}});
  return all;
}

TEST_CASE("gradients agree with finite differences") {
  std::mt19937 random(1);
  for (const Case& c : cases()) {
    INFO(text(c));
    CHECK(largest_error(objective(c, random)) < 1e-6);
  }
}

TEST_CASE("gradients can be differentiated again") {
  std::mt19937 random(2);
  const std::set<std::string> smooth{
      "Tanh",        "Exp",           "Gelu",    "MatMul", "Gemm",   "Conv", "ConvTranspose", "ConvWeightGradient",
      "AveragePool", "Div",           "Softmax", "Gather", "Einsum", "Pow",  "LRN",           "LayerNormalization",
      "Det",         "CofactorMatrix"};
  for (const Case& c : cases()) {
    if (!smooth.contains(c.op)) continue;
    INFO(text(c));
    Objective first = objective(c, random);
    std::vector<Seed> seeds;
    for (std::size_t k = 0; k < first.outputs.size(); ++k) seeds.push_back({first.outputs[k], first.weights[k]});
    Objective second = first;
    second.outputs.clear(), second.weights.clear(), second.weight_values.clear();
    for (const ValueId g : differentiate(second.graph, seeds, first.inputs)) {
      if (g == kNoValue) continue;
      second.outputs.push_back(g);
      second.weight_values.push_back(testing::random_tensor(values(second.graph.value(g).type.shape), random));
      second.weights.push_back(second.graph.add_constant(second.weight_values.back()));
    }
    CHECK(largest_error(second) < 1e-5);
  }
}

TEST_CASE("what is read at several places gets the gradients of all in one tensor") {
  Graph graph;
  const ValueId table = graph.add_input("table", {DataType::kDouble, {3, 2}});
  const Operator& gather = registry().get("Gather");
  std::vector<Seed> seeds;
  for (const std::int64_t row : {1, 1, 2}) {
    const ValueId at = graph.add_constant(Tensor::from_integers(DataType::kInt64, {1}, std::vector{row}));
    const ValueId read = graph.add_node(gather, gather.defaults(), {table, at}).at(0);
    const auto weight = static_cast<double>(seeds.size() + 1);
    seeds.push_back({read, graph.add_constant(Tensor::from_reals(DataType::kDouble, {1, 2}, std::vector{weight, -weight}))});
  }
  graph.add_output("gradient", differentiate(graph, seeds, std::vector{table}).at(0));
  graph.tidy();
  const std::vector<Tensor> inputs{Tensor(DataType::kDouble, {3, 2})};
  CHECK(interpret(graph, inputs)[0].reals() == std::vector<double>{0, 0, 3, -3, 3, -3});
  CHECK(std::ranges::none_of(graph.nodes(), [](const auto& node) { return node->op->name() == "Add"; }));
  CHECK(std::ranges::count_if(graph.nodes(), [](const auto& node) { return node->op->is_fill(); }) == 1);
}

TEST_CASE("every operator has a gradient that is tested, or a reason not to have one") {
  const std::map<std::string, std::string> without = testing::operators_without_gradient();
  std::set<std::string> tested;
  for (const Case& c : cases()) tested.insert(c.op);
  for (const Operator* op : registry().all()) {
    INFO(op->name());
    CHECK(tested.contains(op->name()) != without.contains(op->name()));
  }
}

}  // namespace
}  // namespace rewright::graph
