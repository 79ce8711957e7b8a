// The tile engine: elementwise chains, layout operators, reductions, statistics.
#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;
using rewright::testing::random_tensor;

namespace {

struct ElementwiseBuilder : rewright::testing::GraphBuilder {
  using GraphBuilder::GraphBuilder;
  void check(ValueId result, double tolerance = 2e-5) {
    graph.add_output("y", result);
    check_graph(graph, inputs, tolerance);
  }
};

Indices indices(std::initializer_list<std::int64_t> list) { return to_indices(std::vector<std::int64_t>(list)); }

}  // namespace

TEST_CASE("elementwise functions") {
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Abs",  "Neg", "Gelu",      "HardSwish", "Softplus",  "Sqrt",
                         "Log",  "Floor",   "Sign", "Sin", "Cos", "Atan", "Elu", "LeakyRelu", "Mish",      "Reciprocal"}) {
    if (registry().find(op) == nullptr) continue;
    CAPTURE(op);
    const bool positive = std::string(op) == "Sqrt" || std::string(op) == "Log" || std::string(op) == "Reciprocal";
    for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
      ElementwiseBuilder b(1);
      const ValueId x = b.input(type, {3, 37, 19}, positive ? 0.1 : -6, 6);
      b.check(node(b.graph, op, {x})[0]);
    }
  }
}

TEST_CASE("special values pass through elementwise functions") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> special{0.0, -0.0, 1e-42, -1e-42, inf, -inf, nan, 88.9, 100, -103.5, -120, 3e38};
  for (const char* op : {"Exp", "Sigmoid", "Tanh", "Erf", "Relu", "Abs", "Sqrt", "Neg"}) {
    CAPTURE(op);
    ElementwiseBuilder b(1);
    b.inputs.push_back(Tensor::from_reals(DataType::kFloat, {12}, special));
    const ValueId x = b.graph.add_input("x", {DataType::kFloat, indices({12})});
    b.check(node(b.graph, op, {x})[0]);
  }
}

TEST_CASE("random elementwise chains with broadcasting") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const Sizes full{b.pick(1, 3), b.pick(1, 20), b.pick(1, 9), b.pick(1, 40)};
    std::vector<ValueId> values;
    for (int n = 0; n < 3; ++n) {
      Sizes sizes = full;
      for (std::int64_t& s : sizes)
        if (n > 0 && b.pick(0, 2) == 0) s = 1;
      if (n > 0 && b.pick(0, 3) == 0) sizes.erase(sizes.begin());
      values.push_back(b.input(DataType::kFloat, sizes));
    }
    for (int n = 0; n < 7; ++n) {
      const ValueId x = values[b.pick(0, values.size() - 1)], y = values[b.pick(0, values.size() - 1)];
      static const char* const kBinary[] = {"Add", "Mul", "Sub", "Max", "Min"};
      static const char* const kUnary[] = {"Relu", "Sigmoid", "Tanh", "Neg", "Abs"};
      values.push_back(b.pick(0, 1) ? node(b.graph, kBinary[b.pick(0, 4)], {x, y})[0]
                                    : node(b.graph, kUnary[b.pick(0, 4)], {x})[0]);
    }
    b.graph.add_output("y", values.back());
    b.check(values[values.size() - 2]);
  }
}

TEST_CASE("layout operators and what stands behind them") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const Sizes s{b.pick(1, 4), b.pick(1, 6), b.pick(1, 40), b.pick(1, 40)};
    const ValueId x = b.input(DataType::kFloat, s);
    std::vector<std::int64_t> permutation{0, 1, 2, 3};
    std::shuffle(permutation.begin(), permutation.end(), b.random);
    ValueId y = node(b.graph, "Transpose", {x}, {{"perm", to_indices(permutation)}})[0];
    if (b.pick(0, 1)) y = node(b.graph, "Relu", {y})[0];
    Sizes t;
    for (const std::int64_t p : permutation) t.push_back(s[p]);
    y = node(b.graph, "Reshape", {y}, {{"shape", indices({t[0] * t[1], t[2], t[3]})}})[0];
    if (b.pick(0, 1)) y = node(b.graph, "Add", {y, b.input(DataType::kFloat, {t[3]})})[0];
    y = node(b.graph, "Transpose", {y}, {{"perm", indices({1, 0, 2})}})[0];
    const ValueId z = node(b.graph, "Concat", {y, y}, {{"axis", Index(b.pick(0, 2))}})[0];
    b.check(z);
  }
}

TEST_CASE("positions that are quotients and remainders of axes") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const std::int64_t block = b.pick(2, 3);
    const Sizes s{b.pick(1, 2), b.pick(1, 3) * block * block, b.pick(1, 9) * block, b.pick(1, 9) * block};
    ValueId y = b.input(DataType::kFloat, s);
    if (b.pick(0, 1)) y = node(b.graph, "Abs", {y})[0];
    switch (seed % 6) {
      case 0:
        y = node(b.graph, "Tile", {y}, {{"repeats", indices({1, b.pick(1, 3), b.pick(1, 3), b.pick(1, 3)})}})[0];
        break;
      case 1:
        y = node(b.graph, "SpaceToDepth", {y}, {{"blocksize", Index(block)}})[0];
        break;
      case 2:
        y = node(b.graph, "DepthToSpace", {y}, {{"blocksize", Index(block)}})[0];
        break;
      case 3:
        y = node(b.graph, "Flatten", {y}, {{"axis", Index(b.pick(0, 4))}})[0];
        break;
      case 4:
        y = node(b.graph, "Reshape", {y}, {{"shape", indices({s[3], s[0] * s[2], s[1]})}})[0];
        break;
      default:
        y = node(b.graph, "Transpose", {y}, {{"perm", indices({0, 2, 3, 1})}})[0];
        y = node(b.graph, "Reshape", {y}, {{"shape", indices({s[0] * block, s[2] / block, s[3] * s[1]})}})[0];
    }
    b.check(y);
  }
}

TEST_CASE("the largest and smallest elements, and where they stand") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kHalf,  DataType::kInt8,
                                          DataType::kUint8, DataType::kInt32,  DataType::kInt64, DataType::kUint16};
    ElementwiseBuilder b(seed);
    const Sizes s{b.pick(1, 4), b.pick(1, 60), b.pick(1, 4)};
    const std::int64_t axis = b.pick(0, 2);
    const DataType type = kTypes[seed % std::size(kTypes)];
    // Few distinct numbers, so that many are equal.
    const bool is_unsigned = type == DataType::kUint8 || type == DataType::kUint16;
    ValueId x = b.input(type, s, is_unsigned ? 0 : -9, 9);
    if (type == DataType::kFloat && b.pick(0, 1)) x = node(b.graph, "Round", {x})[0];
    const std::vector<ValueId> found = node(
        b.graph, "TopK", {x},
        {{"axis", Index(axis)}, {"k", Index(b.pick(0, s[static_cast<std::size_t>(axis)]))}, {"largest", Index(b.pick(0, 1))}});
    b.graph.add_output("where", found[1]);
    b.check(found[0], 0);
  }
}

// In vectors of their own width, wherever no result needs more bits.
TEST_CASE("integers of all widths, and truth values") {
  static constexpr DataType kTypes[] = {DataType::kInt8,  DataType::kUint8,  DataType::kInt16, DataType::kUint16,
                                        DataType::kInt32, DataType::kUint32, DataType::kInt64, DataType::kBool};
  for (unsigned seed = 0; seed < testing::instances(120); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const DataType type = kTypes[seed % std::size(kTypes)];
    const bool is_truth = type == DataType::kBool;
    const Sizes full{b.pick(1, 3), b.pick(1, 30), b.pick(1, 40)};
    const auto given = [&](Sizes sizes) {
      // All bits, so that results wrap and signs count; sometimes the least of the type, which has no opposite.
      std::vector<std::int64_t> list(static_cast<std::size_t>(element_count(sizes)));
      const auto bits = static_cast<int>(8 * byte_size(type));
      for (std::int64_t& v : list)
        v = is_truth ? b.pick(0, 1) : static_cast<std::int64_t>((std::uint64_t{b.random()} << 32) | b.random());
      if (b.pick(0, 2) == 0) list[0] = is_truth ? 1 : static_cast<std::int64_t>(std::uint64_t{1} << (bits - 1));
      if (b.pick(0, 2) == 0)
        for (std::int64_t& v : list) v = is_truth ? v : b.pick(0, 3);
      b.inputs.push_back(Tensor::from_integers(type, sizes, list));
      return b.graph.add_input("x" + std::to_string(b.inputs.size()), {type, to_indices(sizes)});
    };
    const auto one = [&](const char* op, const std::vector<ValueId>& of) { return node(b.graph, op, of)[0]; };
    std::vector<ValueId> values{given(full), given({full[1], 1}), given(full)};
    for (int n = 0; n < 5; ++n) {
      const ValueId x = values[b.pick(0, values.size() - 1)], y = values[b.pick(0, values.size() - 1)];
      static const char* const kTruth[] = {"And", "Or", "Xor", "Equal"};
      static const char* const kBinary[] = {"Add", "Sub", "Mul", "Max", "Min", "Div", "Mod", "BitwiseAnd", "BitwiseXor"};
      static const char* const kUnary[] = {"Neg", "Abs", "Sign", "BitwiseNot"};
      static const char* const kCompare[] = {"Equal", "Less", "LessOrEqual", "Greater"};
      const bool is_unsigned = type == DataType::kUint8 || type == DataType::kUint16 || type == DataType::kUint32;
      ValueId z;
      if (is_truth)
        z = b.pick(0, 3) == 0 ? one("Not", {x}) : one(kTruth[b.pick(0, 3)], {x, y});
      else if (b.pick(0, 3) == 0)
        z = one(kUnary[is_unsigned ? b.pick(1, 3) : b.pick(0, 3)], {x});
      else
        z = one(kBinary[b.pick(0, 8)], {x, y});
      if (b.pick(0, 2) == 0) z = one("Where", {is_truth ? x : one(kCompare[b.pick(0, 3)], {x, y}), z, y});
      values.push_back(z);
    }
    ValueId y = values.back();
    switch (b.pick(0, 4)) {
      case 0:
        y = node(b.graph, "Cast", {y}, {{"to", kTypes[b.pick(0, std::size(kTypes) - 1)]}})[0];
        break;
      case 1:
        y = node(b.graph, "Cast", {y}, {{"to", b.pick(0, 1) ? DataType::kFloat : DataType::kDouble}})[0];
        y = node(b.graph, "Where", {node(b.graph, "Less", {y, y})[0], y, node(b.graph, "Neg", {y})[0]})[0];
        break;
      case 2:
        if (!is_truth && byte_size(type) >= 4)
          y = node(b.graph, b.pick(0, 1) ? "ReduceSum" : "ReduceMax", {y}, {{"axes", indices({-1})}})[0];
        break;
      default:
        break;
    }
    b.check(y, 0);
  }
}

// Only moved, in every type: transposed, cut, padded, repeated, along diagonals.
TEST_CASE("elements of all types are moved") {
  static constexpr DataType kTypes[] = {DataType::kHalf,  DataType::kBfloat16, DataType::kInt8,  DataType::kBool,
                                        DataType::kInt32, DataType::kUint16,   DataType::kFloat, DataType::kUint8};
  for (unsigned seed = 0; seed < testing::instances(96); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const DataType type = kTypes[seed % std::size(kTypes)];
    const Sizes sizes{b.pick(1, 3), b.pick(1, 40), b.pick(1, 40)};
    ValueId y = b.input(type, sizes, type == DataType::kBool ? 0 : 1, type == DataType::kBool ? 1 : 100);
    for (int n = 0; n < 2; ++n) {
      const Sizes now = values(b.graph.value(y).type.shape);
      switch (b.pick(0, 5)) {
        case 0:
          y = node(b.graph, "Transpose", {y}, {{"perm", b.pick(0, 1) ? indices({0, 2, 1}) : indices({2, 0, 1})}})[0];
          break;
        case 1:
          y = node(b.graph, "Pad", {y}, {{"pads_begin", indices({0, b.pick(0, 2), 2})}, {"pads_end", indices({1, 0, 3})}})[0];
          break;
        case 2:
          y = node(b.graph, "Trilu", {y}, {{"k", Index(b.pick(-3, 3))}, {"upper", b.pick(0, 1) == 1}})[0];
          break;
        case 3:
          y = node(b.graph, "Slice", {y},
                   {{"begin", indices({0, now[1] / 2, 0})},
                    {"length", indices({now[0], now[1] - now[1] / 2, (now[2] + 1) / 2})},
                    {"step", indices({1, 1, 2})}})[0];
          break;
        case 4:
          y = node(b.graph, "Tile", {y}, {{"repeats", indices({1, b.pick(1, 3), b.pick(1, 2)})}})[0];
          break;
        default: {
          std::vector<std::int64_t> list(static_cast<std::size_t>(b.pick(1, 9)));
          for (std::int64_t& i : list) i = b.pick(-now[1], now[1] - 1);
          const Tensor rows = Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(list.size())}, list);
          y = node(b.graph, "Gather", {y, b.graph.add_constant(rows)}, {{"axis", Index(1)}})[0];
        }
      }
    }
    b.check(y, 0);
  }
}

TEST_CASE("repeated elements are copied in runs") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    static const DataType kTypes[] = {DataType::kFloat, DataType::kBool,  DataType::kInt8,  DataType::kHalf,
                                      DataType::kInt32, DataType::kInt64, DataType::kDouble};
    const DataType type = kTypes[seed % 7];
    Sizes sizes;
    Indices repeats, shape;
    for (std::int64_t a = b.pick(1, 4); a > 0; --a) {
      sizes.push_back(b.pick(seed % 9 == 0 ? 0 : 1, 6));
      if (b.pick(0, 2) == 0) sizes.back() = 1;
      repeats.push_back(b.pick(seed % 9 == 1 ? 0 : 1, 5));
      shape.push_back(sizes.back() == 1 ? b.pick(1, 30) : sizes.back());
    }
    shape.insert(shape.begin(), b.pick(1, 4));
    ValueId x = b.input(type, sizes, 0, type == DataType::kBool ? 2 : 9);
    const bool computed = type == DataType::kFloat && b.pick(0, 1) == 0;  // what is repeated is not in memory
    if (computed) x = node(b.graph, "Exp", {x})[0];
    b.graph.add_output("tile", node(b.graph, "Tile", {x}, {{"repeats", repeats}})[0]);
    b.graph.add_output("expand", node(b.graph, "Expand", {x}, {{"shape", shape}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("outputs share their statistics") {
  for (unsigned seed = 0; seed < testing::instances(20); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    Sizes sizes;
    for (std::int64_t a = b.pick(1, 4); a > 0; --a) sizes.push_back(b.pick(seed % 8 == 0 ? 0 : 1, 20));
    const std::int64_t axis = b.pick(0, std::ssize(sizes) - 1);
    const Sizes row(sizes.begin() + axis, sizes.end());
    const ValueId x = b.input(DataType::kFloat, sizes);
    std::vector<ValueId> inputs{x, b.constant(row, 0.5, 1.5)};
    if (b.pick(0, 1)) inputs.push_back(b.constant(row));
    const auto outputs = node(b.graph, "LayerNormalization", inputs, {{"axis", Index(axis)}});
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (o != 1 || seed % 3 > 0) b.graph.add_output("layer" + std::to_string(o), outputs[o]);
    if (element_count(sizes) > 0) {
      const auto quantized = node(b.graph, "DynamicQuantizeLinear", {x});
      for (std::size_t o = 0; o < quantized.size(); ++o) b.graph.add_output("quantized" + std::to_string(o), quantized[o]);
    }
    check_graph(b.graph, b.inputs, 1e-4);
  }
}

TEST_CASE("normalizations over several of the last axes") {
  for (unsigned seed = 0; seed < testing::instances(20); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    Sizes sizes;
    for (std::int64_t a = b.pick(2, 4); a > 0; --a) sizes.push_back(b.pick(1, 12));
    const std::int64_t axis = b.pick(0, std::ssize(sizes) - 1);
    const Sizes row(sizes.begin() + axis, sizes.end());
    const ValueId x = b.input(DataType::kFloat, sizes);
    std::vector<ValueId> inputs{x, b.constant(row, 0.5, 1.5)};
    b.graph.add_output("rms", node(b.graph, "RMSNormalization", inputs, {{"axis", Index(axis)}})[0]);
    inputs.push_back(b.constant(row));
    b.graph.add_output("layer", node(b.graph, "LayerNormalization", inputs, {{"axis", Index(axis)}})[0]);
    check_graph(b.graph, b.inputs, 1e-4);
  }
}

TEST_CASE("linear functions by channel, within bounds, and with two slopes") {
  for (unsigned seed = 0; seed < testing::instances(48); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    Sizes sizes{b.pick(1, 3), b.pick(1, 9)};
    for (std::int64_t a = b.pick(0, 2); a > 0; --a) sizes.push_back(b.pick(seed % 8 == 0 ? 0 : 1, 40));
    const ValueId x = b.input(DataType::kFloat, sizes);
    const Sizes by_channel = Sizes(sizes.size() - 1, 1);
    Sizes slopes = by_channel;
    slopes[0] = sizes[1];
    ValueId y = kNoValue;
    const auto given = [&](double low) { return b.input(DataType::kFloat, slopes, low, 2); };  // numbers known in a run alone
    switch (seed % 6) {
      case 0:
        y = b.batch_norm(x);
        break;
      case 5:
        y = node(b.graph, "Mul", {node(b.graph, "Sub", {x, given(-2)})[0], b.constant(slopes)})[0];
        y = node(b.graph, "Div", {y, node(b.graph, "Sqrt", {given(0.5)})[0]})[0];
        if (b.pick(0, 1)) y = node(b.graph, "Add", {y, given(-1)})[0];
        break;
      case 1:
        y = node(b.graph, "HardSigmoid", {x}, {{"alpha", Real(0.3)}, {"beta", Real(0.4)}})[0];
        break;
      case 2:
        y = node(b.graph, "Clip", {x, b.constant({}, -0.5, 0.2), b.constant({}, 0, 0.9)})[0];
        break;
      case 3:
        y = node(b.graph, "LeakyRelu", {x}, {{"alpha", Real(0.3)}})[0];
        break;
      default:
        y = node(b.graph, "PRelu", {x, b.constant(slopes)})[0];
    }
    if (b.pick(0, 2) == 0) y = node(b.graph, "Relu", {y})[0];
    b.check(y);
  }
}

TEST_CASE("special values pass through linear functions within bounds") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> special{0.0, -0.0, 1e-42, -1e-42, inf, -inf, nan, 3e38, -3e38, 0.4, -0.4, 1};
  ElementwiseBuilder b(1);
  b.inputs.push_back(Tensor::from_reals(DataType::kFloat, {12}, special));
  const ValueId x = b.graph.add_input("x", {DataType::kFloat, indices({12})});
  b.graph.add_output("sigmoid", node(b.graph, "HardSigmoid", {x})[0]);
  b.graph.add_output("leaky", node(b.graph, "LeakyRelu", {x})[0]);
  const ValueId low = b.graph.add_constant(Tensor::scalar(DataType::kFloat, -0.25)),
                high = b.graph.add_constant(Tensor::scalar(DataType::kFloat, 2));
  b.graph.add_output("clip", node(b.graph, "Clip", {x, low, high})[0]);
  check_graph(b.graph, b.inputs, 1e-6);
}

// Rows along the last axis but one, if the last is short.
TEST_CASE("short rows of several tensors") {
  for (unsigned seed = 0; seed < testing::instances(24); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const Sizes sizes{b.pick(1, 3), b.pick(12, 40), b.pick(2, 7)};
    const ValueId across = b.input(DataType::kFloat, {sizes[0], sizes[2], sizes[1]}),
                  part = b.input(DataType::kFloat, {sizes[0], sizes[1], sizes[2] + 3}),
                  beside = b.input(DataType::kFloat, {sizes[1], 1});
    ValueId y = node(b.graph, "Transpose", {across}, {{"perm", indices({0, 2, 1})}})[0];
    const ValueId slice = node(b.graph, "Slice", {part},
                               {{"begin", indices({0, 0, 1})}, {"length", to_indices(sizes)}, {"step", indices({1, 1, 1})}})[0];
    y = node(b.graph, "Add", {node(b.graph, "Mul", {y, slice})[0], beside})[0];
    if (b.pick(0, 1)) y = node(b.graph, "Trilu", {y}, {{"k", Index(1)}})[0];
    b.check(y);
  }
}

TEST_CASE("reductions along an axis that is not the last") {
  for (unsigned seed = 0; seed < testing::instances(24); ++seed) {
    CAPTURE(seed);
    static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt8};
    static const char* const kOperators[] = {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"};
    ElementwiseBuilder b(seed);
    const DataType type = kTypes[seed % std::size(kTypes)];
    const ValueId x = b.input(type, {b.pick(1, 3), b.pick(1, 100), b.pick(1, 80)}, -3, 3);
    const auto which = type == DataType::kInt8 ? b.pick(1, 2) : is_real(type) ? b.pick(0, 3) : b.pick(0, 2);
    b.check(node(b.graph, kOperators[which], {x}, {{"axes", indices({b.pick(0, 1)})}})[0]);
  }
}

TEST_CASE("concatenation, slices and padding split into boxes") {
  for (unsigned seed = 0; seed < testing::instances(20); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const std::int64_t n = b.pick(1, 3), h = b.pick(1, 9), w = b.pick(1, 33);
    std::vector<ValueId> parts;
    for (int k = 0; k < 4; ++k) parts.push_back(b.input(DataType::kFloat, {n, b.pick(0, 7), h, w}));
    ValueId y = node(b.graph, "Concat", parts, {{"axis", Index(1)}})[0];
    y = node(b.graph, "Sigmoid", {y})[0];
    y = node(b.graph, "Pad", {y}, {{"pads_begin", indices({0, 0, 1, 2})}, {"pads_end", indices({0, 1, 0, 3})}})[0];
    b.check(y);
  }
}

// Positions that vary by row, along rows, or both; from tables, and beyond the ends.
TEST_CASE("elements from elsewhere") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const Sizes sizes{b.pick(1, 2), 4 * b.pick(1, 4), b.pick(2, 12), b.pick(2, 20)};
    ValueId y = b.input(DataType::kFloat, sizes);
    const auto table = [&](std::int64_t size, const Sizes& of) {
      std::vector<std::int64_t> list(static_cast<std::size_t>(element_count(of)));
      for (std::int64_t& i : list) i = b.pick(-size, size - 1);
      const Tensor tensor = Tensor::from_integers(DataType::kInt64, of, list);
      if (b.pick(0, 1)) return b.graph.add_constant(tensor);
      b.inputs.push_back(tensor);
      return b.graph.add_input("i" + std::to_string(b.inputs.size()), {DataType::kInt64, to_indices(of)});
    };
    for (int n = 0; n < 2; ++n) {
      const Sizes now = values(b.graph.value(y).type.shape);
      const auto axis = static_cast<std::size_t>(b.pick(0, 3));
      switch (b.pick(0, 5)) {
        case 0:
          y = node(b.graph, "Gather", {y, table(now[axis], {b.pick(1, 16)})}, {{"axis", Index(axis)}})[0];
          break;
        case 1:
          y = node(b.graph, "GatherElements", {y, table(now[axis], now)}, {{"axis", Index(axis)}})[0];
          break;
        case 2:
          y = node(b.graph, "Resize", {y},
                   {{"sizes", indices({now[0], now[1], b.pick(1, 17), b.pick(1, 33)})},
                    {"mode", std::string(b.pick(0, 1) ? "nearest" : "linear")}})[0];
          break;
        case 3:
          if (now[1] % 4 == 0) y = node(b.graph, "DepthToSpace", {y}, {{"blocksize", Index(2)}})[0];
          break;
        case 4:
          y = node(b.graph, "Tile", {y}, {{"repeats", indices({1, b.pick(1, 2), b.pick(1, 3), b.pick(1, 3)})}})[0];
          break;
        default:
          y = node(b.graph, "Pad", {y},
                   {{"pads_begin", indices({0, 0, b.pick(0, 1), b.pick(0, 1)})},
                    {"pads_end", indices({0, 0, b.pick(0, 1), b.pick(0, 1)})},
                    {"mode", std::string(now[2] > 1 && now[3] > 1 ? "reflect" : "edge")}})[0];
      }
    }
    b.check(b.pick(0, 1) ? y : node(b.graph, "Mul", {y, y})[0]);
  }
}

TEST_CASE("running sums and products") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    Sizes sizes;
    for (std::int64_t rank = b.pick(1, 4); rank > 0; --rank) sizes.push_back(b.pick(1, 9));
    static constexpr DataType kTypes[] = {DataType::kInt64, DataType::kDouble,  DataType::kFloat, DataType::kFloat,
                                          DataType::kInt32, DataType::kHalf,    DataType::kFloat, DataType::kInt8,
                                          DataType::kInt16, DataType::kBfloat16};
    const DataType type = kTypes[seed % std::size(kTypes)];
    ValueId x = b.input(type, sizes);
    if (b.pick(0, 1)) x = node(b.graph, "Abs", {x})[0];
    const ValueId y = node(b.graph, b.pick(0, 1) ? "CumSum" : "CumProd", {x},
                           {{"axis", Index(b.pick(0, static_cast<std::int64_t>(sizes.size()) - 1))},
                            {"exclusive", b.pick(0, 1) == 1},
                            {"reverse", b.pick(0, 1) == 1}})[0];
    b.check(b.pick(0, 1) ? y : node(b.graph, "Neg", {y})[0], type == DataType::kHalf       ? 2e-3
                                                             : type == DataType::kBfloat16 ? 2e-2
                                                                                           : 2e-5);
  }
}

TEST_CASE("reductions") {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
    for (unsigned seed = 0; seed < testing::instances(16); ++seed) {
      CAPTURE(op, seed);
      ElementwiseBuilder b(seed);
      const Sizes s{b.pick(1, 5), b.pick(1, 9), b.pick(1, 50), b.pick(1, 50)};
      const ValueId x = b.input(DataType::kFloat, s, 0.9, 1.1);
      Indices axes;
      for (int a = 0; a < 4; ++a)
        if ((seed >> a & 1) != 0) axes.push_back(a);
      if (axes.empty()) axes.push_back(3);
      const ValueId squared = node(b.graph, "Mul", {x, x})[0];
      b.check(node(b.graph, op, {squared}, {{"axes", axes}, {"keepdims", seed % 3 == 0}})[0], 1e-4);
    }
  }
}

TEST_CASE("softmax and normalizations run in stages") {
  for (unsigned seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    const Sizes s{b.pick(1, 3), b.pick(1, 17), b.pick(1, 70)};
    const ValueId x = b.input(DataType::kFloat, s, -20, 20);
    const ValueId scale = b.input(DataType::kFloat, {s[2]}), shift = b.input(DataType::kFloat, {s[2]});
    ValueId y = node(b.graph, "LayerNormalization", {x, scale, shift})[0];
    y = node(b.graph, "Softmax", {y}, {{"axis", Index(static_cast<std::int64_t>(seed % 3))}})[0];
    b.check(y, 1e-4);
  }
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    ElementwiseBuilder b(seed);
    Sizes s(static_cast<std::size_t>(b.pick(2, 4)));
    for (std::int64_t& n : s) n = b.pick(1, seed % 3 == 0 ? 70 : 9);
    const ValueId x = b.input(DataType::kFloat, s, -20, 20);
    const char* const op = seed % 2 == 0 ? "Softmax" : "LogSoftmax";
    b.check(node(b.graph, op, {x}, {{"axis", Index(b.pick(0, std::ssize(s) - 1))}, {"flatten", seed % 4 == 0}})[0], 1e-4);
  }
  ElementwiseBuilder b(1);
  const ValueId x = b.input(DataType::kFloat, {2, 5, 7, 9});
  const ValueId scale = b.input(DataType::kFloat, {5}), shift = b.input(DataType::kFloat, {5});
  b.graph.add_output("instances", node(b.graph, "InstanceNormalization", {x, scale, shift})[0]);
  b.graph.add_output("lengths", node(b.graph, "LpNormalization", {x}, {{"axis", Index(3)}})[0]);
  b.check(node(b.graph, "GroupNormalization", {x, scale, shift}, {{"num_groups", Index(1)}})[0], 1e-4);
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    ElementwiseBuilder g(2);
    const ValueId z = g.input(type, {2, 12, 3, 5}), factors = g.input(type, {12}), shifts = g.input(type, {12});
    g.graph.add_output("instances", node(g.graph, "InstanceNormalization", {z, factors, shifts})[0]);
    g.check(node(g.graph, "GroupNormalization", {z, factors, shifts}, {{"num_groups", Index(4)}})[0],
            type == DataType::kDouble ? 1e-12 : 1e-4);
  }
}

TEST_CASE("integers, truth values, gathers, conversions") {
  ElementwiseBuilder b(3);
  const ValueId x = b.input(DataType::kFloat, {11, 6}), y = b.input(DataType::kFloat, {11, 6});
  const ValueId i = b.input(DataType::kInt64, {4, 3}, 0, 11), k = b.input(DataType::kInt32, {5}, -100, 100);
  const ValueId less = node(b.graph, "Less", {x, y})[0];
  b.graph.add_output("where", node(b.graph, "Where", {less, x, y})[0]);
  b.graph.add_output("not", node(b.graph, "Not", {less})[0]);
  b.graph.add_output("gather", node(b.graph, "Gather", {x, i}, {{"axis", Index(0)}})[0]);
  b.graph.add_output("cast", node(b.graph, "Cast", {k}, {{"to", DataType::kFloat}})[0]);
  b.graph.add_output("half", node(b.graph, "Cast", {x}, {{"to", DataType::kHalf}})[0]);
  b.graph.add_output("integer", node(b.graph, "Cast", {y}, {{"to", DataType::kInt32}})[0]);
  b.check(node(b.graph, "Mul", {k, k})[0]);
}

TEST_CASE("values are rounded to the types between operators") {
  ElementwiseBuilder b(4);
  const ValueId x = b.input(DataType::kFloat, {50}, -3e4, 3e4);
  const ValueId half = node(b.graph, "Cast", {x}, {{"to", DataType::kHalf}})[0];
  b.graph.add_output("half", node(b.graph, "Cast", {half}, {{"to", DataType::kFloat}})[0]);
  const ValueId byte = node(b.graph, "Cast", {b.input(DataType::kInt32, {50}, 0, 200)}, {{"to", DataType::kUint8}})[0];
  const ValueId sum = node(b.graph, "Add", {byte, byte})[0];
  b.graph.add_output("byte", node(b.graph, "Cast", {sum}, {{"to", DataType::kInt64}})[0]);
  // A product must not treat a cast as a view.
  const ValueId m = b.input(DataType::kHalf, {4, 3});
  b.check(node(b.graph, "MatMul",
               {b.input(DataType::kFloat, {2, 4}), node(b.graph, "Cast", {m}, {{"to", DataType::kFloat}})[0]})[0]);
}

TEST_CASE("several threads give what one gives") {
  std::mt19937 random(2);
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, indices({7, 64, 100})});
  const ValueId t = node(graph, "Transpose", {node(graph, "Tanh", {x})[0]}, {{"perm", indices({0, 2, 1})}})[0];
  graph.add_output("s", node(graph, "Softmax", {t}, {{"axis", Index(2)}})[0]);
  graph.add_output("m", node(graph, "ReduceMean", {x}, {{"axes", indices({1})}})[0]);
  const Tensor input = random_tensor(random, DataType::kFloat, {7, 64, 100});
  SessionOptions options;
  const std::vector<Tensor> one = cpu_backend().prepare(graph, options)->run({&input, 1});
  options.threads = 3;
  const std::vector<Tensor> three = cpu_backend().prepare(graph, options)->run({&input, 1});
  CHECK(one[0] == three[0]);
  CHECK(one[1] == three[1]);
}

TEST_CASE("empty tensors") {
  ElementwiseBuilder b(1);
  const ValueId x = b.input(DataType::kFloat, {2, 0, 3});
  b.graph.add_output("sum", node(b.graph, "ReduceSum", {x}, {{"axes", indices({1})}})[0]);
  b.check(node(b.graph, "Relu", {x})[0]);
}
