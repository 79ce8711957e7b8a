// Attention as a graph for cuDNN's fused engines: two products with the operations of a softmax between them.
#include <limits>

#include "runtime/cuda/plugin/graph_operation.h"

namespace rewright::cuda {

OperationGraph operation_graph(const AttentionShape& a) {
  OperationGraph graph;
  const auto sizes = [&](std::int64_t rows, std::int64_t columns) {
    return std::vector<std::int64_t>{a.batch, a.heads, rows, columns};
  };
  const Descriptor& q = graph.input(sizes(a.queries, a.depth), a.q, a.type);
  const Descriptor& k = graph.input(sizes(a.depth, a.keys), a.k, a.type);
  const Descriptor& v = graph.input(sizes(a.keys, a.width), a.v, a.type);
  const Descriptor* const mask = a.mask.empty() ? nullptr : &graph.input(a.mask, packed(a.mask), a.mask_type);
  const Descriptor& y = graph.output(sizes(a.queries, a.width), a.y, a.type);
  const std::vector<std::int64_t> scores = sizes(a.queries, a.keys), rows = sizes(a.queries, 1);

  const auto multiply = [&](const Descriptor& left, const Descriptor& right, const Descriptor& to) {
    Descriptor kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    kind.set_one(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    kind.finalize();
    Descriptor o(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    o.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, left);
    o.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, right);
    o.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, to);
    o.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, graph.keep(std::move(kind)));
    o.finalize();
    graph.add(std::move(o));
  };
  const auto pointwise = [&](cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b) -> const Descriptor& {
    const Descriptor& to = graph.between(scores);
    graph.pointwise({mode}, x, b, nullptr, to);
    return to;
  };
  const auto reduce = [&](cudnnReduceTensorOp_t what, const Descriptor& x) -> const Descriptor& {
    Descriptor kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    kind.set_one(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, what);
    kind.set_one(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    kind.finalize();
    const Descriptor& to = graph.between(rows);
    Descriptor o(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    o.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    o.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to);
    o.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, graph.keep(std::move(kind)));
    o.finalize();
    graph.add(std::move(o));
    return to;
  };

  const Descriptor* s = &graph.between(scores);
  multiply(q, k, *s);
  if (a.scale != 1) s = &pointwise(CUDNN_POINTWISE_MUL, *s, &graph.number(static_cast<float>(a.scale), 4));
  if (mask != nullptr) s = &pointwise(CUDNN_POINTWISE_ADD, *s, mask);
  if (a.causal) {
    const auto number_along = [&](std::int64_t axis) -> const Descriptor& {
      const Descriptor& to = graph.between(scores, CUDNN_DATA_INT32);
      graph.pointwise({CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis}, *s, nullptr, nullptr, to);
      return to;
    };
    const Descriptor& row = number_along(2);
    const Descriptor& column = number_along(3);
    const Descriptor& seen = graph.between(scores, CUDNN_DATA_BOOLEAN);
    graph.pointwise({CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN}, row, &column, nullptr, seen);
    const Descriptor& to = graph.between(scores);
    graph.pointwise({CUDNN_POINTWISE_BINARY_SELECT}, *s, &graph.number(-std::numeric_limits<float>::infinity(), 4), &seen, to);
    s = &to;
  }
  const Descriptor& largest = reduce(CUDNN_REDUCE_TENSOR_MAX, *s);
  const Descriptor& below = pointwise(CUDNN_POINTWISE_SUB, *s, &largest);
  const Descriptor& powers = pointwise(CUDNN_POINTWISE_EXP, below, nullptr);
  const Descriptor& total = reduce(CUDNN_REDUCE_TENSOR_ADD, powers);
  // cuDNN requires both factors of the second product to have one type.
  const Descriptor& weights = graph.between(scores, cudnn_type(a.type));
  graph.pointwise({CUDNN_POINTWISE_DIV}, powers, &total, nullptr, weights);
  multiply(weights, v, y);
  return graph;
}

}  // namespace rewright::cuda
