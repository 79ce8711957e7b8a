// Pooling, and normalizations of rows.
#include "runtime/cuda/plugin/graph_operation.h"

namespace rewright::cuda {

OperationGraph operation_graph(const PoolingShape& p) {
  OperationGraph graph;
  const auto rank = static_cast<std::int64_t>(p.x.size()) - 2;
  const bool largest = p.mode == PoolingShape::Mode::kMaximum;
  Descriptor window(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  window.set_one(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE,
                 largest                               ? CUDNN_RESAMPLE_MAXPOOL
                 : p.mode == PoolingShape::Mode::kMean ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                                                       : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING);
  window.set_one(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  window.set_one(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
  window.set_one(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, largest ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD);
  window.set_number(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, rank);
  window.set_numbers(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, p.kernel);
  window.set_numbers(CUDNN_ATTR_RESAMPLE_STRIDES, p.strides);
  window.set_numbers(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, p.pads_begin);
  window.set_numbers(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, p.pads_end);
  window.finalize();
  Descriptor o(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  o.set_descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, graph.input(p.x, packed(p.x, p.channels_last), p.type));
  o.set_descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, graph.output(p.y, packed(p.y, p.channels_last), p.type));
  o.set_descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, graph.keep(std::move(window)));
  o.finalize();
  graph.add(std::move(o));
  return graph;
}

OperationGraph operation_graph(const NormalizationShape& n) {
  OperationGraph graph;
  const std::vector<std::int64_t> rows{n.rows, n.columns, 1, 1}, row{1, n.columns, 1, 1};
  const auto input = [&](const std::vector<std::int64_t>& sizes) -> const Descriptor& {
    return graph.input(sizes, packed(sizes), n.type);
  };
  Descriptor o(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  o.set_one(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, n.centered ? CUDNN_LAYER_NORM : CUDNN_RMS_NORM);
  o.set_one(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, CUDNN_NORM_FWD_INFERENCE);
  o.set_descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, input(rows));
  o.set_descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, input(row));
  if (n.centered) o.set_descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, input(row));
  o.set_descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, graph.number(static_cast<float>(n.epsilon), 4));
  o.set_descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, graph.output(rows, packed(rows), n.type));
  o.finalize();
  graph.add(std::move(o));
  return graph;
}

}  // namespace rewright::cuda
