// Weight gradients of convolutions, by oneDNN.
#include <algorithm>

#include "runtime/cpu/kernels/convolution/library_convolution.h"
#include "runtime/cpu/planning/layout_assignment.h"
#include "runtime/planning/node_shapes.h"

namespace rewright::cpu {

namespace {

using dnnl::memory;
using Primitive = dnnl::convolution_backward_weights::primitive_desc;

// The convolution whose weight gradient a node computes; nullopt if types or attributes are not supported.
std::optional<ConvolutionShape> read_gradient(const Planner& planner, const Node& node) {
  const ValueInfo &x = planner.info(node.inputs[0]), &g = planner.info(node.inputs[1]), &w = planner.info(node.outputs[0]);
  if (x.type != DataType::kFloat) return std::nullopt;
  const auto c = planning::read_convolution_gradient_node(node, x.sizes, g.sizes, w.sizes);
  if (!c) return std::nullopt;
  ConvolutionShape s{c->x, c->w, c->y, c->strides, c->dilations, c->pads_begin, c->pads_end, c->group};
  for (std::int64_t& d : s.dilations) --d;
  return s;
}

// oneDNN 3.2's 1x1 gradients ("jit_1x1") gather the pixels that strides select by whole vectors into memory for exactly the
// channels: they write beyond its end if the last vector of channels is not full.
bool writes_beyond(const ConvolutionShape& s, std::string_view name) {
  constexpr std::int64_t kLanes = 16;
  const bool strided = std::any_of(s.strides.begin(), s.strides.end(), [](std::int64_t step) { return step > 1; });
  return strided && name.starts_with("jit_1x1") && s.x[1] % kLanes != 0;
}

Primitive describe(const ConvolutionShape& s, const memory::desc& x, const memory::desc& g) {
  const memory::desc any_weights(s.weights().get_dims(), memory::data_type::f32, memory::format_tag::any);
  const dnnl::convolution_forward::primitive_desc forward(dnnl_engine(), dnnl::prop_kind::forward_training,
                                                          dnnl::algorithm::convolution_direct, x, any_weights, g, s.strides,
                                                          s.dilations, s.pads_begin, s.pads_end);
  Primitive result{dnnl_engine(),
                   dnnl::algorithm::convolution_direct,
                   x,
                   any_weights,
                   g,
                   s.strides,
                   s.dilations,
                   s.pads_begin,
                   s.pads_end,
                   forward,
                   user_scratchpad()};
  while (writes_beyond(s, result.impl_info_str()))
    if (!result.next_impl()) throw dnnl::error(dnnl_unimplemented, "no gradient of such weights");
  return result;
}

// Channels-last, or another layout for which oneDNN has more than plain loops.
Primitive choose(const ConvolutionShape& s, Isa isa) {
  const memory::desc any_x = dnnl_any(s.x), any_g = dnnl_any(s.y);
  std::vector<std::pair<memory::desc, memory::desc>> candidates;
  if (s.x[1] < kFewChannels && s.group == 1) candidates.emplace_back(any_x, dnnl_desc(s.y, kChannelsLast));
  for (const Layout layout : {kChannelsLast, Layout{isa == Isa::kAvx512 ? 16 : 8}})
    candidates.emplace_back(dnnl_desc(s.x, layout), dnnl_desc(s.y, layout));
  candidates.emplace_back(any_x, any_g);
  std::optional<Primitive> found;
  for (const auto& [x, g] : candidates) {
    try {
      Primitive p = describe(s, x, g);
      if (!layout_of(p.src_desc(), s.x) || !layout_of(p.diff_dst_desc(), s.y)) continue;
      if (std::string_view(p.impl_info_str()).find("ref") == std::string_view::npos) return p;
      if (!found) found = std::move(p);
    } catch (const dnnl::error&) {
    }
  }
  if (!found) throw dnnl::error(dnnl_unimplemented, "no gradient of such weights");
  return std::move(*found);
}

class WeightGradientPlan final : public NodePlan, public ChoosesLayout {
 public:
  WeightGradientPlan(const Node& node, ConvolutionShape shape, Primitive primitive)
      : node_(node), shape_(std::move(shape)), primitive_(std::move(primitive)) {}

  // The result has the weights' layout; operands are converted to the best one.
  LayoutNeeds layout_needs(const Planner&) const override {
    LayoutNeeds needs{kNoSuchKernel, 0, {node_.inputs[1]}};
    if (shape_.x[1] >= kFewChannels) needs.operands.push_back(node_.inputs[0]);
    return needs;
  }

  void emit(Planner& planner, ValueId result) override {
    const memory::desc x = primitive_.src_desc(), g = primitive_.diff_dst_desc(), w = primitive_.diff_weights_desc();
    std::vector<int> inputs{planner.storage(node_.inputs[0], *layout_of(x, shape_.x)),
                            planner.storage(node_.inputs[1], *layout_of(g, shape_.y))};
    const bool plain = w == shape_.weights();
    const int computed = plain ? planner.add_value(result, kPlain) : planner.add_scratch(w.get_size());
    std::vector<DnnlKernel::Argument> arguments{
        {DNNL_ARG_SRC, x, 0, -1}, {DNNL_ARG_DIFF_DST, g, 1, -1}, {DNNL_ARG_DIFF_WEIGHTS, w, -1, 0}};
    planner.add_step(std::make_unique<DnnlKernel>(dnnl::convolution_backward_weights(primitive_), primitive_.scratchpad_desc(),
                                                  std::move(arguments)),
                     std::move(inputs), {computed});
    if (plain) return;
    const int target = planner.add_value(result, kPlain);
    planner.add_step(make_reorder(w, shape_.weights()), {computed}, {target});
  }

 private:
  const Node& node_;
  ConvolutionShape shape_;
  Primitive primitive_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_weight_gradient(Planner& planner, const Node& node) {
  std::optional<ConvolutionShape> shape = read_gradient(planner, node);
  if (!shape) return nullptr;
  try {
    Primitive primitive = choose(*shape, planner.options().isa);
    return std::make_unique<WeightGradientPlan>(node, std::move(*shape), std::move(primitive));
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace rewright::cpu
