#include "runtime/cpu/kernels/convolution/library_convolution.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "runtime/cpu/kernels/combined.h"
#include "runtime/planning/node_shapes.h"

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

namespace {

// Over the last two axes, or the only one.
ImageShape image_of(const ConvolutionShape& s) {
  const std::size_t all = s.x.size() - 2, axes = std::min<std::size_t>(all, 2), first = all - axes;
  ImageShape p;
  p.images = s.x[0];
  p.channels = s.x[1];
  p.outputs = s.y[1];
  p.width = s.x.back();
  p.out_width = s.y.back();
  if (axes == 2) {
    p.height = s.x[2 + first];
    p.out_height = s.y[2 + first];
  }
  p.group = s.group;
  for (std::size_t a = first; a < all; ++a) {
    const std::size_t to = 2 - all + a;
    p.kernel[to] = s.w[2 + a];
    p.strides[to] = s.strides[a];
    p.dilations[to] = s.dilations[a] + 1;
    p.pads_begin[to] = s.pads_begin[a];
  }
  return p;
}

// Does each position of the result only read the one of its own along an axis?
bool keeps_apart(const ImageShape& s, int axis) {
  const bool same = axis == 0 ? s.out_height == s.height : s.out_width == s.width;
  return same && s.kernel[axis] == 1 && s.strides[axis] == 1 && s.pads_begin[axis] == 0;
}
bool keeps_apart(const PlaneAxis& a) { return a.out_planes == a.planes && a.kernel == 1 && a.stride == 1 && a.pad_begin == 0; }

std::optional<ImageShape> as_image(VolumeShape v) {
  ImageShape& s = v.image;
  if (keeps_apart(v.axis)) {
    s.images *= v.axis.planes;
    return s;
  }
  if (!keeps_apart(s, 0) || !keeps_apart(s, 1)) return std::nullopt;
  s.width *= s.height;
  s.out_width = s.width;
  s.height = v.axis.planes;
  s.out_height = v.axis.out_planes;
  s.kernel[0] = v.axis.kernel;
  s.strides[0] = v.axis.stride;
  s.dilations[0] = v.axis.dilation;
  s.dilations[1] = 1;
  s.pads_begin[0] = v.axis.pad_begin;
  return s;
}

}  // namespace

std::optional<ImageShape> ConvolutionShape::image() const {
  if (transposed) return std::nullopt;
  if (const std::optional<VolumeShape> three = volume()) return as_image(*three);
  ImageShape s = image_of(*this);
  // Depthwise loops know few widths of windows, and all heights.
  if (x.size() == 3 && s.group > 1 && s.group == s.channels && s.group == s.outputs && !is_by_channel(s)) {
    std::swap(s.height, s.width), std::swap(s.out_height, s.out_width);
    for (std::int64_t* const list : {s.kernel, s.strides, s.dilations, s.pads_begin}) std::swap(list[0], list[1]);
  }
  return s;
}

std::optional<VolumeShape> ConvolutionShape::volume() const {
  if (transposed || x.size() != 5) return std::nullopt;
  return VolumeShape{image_of(*this), {x[2], y[2], w[2], strides[0], dilations[0] + 1, pads_begin[0]}};
}

std::optional<ImageShape> ConvolutionShape::transposed_image() const {
  if (!transposed || x.size() > 4 || group != 1) return std::nullopt;
  for (const Sizes* sizes : {&x, &w, &y})
    if (element_count(*sizes) == 0) return std::nullopt;
  return image_of(*this);
}

std::optional<ConvolutionShape> read_convolution(const Planner& planner, const Node& node, bool transposed) {
  const ValueInfo &x = planner.info(node.inputs[0]), &w = planner.info(node.inputs[1]), &y = planner.info(node.outputs[0]);
  if (x.type != DataType::kFloat) return std::nullopt;
  auto c = planning::read_convolution_node(node, x.sizes, w.sizes, y.sizes);
  if (!c) return std::nullopt;
  ConvolutionShape s{std::move(c->x),
                     std::move(c->w),
                     std::move(c->y),
                     std::move(c->strides),
                     std::move(c->dilations),
                     std::move(c->pads_begin),
                     std::move(c->pads_end),
                     c->group,
                     transposed};
  for (std::int64_t& d : s.dilations) --d;
  if (transposed) {
    const auto extra = AttributeReader(node).list("output_padding");
    for (std::size_t a = 0; a < extra.size(); ++a) s.pads_end[a] -= extra[a];
  }
  // Drops trailing axes of size 1, since oneDNN's inner loops run along the last axis.
  while (s.x.size() > 3 && s.x.back() == 1 && s.w.back() == 1 && s.y.back() == 1 && s.pads_begin.back() == 0 &&
         s.pads_end.back() == 0) {
    for (Sizes* sizes : {&s.x, &s.w, &s.y}) sizes->pop_back();
    for (memory::dims* list : {&s.strides, &s.dilations, &s.pads_begin, &s.pads_end}) list->pop_back();
  }
  return s;
}

namespace {

// oneDNN 3.2's kernel for strided transposed convolutions ("brg_conv") adds the bias and applies post-operations once for every
// block of input channels, on AVX2 and AVX-512; its sums are right. Its gradients of convolutions ("conv:any") apply
// post-operations in plain loops, which take longer than the sums.
bool does_sums_alone(const ConvolutionShape& s, std::string_view name) {
  const bool strided = std::any_of(s.strides.begin(), s.strides.end(), [](std::int64_t step) { return step > 1; });
  return strided || name.find("strided") != name.npos || !name.starts_with("brg_conv");
}

// oneDNN 3.2's "conv:any+jit:avx512_core" adds to stored sums by whole vectors, even if the last one has fewer channels: it
// reads beyond the end of the result, unless that is in blocks.
bool reads_beyond(const ConvolutionShape& s, std::string_view name, const memory::desc& result) {
  constexpr std::int64_t kLanes = 16;
  if (!s.transposed || !name.ends_with("+jit:avx512_core") || s.y[1] / s.group % kLanes == 0) return false;
  const std::optional<Layout> layout = layout_of(result, s.y);
  return !layout || !layout->blocked();
}

template <class Description>
ConvolutionPrimitive described_by(const ConvolutionShape& s, const memory::desc& source, const memory::desc& weights,
                                  const memory::desc& bias, const memory::desc& result, const dnnl::primitive_attr& attributes,
                                  dnnl::algorithm algorithm) {
  Description d(dnnl_engine(), dnnl::prop_kind::forward_inference, algorithm, source, weights, bias, result, s.strides,
                s.dilations, s.pads_begin, s.pads_end, attributes);
  while (reads_beyond(s, d.impl_info_str(), d.dst_desc()))
    if (!d.next_impl()) throw dnnl::error(dnnl_unimplemented, "no transposed convolution of such sizes");
  const std::string_view name = d.impl_info_str();
  const bool reference = name.find("ref") != name.npos, slow = reference || name.find("gemm") != name.npos;
  const auto create = [d]() -> dnnl::primitive {
    if constexpr (std::is_same_v<Description, dnnl::deconvolution_forward::primitive_desc>)
      return dnnl::deconvolution_forward(d);
    else
      return dnnl::convolution_forward(d);
  };
  return {create, d.src_desc(), d.weights_desc(), d.dst_desc(), d.scratchpad_desc(), std::string(name), reference, slow};
}

}  // namespace

ConvolutionPrimitive describe_convolution(const ConvolutionShape& s, const memory::desc& source, const memory::desc& weights,
                                          bool bias, const memory::desc& result, const Epilogue* epilogue) {
  const memory::desc b = bias ? memory::desc({s.y[1]}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
  dnnl::primitive_attr attributes = user_scratchpad();
  const bool more = epilogue != nullptr && !epilogue->operations().empty();
  if (more) attributes.set_post_ops(epilogue->post_ops(std::vector<memory::desc>(epilogue->additions().size(), result)));
  if (!s.transposed)
    return described_by<dnnl::convolution_forward::primitive_desc>(s, source, weights, b, result, attributes,
                                                                   dnnl::algorithm::convolution_direct);
  const auto transposed = [&](const memory::desc& with_bias, const dnnl::primitive_attr& with) {
    return described_by<dnnl::deconvolution_forward::primitive_desc>(s, source, weights, with_bias, result, with,
                                                                     dnnl::algorithm::deconvolution_direct);
  };
  ConvolutionPrimitive whole = transposed(b, attributes);
  if (!(bias || more) || !does_sums_alone(s, whole.name)) return whole;
  const std::optional<Layout> layout = layout_of(whole.result, s.y);
  const bool alike = s.y[1] == 1 || element_count(std::span(s.y).subspan(2)) == 1;  // both layouts are equal
  if (!layout || !(layout->channels_last() || (alike && layout->plain()))) {
    if (!whole.name.starts_with("brg_conv")) return whole;
    throw dnnl::error(dnnl_unimplemented, "a transposed convolution that does what follows in another layout");
  }
  ConvolutionPrimitive bare = transposed(memory::desc(), user_scratchpad());
  bare.bare = true;
  return bare;
}

namespace {

// The elements of a channels-last result as rows for adding a bias: several pixels each, so that few channels fill vectors.
memory::desc rows_of_pixels(const Sizes& y, bool one_pixel, std::int64_t& pixels) {
  constexpr std::int64_t kLongEnough = 256, kMostPixels = 64;
  const std::int64_t all = element_count(y) / y[1];
  pixels = 1;
  for (std::int64_t p = 2; !one_pixel && p <= std::min(all, kMostPixels) && pixels * y[1] < kLongEnough; ++p)
    if (all % p == 0) pixels = p;
  return memory::desc({all / pixels, pixels * y[1]}, memory::data_type::f32, memory::format_tag::ab);
}

Tensor repeated_bias(const Tensor* bias, std::int64_t channels, std::int64_t times) {
  Tensor result(DataType::kFloat, {channels * times});
  float* to = result.mutable_data<float>().data();
  for (std::int64_t t = 0; t < times; ++t, to += channels)
    if (bias != nullptr)
      std::copy_n(reinterpret_cast<const float*>(bias->bytes().data()), channels, to);
    else
      std::fill_n(to, channels, 0.0f);
  return result;
}

}  // namespace

std::unique_ptr<Kernel> library_kernel(const ConvolutionPrimitive& described, const ConvolutionShape& shape,
                                       const Epilogue& epilogue, std::vector<DnnlKernel::Argument> arguments,
                                       std::vector<DnnlKernel::Owned> owned) {
  if (!described.bare)
    return std::make_unique<DnnlKernel>(described.create(), described.scratchpad, std::move(arguments), std::move(owned));
  const auto is_sum = [](const auto& a) {
    return a.dnnl_number == DNNL_ARG_SRC || a.dnnl_number == DNNL_ARG_DST || a.dnnl_number == DNNL_ARG_WEIGHTS;
  };
  const auto bias = std::find_if(owned.begin(), owned.end(), [](const auto& o) { return o.dnnl_number == DNNL_ARG_BIAS; });
  const bool given =
      std::any_of(arguments.begin(), arguments.end(), [](const auto& a) { return a.dnnl_number == DNNL_ARG_BIAS; });
  std::int64_t pixels = 1;
  const memory::desc rows = rows_of_pixels(shape.y, given, pixels);
  const memory::desc row({1, pixels * shape.y[1]}, memory::data_type::f32, memory::format_tag::ab);
  std::vector<DnnlKernel::Argument> of_sum, of_rest{{DNNL_ARG_SRC_0, rows, -1, 0}, {DNNL_ARG_DST, rows, -1, 0}};
  for (const DnnlKernel::Argument& a : arguments) {
    if (is_sum(a))
      of_sum.push_back(a);
    else if (a.dnnl_number == DNNL_ARG_BIAS)
      of_rest.push_back({DNNL_ARG_SRC_1, row, a.input, -1});
    else
      of_rest.push_back({a.dnnl_number, rows, a.input, -1});
  }
  std::vector<DnnlKernel::Owned> rest_owned;
  if (!given)
    rest_owned.push_back(
        {DNNL_ARG_SRC_1, row, repeated_bias(bias == owned.end() ? nullptr : &bias->bytes, shape.y[1], pixels)});
  std::erase_if(owned, [&](const auto& o) { return !is_sum(o); });
  dnnl::primitive_attr attributes = user_scratchpad();
  attributes.set_post_ops(epilogue.post_ops(std::vector<memory::desc>(epilogue.additions().size(), rows)));
  const dnnl::binary::primitive_desc rest(dnnl_engine(), dnnl::algorithm::binary_add, rows, row, rows, attributes);
  return one_after_the_other(
      std::make_unique<DnnlKernel>(described.create(), described.scratchpad, std::move(of_sum), std::move(owned)),
      std::make_unique<DnnlKernel>(dnnl::binary(rest), rest.scratchpad_desc(), std::move(of_rest), std::move(rest_owned)));
}

ConvolutionPrimitive choose_convolution(const ConvolutionShape& shape, bool bias, const Epilogue* epilogue, Isa isa) {
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
      ConvolutionPrimitive p = describe_convolution(shape, x, any_weights, bias, y, epilogue);
      if (!layout_of(p.source, shape.x) || !layout_of(p.result, shape.y)) continue;
      if (!p.reference) return p;
      if (!found) found = std::move(p);
    } catch (const dnnl::error&) {
    }
  }
  if (!found) throw dnnl::error(dnnl_unimplemented, "no convolution of such sizes");
  return std::move(*found);
}

}  // namespace rewright::cpu
