// Operators on integers of 8 bits with a scale and a zero point, each as the operator on real numbers between a
// DequantizeLinear and a QuantizeLinear; products of such integers with real results.
#include <functional>
#include <utility>

#include "operators/contrib/contrib.h"
#include "operators/contrib/node_view.h"
#include "operators/integer_products.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

// Input i, with its scale and zero point behind it, as real numbers.
ValueId real_input(ContribNode& n, std::size_t i) {
  std::vector<ValueId> inputs{n.input(i), n.input(i + 1)};
  if (n.has(i + 2)) inputs.push_back(n.input(i + 2));
  return n.b.add("DequantizeLinear", inputs);
}

// Real numbers as integers of this type, with the scale in input i and the zero point behind it.
ValueId integers_of(ContribNode& n, ValueId v, std::size_t i, DataType type) {
  if (n.has(i + 1) && n.type(i + 1) == type) return n.b.add("QuantizeLinear", {v, n.input(i), n.input(i + 1)});
  std::vector<ValueId> inputs{v, n.input(i)};
  if (n.has(i + 1)) inputs.push_back(n.input(i + 1));
  return n.b.add("QuantizeLinear", inputs, {{"output_dtype", type}});  // opset 21 has this attribute
}

// x, its scale and zero point, those of y: y is a function of x.
using RealFunction = std::function<std::optional<ValueId>(ContribNode& n, ValueId x, std::string& reason)>;
ContribGraph unary(RealFunction f) {
  return [f = std::move(f)](ContribNode& n, std::string& reason) -> Results {
    const auto y = f(n, real_input(n, 0), reason);
    if (!y) return std::nullopt;
    return n.results({integers_of(n, *y, 3, n.type(0))});
  };
}

// a and b, each with scale and zero point, and those of the result.
ContribGraph binary(const char* op) {
  return [op](ContribNode& n, std::string&) -> Results {
    const ValueId y = n.b.add(op, {real_input(n, 0), real_input(n, 3)});
    return n.results({integers_of(n, y, 6, n.type(0))});
  };
}

std::optional<ValueId> softmax(ContribNode& n, ValueId x, std::string&) {
  const bool is_flat = n.source.integer("opset", 13) < 13;
  return n.b.add("Softmax", {x}, {{"axis", Index(n.source.integer("axis", -1))}, {"flatten", is_flat}});
}

std::optional<ValueId> leaky_relu(ContribNode& n, ValueId x, std::string&) {
  return n.b.add("LeakyRelu", {x}, {{"alpha", Real(n.source.real("alpha", 0.01f))}});
}

std::optional<ValueId> mean(ContribNode& n, ValueId x, std::string&) {
  Indices axes;
  for (const std::int64_t axis : n.source.integers("axes")) axes.emplace_back(axis);
  return n.b.add("ReduceMean", {x}, {{"axes", axes}, {"keepdims", n.source.integer("keepdims", 1) != 0}});
}

// A pool by ONNX's own mapping, with channels last if the node says so.
RealFunction pool(const char* type, int opset) {
  return [type, opset](ContribNode& n, ValueId x, std::string& reason) -> std::optional<ValueId> {
    const bool is_last = n.source.integer("channels_last", 0) != 0;
    NodeView node(n.source, type, opset, {static_cast<OnnxValue>(is_last ? n.channels_first(x) : x)});
    const auto y = node.import(reason);
    if (!y) return std::nullopt;
    const auto v = static_cast<ValueId>(y->at(0));
    return is_last ? n.channels_last(v) : v;
  };
}

// The result's scale and zero point, then each part with its own.
Results concat(ContribNode& n, std::string&) {
  std::vector<ValueId> parts;
  for (std::size_t i = 2; i + 2 < n.source.input_count(); i += 3) parts.push_back(real_input(n, i));
  n.require(!parts.empty(), "it has no parts");
  const std::int64_t axis = n.source.integer("axis", 0);
  const ValueId y = n.b.add("Concat", parts, {{"axis", Index(axis)}});
  return n.results({integers_of(n, y, 0, n.type(1))});
}

// As in ONNX; with channels last, those of x and y are. The weight has its channels where ONNX has them.
Results convolution(ContribNode& n, std::string& reason) {
  const bool is_last = n.source.integer("channels_last", 0) != 0;
  std::vector<OnnxValue> inputs;
  for (std::size_t i = 0; i < n.source.input_count(); ++i) inputs.push_back(n.source.input(i));
  if (is_last) inputs.at(0) = static_cast<OnnxValue>(n.channels_first(n.input(0)));
  NodeView node(n.source, "QLinearConv", 10, std::move(inputs));
  const auto y = node.import(reason);
  if (!y) return std::nullopt;
  const auto v = static_cast<ValueId>(y->at(0));
  return n.results({is_last ? n.channels_last(v) : v});
}

// condition ? x : y.
Results where(ContribNode& n, std::string&) {
  const ValueId y = n.b.add("Where", {n.input(0), real_input(n, 1), real_input(n, 4)});
  return n.results({integers_of(n, y, 7, n.type(1))});
}

// QuantizeLinear and DequantizeLinear: per tensor unless the scale has more than one element, along axis 1 by default.
ContribGraph linear(const char* op) {
  return [op](ContribNode& n, std::string&) -> Results {
    std::vector<ValueId> inputs{n.input(0), n.input(1)};
    if (n.has(2)) inputs.push_back(n.input(2));
    return n.results({n.b.add(op, inputs, {{"axis", Index(n.source.integer("axis", 1))}})});
  };
}

// alpha a_scale b_scale (A B + C), with C as int32; quantized again where y's scale is given.
Results qgemm(ContribNode& n, std::string&) {
  const auto operand = [&](std::size_t i, const char* trans) {
    return n.source.integer(trans, 0) != 0 ? n.swapped(n.input(i), 0, 1) : n.input(i);
  };
  n.require_rank(0, 2), n.require_rank(3, 2);
  ValueId sum = integer_product(n.b, operand(0, "transA"), operand(3, "transB"), n.optional_input(2), n.optional_input(5));
  sum = n.plus(sum, n.optional_input(6));
  const DataType type = n.type(1);
  const ValueId factor = n.b.add("Mul", {n.input(1), n.input(4)});
  const ValueId y = n.scaled(n.b.add("Mul", {n.b.cast(sum, type), factor}), n.source.real("alpha", 1));
  if (!n.has(7)) return n.results({y});
  return n.results({integers_of(n, y, 7, n.has(8) ? n.type(8) : DataType::kUint8)});
}

Results matmul_integer_to_float(ContribNode& n, std::string&) {
  const ValueId y =
      scaled_integer_product(n.b, n.input(0), n.input(1), n.input(2), n.input(3), n.optional_input(4), n.optional_input(5));
  return n.results({n.plus(y, n.optional_input(6))});
}

// A is quantized by its own range first.
Results dynamic_quantize_matmul(ContribNode& n, std::string&) {
  const ValueId y = dynamic_integer_product(n.b, n.input(0), n.input(1), n.input(2), n.optional_input(3));
  return n.results({n.plus(y, n.optional_input(4))});
}

// (A - its zero point) (B - its zero point), by elements, as int32.
Results mul_integer(ContribNode& n, std::string&) {
  const auto centered = [&](std::size_t i) {
    n.require(is_integer(n.type(i)) && byte_size(n.type(i)) == 1, "its operands must be integers of 8 bits");
    const ValueId wide = n.b.cast(n.input(i), DataType::kInt32);
    return n.has(i + 1) ? n.b.add("Sub", {wide, n.b.cast(n.input(i + 1), DataType::kInt32)}) : wide;
  };
  return n.results({n.b.add("Mul", {centered(0), centered(2)})});
}

// The sum over some axes, in 32 bits; over all axes if none are named.
Results reduce_sum_integer(ContribNode& n, std::string&) {
  n.require(is_integer(n.type(0)) && byte_size(n.type(0)) == 1, "its elements must be integers of 8 bits");
  const std::vector<std::int64_t> given = n.source.integers("axes");
  Indices axes(given.begin(), given.end());
  for (std::size_t a = 0; given.empty() && a < n.shape(0).size(); ++a) axes.emplace_back(a);
  const ValueId sum = n.b.add("ReduceSum", {n.b.cast(n.input(0), DataType::kInt64)},
                              {{"axes", axes}, {"keepdims", n.source.integer("keepdims", 1) != 0}});
  return n.results({n.b.cast(sum, n.type(0) == DataType::kUint8 ? DataType::kUint32 : DataType::kInt32)});
}

// A product of integers of 16 bits, in 32.
Results matmul_integer_16(ContribNode& n, std::string&) {
  for (const std::size_t i : {0, 1})
    n.require(n.type(i) == DataType::kInt16 || n.type(i) == DataType::kUint16, "its operands must be integers of 16 bits");
  const bool is_signed = n.type(0) == DataType::kInt16 || n.type(1) == DataType::kInt16;
  const DataType wide = is_signed ? DataType::kInt32 : DataType::kUint32;
  return n.results({n.b.add("MatMul", {n.b.cast(n.input(0), wide), n.b.cast(n.input(1), wide)})});
}

}  // namespace

void register_contrib_quantized(ContribOperators& c) {
  c.add("MulInteger", mul_integer);
  c.add("ReduceSumInteger", reduce_sum_integer);
  c.add("MatMulInteger16", matmul_integer_16);
  c.add("QLinearAdd", binary("Add"));
  c.add("QLinearMul", binary("Mul"));
  c.add("QLinearSigmoid", unary([](ContribNode& n, ValueId x, std::string&) { return n.b.add("Sigmoid", {x}); }));
  c.add("QLinearLeakyRelu", unary(leaky_relu));
  c.add("QLinearSoftmax", unary(softmax));
  c.add("QLinearReduceMean", unary(mean));
  c.add("QLinearAveragePool", unary(pool("AveragePool", 11)));
  c.add("QLinearGlobalAveragePool", unary(pool("GlobalAveragePool", 1)));
  c.add("QLinearConcat", concat);
  c.add("QLinearConv", convolution);
  c.add("QLinearWhere", where);
  c.add("QuantizeLinear", linear("QuantizeLinear"));
  c.add("DequantizeLinear", linear("DequantizeLinear"));
  c.add("QGemm", qgemm);
  c.add("MatMulIntegerToFloat", matmul_integer_to_float);
  c.add("DynamicQuantizeMatMul", dynamic_quantize_matmul);
}

}  // namespace rewright::operators
