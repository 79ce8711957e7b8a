#include "runtime/cpu/kernels/pool_shape.h"

#include <algorithm>

#include "runtime/planning/node_shapes.h"

namespace rewright::cpu {

PoolShape::Taps PoolShape::taps(std::size_t axis, std::int64_t position) const {
  const std::int64_t step = dilations[axis] + 1, size = x[axis + 2];
  const std::int64_t start = position * strides[axis] - pads_begin[axis];
  const std::int64_t skipped = start < 0 ? (-start + step - 1) / step : 0;
  const std::int64_t first = start + skipped * step;
  if (first >= size) return {0, 0};
  return {first, std::min(kernel[axis] - skipped, (size - first + step - 1) / step)};
}

std::optional<PoolShape> read_pool(const Planner& planner, const Node& node, bool average, bool indices) {
  if (!indices && node.outputs.size() > 1 && node.outputs[1] != kNoValue) return std::nullopt;
  const ValueInfo &x = planner.info(node.inputs[0]), &y = planner.info(node.outputs[0]);
  const auto pool = planning::read_pool_node(node, x.sizes, y.sizes);
  if (!pool) return std::nullopt;
  PoolShape s{pool->x,         pool->y,          pool->kernel,   pool->strides,
              pool->dilations, pool->pads_begin, pool->pads_end, dnnl::algorithm::pooling_max};
  if (average)
    s.algorithm =
        pool->counts_padding ? dnnl::algorithm::pooling_avg_include_padding : dnnl::algorithm::pooling_avg_exclude_padding;
  for (std::size_t a = 0; a < s.kernel.size(); ++a) {
    const std::int64_t extent = pool->extent(a), reach = pool->reach(a);
    if (s.pads_begin[a] < 0 || s.pads_end[a] < 0 || s.pads_begin[a] >= extent) return std::nullopt;
    // If windows round up, the last one may extend beyond the padding; oneDNN treats that as padding.
    if (reach > s.pads_end[a] && pool->counts_padding) return std::nullopt;
    s.pads_end[a] = reach;
    if (reach < 0 || reach >= extent) {
      if (reach >= extent || -reach >= s.strides[a]) return std::nullopt;
    }
    if (s.dilations[a] != 1 && average) return std::nullopt;
    --s.dilations[a];
  }
  return s;
}

std::optional<PoolShape> read_global_average(const Planner& planner, const Node& node) {
  const Sizes &x = planner.info(node.inputs[0]).sizes, &y = planner.info(node.outputs[0]).sizes;
  if (x.size() != 4 || element_count(x) == 0) return std::nullopt;
  return PoolShape{x, y, {x[2], x[3]}, {1, 1}, {0, 0}, {0, 0}, {0, 0}, dnnl::algorithm::pooling_avg_include_padding};
}

PoolShape of_three_axes(PoolShape s) {
  while (s.x.size() < 5) {
    for (Sizes* sizes : {&s.x, &s.y}) sizes->insert(sizes->begin() + 2, 1);
    for (dnnl::memory::dims* list : {&s.kernel, &s.strides}) list->insert(list->begin(), 1);
    for (dnnl::memory::dims* list : {&s.dilations, &s.pads_begin, &s.pads_end}) list->insert(list->begin(), 0);
  }
  return s;
}

}  // namespace rewright::cpu
