// Products and convolutions with what ONNX Runtime computes in the same kernel, and pools with channels last.
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

}  // namespace

void register_contrib_product(ContribOperators& c) {
  c.add("FusedMatMul", fused_matmul);
  c.add("TransposeMatMul", fused_matmul);
  c.add("FusedMatMulActivation", fused_matmul_activation);
  c.add("FusedGemm", fused_gemm);
  c.add("GemmFastGelu", gemm_fast_gelu);
  c.add("FusedConv", fused_conv);
  c.add("NhwcMaxPool", nhwc_max_pool);
  c.add("CDist", cdist);
  c.add("GatherND", as_in_onnx("GatherND", 12));
  c.add("Trilu", as_in_onnx("Trilu", 14));
  c.add("Range", as_in_onnx("Range", 11));
}

}  // namespace rewright::operators
