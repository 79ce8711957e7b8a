#include "runtime/cpu/convolution/library_convolution.h"

#include <algorithm>

namespace rewright::cpu {

using dnnl::memory;

memory::desc ConvolutionShape::weights() const {
  memory::dims sizes, steps;
  Sizes plain(w.size(), 1);
  for (std::size_t a = w.size() - 1; a-- > 0;) plain[a] = plain[a + 1] * w[a + 1];
  if (transposed) {  // inputs, outputs / group, window
    sizes = {group, w[1], w[0] / group};
    steps = {plain[0] * (w[0] / group), plain[1], plain[0]};
  } else {
    sizes = {group, w[0] / group, w[1]};
    steps = {plain[0] * (w[0] / group), plain[0], plain[1]};
  }
  sizes.insert(sizes.end(), w.begin() + 2, w.end());
  steps.insert(steps.end(), plain.begin() + 2, plain.end());
  if (group == 1) {
    sizes.erase(sizes.begin());
    steps.erase(steps.begin());
  }
  return memory::desc(sizes, memory::data_type::f32, steps);
}

std::optional<PictureShape> ConvolutionShape::picture() const {
  const std::size_t axes = x.size() - 2;
  if (transposed || axes > 2) return std::nullopt;
  PictureShape p;
  p.pictures = x[0];
  p.channels = x[1];
  p.outputs = y[1];
  p.width = x.back();
  p.out_width = y.back();
  if (axes == 2) {
    p.height = x[2];
    p.out_height = y[2];
  }
  p.group = group;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::size_t to = 2 - axes + a;
    p.kernel[to] = w[2 + a];
    p.strides[to] = strides[a];
    p.dilations[to] = dilations[a] + 1;
    p.pads_begin[to] = pads_begin[a];
  }
  return p;
}

std::optional<ConvolutionShape> read_convolution(const Planner& planner, const Node& node, bool transposed) {
  const ValueInfo x = planner.info(node.inputs[0]), w = planner.info(node.inputs[1]), y = planner.info(node.outputs[0]);
  if (x.type != DataType::kFloat || x.sizes.size() < 3 || x.sizes.size() > 5) return std::nullopt;
  if (element_count(x.sizes) == 0 || element_count(w.sizes) == 0 || element_count(y.sizes) == 0) return std::nullopt;
  const AttributeReader attributes(node);
  ConvolutionShape s{x.sizes,
                     w.sizes,
                     y.sizes,
                     attributes.list("strides"),
                     attributes.list("dilations"),
                     attributes.list("pads_begin"),
                     attributes.list("pads_end"),
                     attributes.number("group"),
                     transposed};
  for (std::int64_t& d : s.dilations) --d;
  for (const auto* pads : {&s.pads_begin, &s.pads_end})
    if (std::any_of(pads->begin(), pads->end(), [](std::int64_t p) { return p < 0; })) return std::nullopt;
  if (transposed) {
    const auto extra = attributes.list("output_padding");
    for (std::size_t a = 0; a < extra.size(); ++a) s.pads_end[a] -= extra[a];
  }
  // Trailing axes of size 1 say nothing, and oneDNN's loops want to run along the last one.
  while (s.x.size() > 3 && s.x.back() == 1 && s.w.back() == 1 && s.y.back() == 1 && s.pads_begin.back() == 0 &&
         s.pads_end.back() == 0) {
    for (Sizes* sizes : {&s.x, &s.w, &s.y}) sizes->pop_back();
    for (memory::dims* list : {&s.strides, &s.dilations, &s.pads_begin, &s.pads_end}) list->pop_back();
  }
  return s;
}

ConvolutionPrimitive describe_convolution(const ConvolutionShape& s, const memory::desc& source, const memory::desc& weights,
                                          bool bias, const memory::desc& result, const dnnl::primitive_attr& attributes) {
  const memory::desc b = bias ? memory::desc({s.y[1]}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
  const auto finish = [](const auto& d, auto primitive) {
    const std::string_view name = d.impl_info_str();
    const bool reference = name.find("ref") != name.npos, slow = reference || name.find("gemm") != name.npos;
    return ConvolutionPrimitive{
        std::move(primitive), d.src_desc(), d.weights_desc(), d.dst_desc(), d.scratchpad_desc(), reference, slow};
  };
  if (s.transposed) {
    const dnnl::deconvolution_forward::primitive_desc d(dnnl_engine(), dnnl::prop_kind::forward_inference,
                                                        dnnl::algorithm::deconvolution_direct, source, weights, b, result,
                                                        s.strides, s.dilations, s.pads_begin, s.pads_end, attributes);
    return finish(d, dnnl::deconvolution_forward(d));
  }
  const dnnl::convolution_forward::primitive_desc d(dnnl_engine(), dnnl::prop_kind::forward_inference,
                                                    dnnl::algorithm::convolution_direct, source, weights, b, result, s.strides,
                                                    s.dilations, s.pads_begin, s.pads_end, attributes);
  return finish(d, dnnl::convolution_forward(d));
}

dnnl::primitive_attr convolution_attributes(const Epilogue& epilogue, const std::vector<memory::desc>& additions) {
  dnnl::primitive_attr result = user_scratchpad();
  if (!additions.empty() || epilogue.additions().empty()) result.set_post_ops(epilogue.post_ops(additions));
  return result;
}

ConvolutionPrimitive choose_convolution(const ConvolutionShape& shape, bool bias, const dnnl::primitive_attr& attributes,
                                        Isa isa) {
  const memory::desc any_weights(shape.weights().get_dims(), memory::data_type::f32, memory::format_tag::any);
  std::vector<std::pair<memory::desc, memory::desc>> candidates;
  const memory::desc any_x = dnnl_any(shape.x), any_y = dnnl_any(shape.y);
  const auto both = [&](Layout layout) { candidates.emplace_back(dnnl_desc(shape.x, layout), dnnl_desc(shape.y, layout)); };
  if (shape.x[1] < kFewChannels && shape.group == 1) candidates.emplace_back(any_x, dnnl_desc(shape.y, kChannelsLast));
  both(kChannelsLast);
  both(Layout{isa == Isa::kAvx512 ? 16 : 8});
  candidates.emplace_back(any_x, any_y);
  both(kPlain);
  std::optional<ConvolutionPrimitive> found;
  for (const auto& [x, y] : candidates) {
    try {
      ConvolutionPrimitive p = describe_convolution(shape, x, any_weights, bias, y, attributes);
      if (!layout_of(p.source, shape.x) || !layout_of(p.result, shape.y)) continue;
      if (!p.reference) return p;
      if (!found) found = std::move(p);
    } catch (const dnnl::error&) {
    }
  }
  return std::move(found.value());
}

}  // namespace rewright::cpu
