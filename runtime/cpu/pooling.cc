// Pools over windows by oneDNN, in the layout the input has.
#include <algorithm>

#include "runtime/cpu/dnnl_support.h"
#include "runtime/cpu/planner.h"

namespace rewright::cpu {

namespace {

using dnnl::memory;

struct PoolShape {
  Sizes x, y;
  memory::dims kernel, strides, dilations, pads_begin, pads_end;
  dnnl::algorithm algorithm;
};

dnnl::pooling_forward::primitive_desc describe(const PoolShape& s, const memory::desc& x, const memory::desc& y) {
  return {dnnl_engine(),
          dnnl::prop_kind::forward_inference,
          s.algorithm,
          x,
          y,
          s.strides,
          s.kernel,
          s.dilations,
          s.pads_begin,
          s.pads_end,
          user_scratchpad()};
}

class PoolPlan final : public NodePlan {
 public:
  PoolPlan(const Node& node, PoolShape shape) : node_(node), shape_(std::move(shape)) {}

  void emit(Planner& planner, ValueId result) override {
    const auto layouts = planner.layouts(node_.inputs[0]);
    const Layout layout = layouts.empty() ? kPlain : layouts[0];
    const auto d = describe(shape_, dnnl_desc(shape_.x, layout), dnnl_desc(shape_.y, layout));
    std::vector<DnnlKernel::Argument> arguments{{DNNL_ARG_SRC, d.src_desc(), 0, -1}, {DNNL_ARG_DST, d.dst_desc(), -1, 0}};
    const int source = planner.storage(node_.inputs[0], layout), target = planner.add_value(result, layout);
    planner.add_step(std::make_unique<DnnlKernel>(dnnl::pooling_forward(d), d.scratchpad_desc(), std::move(arguments)),
                     {source}, {target});
  }

 private:
  const Node& node_;
  PoolShape shape_;
};

std::unique_ptr<NodePlan> plan_pool(Planner& planner, const Node& node, bool average) {
  const ValueInfo x = planner.info(node.inputs[0]), y = planner.info(node.outputs[0]);
  if (x.type != DataType::kFloat || x.sizes.size() < 3 || x.sizes.size() > 5) return nullptr;
  if (element_count(x.sizes) == 0 || element_count(y.sizes) == 0) return nullptr;
  if (node.outputs.size() > 1 && node.outputs[1] != kNoValue) return nullptr;
  const AttributeReader attributes(node);
  PoolShape s{x.sizes,
              y.sizes,
              attributes.list("kernel"),
              attributes.list("strides"),
              attributes.list("dilations"),
              attributes.list("pads_begin"),
              attributes.list("pads_end"),
              dnnl::algorithm::pooling_max};
  const bool with_padding = average && attributes.flag("count_include_pad");
  if (average)
    s.algorithm = with_padding ? dnnl::algorithm::pooling_avg_include_padding : dnnl::algorithm::pooling_avg_exclude_padding;
  for (std::size_t a = 0; a < s.kernel.size(); ++a) {
    const std::int64_t extent = s.dilations[a] * (s.kernel[a] - 1) + 1;
    if (s.pads_begin[a] < 0 || s.pads_end[a] < 0 || s.pads_begin[a] >= extent) return nullptr;
    // Rounding up lets the last window reach beyond the padding; oneDNN takes that as padding.
    const std::int64_t reach = (y.sizes[a + 2] - 1) * s.strides[a] + extent - x.sizes[a + 2] - s.pads_begin[a];
    if (reach > s.pads_end[a] && with_padding) return nullptr;
    s.pads_end[a] = reach;
    if (reach < 0 || reach >= extent) {
      if (reach >= extent || -reach >= s.strides[a]) return nullptr;
    }
    if (s.dilations[a] != 1 && average) return nullptr;
    --s.dilations[a];
  }
  try {
    describe(s, dnnl_desc(s.x, kPlain), dnnl_desc(s.y, kPlain));
  } catch (const dnnl::error&) {
    return nullptr;
  }
  return std::make_unique<PoolPlan>(node, std::move(s));
}

}  // namespace

void register_pools(KernelTable& table) {
  table.emplace("MaxPool", [](Planner& p, const Node& n) { return plan_pool(p, n, false); });
  table.emplace("AveragePool", [](Planner& p, const Node& n) { return plan_pool(p, n, true); });
}

}  // namespace rewright::cpu
