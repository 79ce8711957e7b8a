// Products and convolutions with what ONNX Runtime computes in the same kernel, convolutions with a state, and pools with
// channels last.
#include <utility>

#include "operators/contrib/contrib.h"
#include "operators/contrib/node_view.h"
#include "operators/procedures/learned/support_vectors.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

// An operand of FusedMatMul: with transBatch its first axis comes before its last; with trans its last two are exchanged.
// Vectors stay as they are.
ValueId operand(ContribNode& n, std::size_t i, const char* trans, const char* trans_batch) {
  ValueId v = n.input(i);
  const std::size_t rank = n.b.shape_of(v).size();
  if (rank >= 2 && n.source.integer(trans_batch, 0) != 0) {
    Indices perm;
    for (std::size_t a = 1; a + 1 < rank; ++a) perm.emplace_back(a);
    perm.emplace_back(0);
    perm.emplace_back(rank - 1);
    v = n.b.transposed(v, perm);
  }
  return rank >= 2 && n.source.integer(trans, 0) != 0 ? n.swapped(v, rank - 2, rank - 1) : v;
}

// alpha A B.
Results fused_matmul(ContribNode& n, std::string&) {
  const ValueId a = operand(n, 0, "transA", "transBatchA"), c = operand(n, 1, "transB", "transBatchB");
  return n.results({n.scaled(n.b.add("MatMul", {a, c}), n.source.real("alpha", 1))});
}

// The activation's parameters, as FusedGemm and FusedMatMulActivation name them.
std::vector<double> named_parameters(const OnnxSource& source) {
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (source.has(name)) parameters.push_back(source.real(name, 0));
  return parameters;
}

Results activated(ContribNode& n, ValueId v, const std::vector<double>& parameters, std::string& reason) {
  const std::string name = n.source.text("activation", "");
  const auto y = n.activation(name, v, parameters);
  if (!y) {
    reason = "activation " + name + " is not known";
    return std::nullopt;
  }
  return n.results({*y});
}

Results fused_matmul_activation(ContribNode& n, std::string& reason) {
  const auto product = fused_matmul(n, reason);
  return activated(n, static_cast<ValueId>(product->at(0)), named_parameters(n.source), reason);
}

Results fused_gemm(ContribNode& n, std::string& reason) {
  NodeView gemm(n.source, "Gemm", 13, {n.source.input(0), n.source.input(1), n.source.input(2)});
  const auto y = gemm.import(reason);
  if (!y) return std::nullopt;
  return activated(n, static_cast<ValueId>(y->at(0)), named_parameters(n.source), reason);
}

// Gelu, by the hyperbolic tangent, of X W + bias.
Results gemm_fast_gelu(ContribNode& n, std::string&) {
  const ValueId x = n.plus(n.b.add("MatMul", {n.input(0), n.input(1)}), n.optional_input(2));
  return n.results({n.b.add("Gelu", {x}, {{"approximate", std::string("tanh")}})});
}

// The activation of conv(X, W) + B + Z.
Results fused_conv(ContribNode& n, std::string& reason) {
  NodeView conv(n.source, "Conv", 11, {n.source.input(0), n.source.input(1), n.source.input(2)});
  const auto y = conv.import(reason);
  if (!y) return std::nullopt;
  return activated(n, n.plus(static_cast<ValueId>(y->at(0)), n.optional_input(3)), n.source.reals("activation_params"), reason);
}

// As above, with channels last in X, Z and the result; W has ONNX's order.
Results nhwc_conv(ContribNode& n, std::string& reason) {
  NodeView conv(n.source, "Conv", 11,
                {static_cast<OnnxValue>(n.channels_first(n.input(0))), n.source.input(1), n.source.input(2)});
  const auto y = conv.import(reason);
  if (!y) return std::nullopt;
  const ValueId last = n.channels_last(static_cast<ValueId>(y->at(0)));
  if (n.has(3)) {
    n.require_rank(3, n.shape(0).size());
    for (std::size_t a = 0; a < n.shape(0).size(); ++a)
      n.require_equal(n.shape(3)[a], n.b.shape_of(last)[a], "axis " + std::to_string(a) + " of its input Z");
  }
  const ValueId sum = n.plus(last, n.optional_input(3));
  return activated(n, sum, n.source.reals("activation_params"), reason);
}

// ConvTranspose with its padding as an input. X, W, padding, bias.
Results conv_transpose_with_pads(ContribNode& n, std::string& reason) {
  NodeView conv(n.source, "ConvTranspose", 11, {n.source.input(0), n.source.input(1), n.source.input(3)});
  if (n.has(2)) {
    auto pads = n.known_integers(2, "its padding", reason);
    if (!pads) return std::nullopt;
    conv.set("pads", std::move(*pads));
  }
  return conv.import(reason);
}

Results nhwc_max_pool(ContribNode& n, std::string& reason) {
  NodeView pool(n.source, "MaxPool", 12, {static_cast<OnnxValue>(n.channels_first(n.input(0)))});
  const auto y = pool.import(reason);
  if (!y) return std::nullopt;
  return n.results({n.channels_last(static_cast<ValueId>(y->at(0)))});
}

// The distance of each row of A from each row of B, or its square.
Results cdist(ContribNode& n, std::string& reason) {
  const std::string metric = n.source.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") {
    reason = "its metric " + metric + " has no graph";
    return std::nullopt;
  }
  n.require_rank(0, 2), n.require_rank(1, 2);
  const Indices a = n.shape(0), b = n.shape(1);
  n.require_equal(a[1], b[1], "the number of columns of its inputs");
  const ValueId squares = squared_distances(n.b, n.input(0), n.input(1));
  return n.results({metric == "euclidean" ? n.b.add("Sqrt", {squares}) : squares});
}

// An operator that ONNX took over without a change.
ContribGraph as_in_onnx(std::string type, int opset) {
  return [type, opset](ContribNode& n, std::string& reason) -> Results {
    std::vector<OnnxValue> inputs;
    for (std::size_t i = 0; i < n.source.input_count(); ++i) inputs.push_back(n.source.input(i));
    NodeView node(n.source, type, opset, std::move(inputs));
    return node.import(reason);
  };
}

// [batch, positions, channels...] as [batch, channels, positions].
ValueId sequence_last(ContribNode& n, ValueId v, const Index& channels) {
  const Indices shape = n.b.shape_of(v);
  return n.swapped(n.b.reshaped(v, {shape[0], shape[1], channels}), 1, 2);
}

// activation(sum(j) w[c, 0, j] x[n, c, t - (k - 1 - j) dilation] + bias[c]), where the state stands before x; and the new
// state.
Results causal_convolution(ContribNode& n, std::string& reason) {
  if (n.source.integer("ndim", 1) != 1) {
    reason = "how several axes are padded is not documented, and no processor has a kernel";
    return std::nullopt;
  }
  if (n.source.integer("state_window", 0) != 0) {
    reason = "states of several positions are not known";
    return std::nullopt;
  }
  const bool channels_last = n.source.integer("channels_last", 0) != 0;
  const std::int64_t dilation = n.source.integer("dilation", 1);
  ContribNode::require(dilation > 0, "dilation is " + std::to_string(dilation) + ", must be positive");
  const std::string activation = n.source.text("activation", "none");
  ContribNode::require(activation == "none" || activation == "silu" || activation == "swish",
                       "activation is " + activation + ", must be silu, swish or none");

  n.require_rank(1, 3);
  const Indices x = n.shape(0), w = n.shape(1);
  ContribNode::require(channels_last ? x.size() >= 3 : x.size() == 3, "its input has rank " + std::to_string(x.size()));
  const std::size_t axis = channels_last ? 1 : 2;
  const Index channels = w[0], length = x[axis], kept = (w[2] - 1) * dilation;
  Index given = 1;
  for (std::size_t a = 1; a < x.size(); ++a)
    if (a != axis) given = given * x[a];
  ContribNode::require_equal(given, channels, "the number of channels");
  ContribNode::require_equal(w[1], 1, "the second axis of its weight");
  ContribNode::require(!w[2].is_constant() || w[2].value() > 0, "its weight has no elements");

  Indices state = x;
  state[axis] = kept;
  ValueId all;
  if (n.has(3)) {
    const Indices past = n.shape(3);
    ContribNode::require(past.size() == state.size(),
                         "its state has rank " + std::to_string(past.size()) + ", must be " + std::to_string(state.size()));
    for (std::size_t a = 0; a < state.size(); ++a)
      ContribNode::require_equal(past[a], state[a], "axis " + std::to_string(a) + " of its state");
    all = n.joined({n.input(3), n.input(0)}, axis);
  } else {
    Indices before(x.size(), 0);
    before[axis] = kept;
    all = n.b.add("Pad", {n.input(0)}, {{"pads_begin", before}});
  }

  std::vector<ValueId> operands{channels_last ? sequence_last(n, all, channels) : all, n.input(1)};
  if (n.has(2)) {
    n.require_rank(2, 1);
    ContribNode::require_equal(n.shape(2)[0], channels, "the length of its bias");
    operands.push_back(n.input(2));
  }
  ValueId y = n.b.add("Conv", operands, {{"dilations", Indices{dilation}}, {"group", channels}});
  if (activation != "none") y = n.b.add("Swish", {y});
  if (channels_last) y = n.b.reshaped(n.swapped(y, 1, 2), x);
  return n.results({y, n.entries(all, axis, length, kept)});
}

}  // namespace

void register_contrib_product(ContribOperators& c) {
  c.add("FusedMatMul", fused_matmul);
  c.add("TransposeMatMul", fused_matmul);
  c.add("FusedMatMulActivation", fused_matmul_activation);
  c.add("FusedGemm", fused_gemm);
  c.add("GemmFastGelu", gemm_fast_gelu);
  c.add("FusedConv", fused_conv);
  c.add("NhwcConv", nhwc_conv);
  c.add("NhwcFusedConv", nhwc_conv);
  c.add("ConvTransposeWithDynamicPads", conv_transpose_with_pads);
  c.add("CausalConvWithState", causal_convolution);
  c.add("NhwcMaxPool", nhwc_max_pool);
  c.add("CDist", cdist);
  c.add("GatherND", as_in_onnx("GatherND", 12));
  c.add("GridSample", as_in_onnx("GridSample", 16));
  c.add("Pad", as_in_onnx("Pad", 13));
  c.add("Trilu", as_in_onnx("Trilu", 14));
  c.add("Range", as_in_onnx("Range", 11));
}

}  // namespace rewright::operators
