// Operators by themselves whose elements are found or compared by their positions, or are roots: against the interpreter.
#include <limits>

#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using KernelBuilder = rewright::testing::GraphBuilder;

namespace {

// Values that functions of reals treat in a way of their own.
void put_special(KernelBuilder& b, Tensor& tensor) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  auto elements = tensor.mutable_data<float>();
  for (const float special : {nan, inf, -inf, 0.0f, -0.0f, 1e-41f, -3.0f})
    elements[static_cast<std::size_t>(b.pick(0, static_cast<std::int64_t>(elements.size()) - 1))] = special;
}

}  // namespace

TEST_CASE("pads of all modes and types are the elements of the tensor") {
  const DataType types[]{DataType::kFloat, DataType::kUint8, DataType::kHalf, DataType::kInt64, DataType::kDouble};
  const std::string modes[]{"reflect", "edge", "wrap", "constant"};
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const auto rank = static_cast<std::size_t>(b.pick(1, 4));
    Sizes sizes;
    Indices before, behind;
    for (std::size_t a = 0; a < rank; ++a) {
      sizes.push_back(a + 1 == rank && seed % 3 != 0 ? b.pick(20, 90) : b.pick(1, 12));
      const bool touched = b.pick(0, 2) > 0;
      // Also more than the size, and fewer than none.
      before.emplace_back(touched ? b.pick(-sizes[a] / 3, 2 * sizes[a]) : 0);
      behind.emplace_back(touched ? b.pick(-sizes[a] / 3, sizes[a]) : 0);
    }
    const ValueId x = b.input(types[seed % 5], sizes);
    ValueId y = node(b.graph, "Pad", {x}, {{"pads_begin", before}, {"pads_end", behind}, {"mode", modes[seed % 4]}})[0];
    if (seed % 5 == 0 && b.pick(0, 1) == 0) y = node(b.graph, "Relu", {y})[0];
    b.check(y);
  }
}

TEST_CASE("pads by reflection of rows are runs of memory, on the last axis, before it and on both") {
  for (const auto& [rows, columns] : {std::pair(0, 3), {3, 0}, {2, 2}}) {
    KernelBuilder b(static_cast<unsigned>(10 * rows + columns));
    const Indices pads{0, rows, columns};
    const ValueId x = b.input({300, 20, 70});
    b.check(node(b.graph, "Pad", {x}, {{"pads_begin", pads}, {"pads_end", pads}, {"mode", std::string("reflect")}})[0]);
    SessionOptions options;
    options.profile = true;
    const auto session = cpu_backend().prepare(b.graph, options);
    session->run(b.inputs);
    REQUIRE(session->profile().size() == 1);
    CHECK(session->profile()[0].loops.empty());  // no generated code
  }
}

TEST_CASE("one element of each row is hot, wherever the axis is, and none for positions outside") {
  using Limits = std::numeric_limits<std::int64_t>;
  const DataType types[]{DataType::kFloat, DataType::kInt64, DataType::kUint8, DataType::kHalf, DataType::kBool};
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t depth = seed % 2 ? b.pick(1, 12) : b.pick(13, 300), rank = b.pick(0, 3);
    Sizes sizes;
    for (std::int64_t a = 0; a < rank; ++a) sizes.push_back(b.pick(1, seed % 2 ? 12 : 5));
    std::vector<std::int64_t> hot;
    for (std::int64_t n = 0; n < element_count(sizes); ++n) {
      const std::int64_t far[]{Limits::min(), Limits::max(), depth, -depth - 1, -depth, depth - 1};
      hot.push_back(b.pick(0, 9) == 0 ? far[b.pick(0, 5)] : b.pick(-depth, depth - 1));
    }
    const bool short_indices = b.pick(0, 1) == 0;
    for (std::int64_t& h : hot)
      if (short_indices) h = std::clamp<std::int64_t>(h, INT32_MIN, INT32_MAX);
    const DataType of_indices = short_indices ? DataType::kInt32 : DataType::kInt64;
    b.inputs.push_back(Tensor::from_integers(of_indices, sizes, hot));
    const ValueId indices = b.graph.add_input("hot", {of_indices, to_indices(sizes)});
    const ValueId values = b.input(types[seed % 5], {2}, 0, 5);
    const std::int64_t axis = seed % 3 == 0 ? -1 : b.pick(-rank - 1, rank);
    b.check(node(b.graph, "OneHot", {indices, values}, {{"axis", Index(axis)}, {"depth", Index(depth)}})[0]);
  }
}

TEST_CASE("norms of windows, with all exponents and types") {
  const DataType types[]{DataType::kFloat, DataType::kFloat, DataType::kDouble, DataType::kHalf};
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::size_t rank = 1 + seed % 3;
    Sizes x{b.pick(1, 2), b.pick(1, 9)};
    for (std::size_t a = 0; a < rank; ++a) x.push_back(b.pick(7, seed % 5 ? 12 : 40));
    const ValueId input = b.input(types[seed % 4], x);
    if (seed % 4 == 0 && b.pick(0, 1) == 0) put_special(b, b.inputs[0]);
    const std::vector<std::pair<std::string, AttributeValue>> attributes{
        {"kernel", b.list(rank, 1, 4)},     {"strides", b.list(rank, 1, 3)},  {"dilations", b.list(rank, 1, 2)},
        {"pads_begin", b.list(rank, 0, 2)}, {"pads_end", b.list(rank, 0, 2)}, {"ceil_mode", b.pick(0, 1) == 1},
        {"p", Index(b.pick(1, 3))}};
    b.check(node(b.graph, "LpPool", {input}, attributes)[0], seed % 4 == 3 ? 2e-3 : 5e-5);
  }
}

TEST_CASE("reals as integers and truth values of all widths, far outside of them too") {
  const DataType types[]{DataType::kInt8,   DataType::kUint8, DataType::kInt16, DataType::kUint16,
                         DataType::kUint32, DataType::kInt32, DataType::kInt64, DataType::kBool};
  for (unsigned seed = 0; seed < testing::instances(64); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const double most = seed % 3 == 0 ? 100 : seed % 3 == 1 ? 4e9 : 1e20;
    const DataType from = seed % 5 == 0 ? DataType::kDouble : DataType::kFloat;
    ValueId x = b.input(from, {b.pick(1, 40), b.pick(1, 60)}, -most, most);
    if (from == DataType::kFloat && seed % 2 == 0) put_special(b, b.inputs[0]);
    if (b.pick(0, 1) == 0) x = node(b.graph, "Abs", {x})[0];
    if (b.pick(0, 2) == 0) x = node(b.graph, "Transpose", {x}, {{"perm", Indices{1, 0}}})[0];
    b.check(node(b.graph, "Cast", {x}, {{"to", types[seed % 8]}})[0]);
  }
}

TEST_CASE("integers are rounded by reals between nodes, also where they are only moved, and not within one") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const DataType type = seed % 2 == 0 ? DataType::kInt32 : DataType::kInt64;
    ValueId x = b.input(type, {b.pick(1, 9), b.pick(16, 80)});
    const std::vector<std::int64_t> sizes = b.inputs[0].sizes();
    std::vector<std::int64_t> elements;
    for (std::int64_t k = 0; k < element_count(sizes); ++k) elements.push_back((1 << 24) + k);
    b.inputs[0] = Tensor::from_integers(type, sizes, elements);
    const auto moved = [&](ValueId v) {
      if (b.pick(0, 2) > 0) return v;
      return node(b.graph, "Transpose", {v}, {{"perm", Indices{1, 0}}})[0];
    };
    if (type == DataType::kInt32 && b.pick(0, 2) == 0) {
      x = node(b.graph, "Pow", {x, b.graph.add_constant(Tensor::scalar(DataType::kFloat, 1))})[0];
    } else {
      x = node(b.graph, "Cast", {moved(x)}, {{"to", DataType::kFloat}})[0];
      x = moved(node(b.graph, "Cast", {moved(x)}, {{"to", type}})[0]);
    }
    b.graph.add_output("y", x);
    const Tensor expected = interpret(b.graph, b.inputs)[0];
    for (const Isa isa : testing::tested_isas()) {
      SessionOptions options;
      options.max_isa = isa;
      CHECK(cpu_backend().prepare(b.graph, options)->run(b.inputs)[0] == expected);
    }
  }
}

TEST_CASE("powers of all numbers with exponents that are multiples of a quarter") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const ValueId x = b.input(DataType::kFloat, {b.pick(1, 9), b.pick(8, 300)}, seed % 2 ? 0 : -2, 1e3);
    put_special(b, b.inputs[0]);
    const std::vector<double> exponent{static_cast<double>(b.pick(-8, 12)) / 4};
    const ValueId power = b.graph.add_constant(Tensor::from_reals(DataType::kFloat, {}, exponent));
    b.check(node(b.graph, "Pow", {x, power})[0], 1e-6);
  }
}

TEST_CASE("normalization by neighbouring channels, also where these are few") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    Sizes sizes{b.pick(1, 3), b.pick(1, 24)};
    for (std::int64_t a = b.pick(0, 2); a > 0; --a) sizes.push_back(b.pick(1, 30));
    const ValueId x = b.input(seed % 4 == 3 ? DataType::kDouble : DataType::kFloat, sizes);
    b.check(node(b.graph, "LRN", {x},
                 {{"size", Index(b.pick(1, 9))},
                  {"alpha", Real(static_cast<double>(b.pick(1, 40)) / 8)},
                  {"beta", Real(static_cast<double>(b.pick(1, 16)) / 8)},
                  {"bias", Real(static_cast<double>(b.pick(1, 4)))}})[0],
            1e-5);
  }
}

TEST_CASE("dequantized bytes, by number, axis and block, and what stands behind") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const DataType type = seed % 2 ? DataType::kInt8 : DataType::kUint8;
    Sizes sizes;
    for (std::int64_t a = b.pick(1, 4); a > 0; --a) sizes.push_back(b.pick(1, 40));
    const auto axis = static_cast<std::size_t>(b.pick(0, std::ssize(sizes) - 1));
    const bool is_number = b.pick(0, 2) == 0;
    const Sizes steps = is_number ? Sizes{} : Sizes{sizes[axis]};
    std::vector<double> zeros(static_cast<std::size_t>(element_count(steps)));
    for (double& zero : zeros) zero = static_cast<double>(b.pick(seed % 2 ? -128 : 0, seed % 2 ? 127 : 255));
    std::vector<ValueId> operands{b.input(type, sizes), b.constant(steps, 0.001, 0.1)};
    if (b.pick(0, 2) > 0) operands.push_back(b.graph.add_constant(Tensor::from_reals(type, steps, zeros)));
    ValueId y = node(b.graph, "DequantizeLinear", operands, {{"axis", Index(axis)}})[0];
    if (seed % 3 == 0) y = node(b.graph, "Relu", {y})[0];
    if (seed % 7 == 0) y = node(b.graph, "LeakyRelu", {y})[0];
    b.check(y, 1e-6);
  }
}

TEST_CASE("bytes that are divided by a number keep exact quotients") {
  KernelBuilder b(1);
  const ValueId x = node(b.graph, "Cast", {b.input(DataType::kUint8, {4096})}, {{"to", DataType::kFloat}})[0];
  const auto number = [&](double v) { return b.graph.add_constant(Tensor::from_reals(DataType::kFloat, {}, {{v}})); };
  b.check(node(b.graph, "Sub", {node(b.graph, "Div", {x, number(255)})[0], number(1)})[0], 0);
}

TEST_CASE("spans of rows that are constants, in all types") {
  const DataType types[]{DataType::kFloat, DataType::kUint8, DataType::kHalf, DataType::kInt64, DataType::kInt32};
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const ValueId x = b.input(types[seed % 5], {b.pick(1, 70), b.pick(1, 90)});
    const Index k = b.pick(-20, 20);
    ValueId y = node(b.graph, "Trilu", {x}, {{"k", k}, {"upper", b.pick(0, 1) == 1}})[0];
    b.check(y);
  }
}

TEST_CASE("elements that are NaN or infinite, of all reals") {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16, DataType::kFloat, DataType::kDouble})
    for (const std::int64_t size : {1, 45, 70000}) {
      KernelBuilder b(static_cast<unsigned>(size));
      Tensor special = rewright::testing::random_tensor(b.random, DataType::kFloat, {size});
      put_special(b, special);
      b.inputs.push_back(Tensor::from_reals(type, {size}, special.reals()));
      const ValueId x = b.graph.add_input("x", {type, to_indices(Sizes{size})});
      b.graph.add_output("some", node(b.graph, "IsInf", {x}, {{"detect_negative", false}})[0]);
      b.graph.add_output("infinite", node(b.graph, "IsInf", {x})[0]);
      b.check(node(b.graph, "IsNaN", {x})[0], 0);
    }
}
