// Convolutions, pools and resampling on channels in blocks (domain com.microsoft.nchwc), which ONNX Runtime's level "all"
// writes.
//
// A blocked tensor [N, C, H, W] stores [N, C / B, H, W, B], where B is the width of the processor's vectors in ONNX Runtime's
// kernels: such a file means what it does only on processors like the one that it was written on. Here B is that of this
// processor. A blocked value is a tensor whose row-major elements are the stored ones, so that any other operator that reads
// it reads what it would read in ONNX Runtime.
#include <utility>

#include "operators/contrib/contrib.h"
#include "operators/contrib/node_view.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

constexpr std::string_view kBlockedDomain = "com.microsoft.nchwc";

std::int64_t block_size() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
  return 16;
#endif
}

// [N, C, H, W] with the channels of each block last. C is a multiple of the block.
ValueId blocked(ContribNode& n, ValueId v) {
  const Indices shape = n.b.shape_of(v);
  const Index block = block_size();
  const ValueId apart = n.b.reshaped(v, {shape[0], floor_div(shape[1], block), block, shape[2], shape[3]});
  return n.b.reshaped(n.b.transposed(apart, {0, 1, 3, 4, 2}), shape);
}

ValueId plain(ContribNode& n, ValueId v) {
  const Indices shape = n.b.shape_of(v);
  ContribNode::require(shape.size() == 4, "a blocked operand has " + std::to_string(shape.size()) + " axes, must be 4");
  const Index block = block_size();
  ContribNode::require_equal(floor_div(shape[1], block) * block, shape[1], "the channels in whole blocks");
  const ValueId apart = n.b.reshaped(v, {shape[0], floor_div(shape[1], block), shape[2], shape[3], block});
  return n.b.reshaped(n.b.transposed(apart, {0, 1, 4, 2, 3}), shape);
}

// Channels are filled up with zeros.
Results reorder_input(ContribNode& n, std::string&) {
  n.require_rank(0, 4);
  ValueId x = n.source.integer("channels_last", 0) != 0 ? n.channels_first(n.input(0)) : n.input(0);
  const Index channels = n.b.shape_of(x)[1], block = block_size();
  const Index missing = floor_div(channels + block - 1, block) * block - channels;
  if (!(missing == Index(0))) x = n.b.add("Pad", {x}, {{"pads_end", Indices{0, missing, 0, 0}}});
  return n.results({blocked(n, x)});
}

Results reorder_output(ContribNode& n, std::string&) {
  const ValueId x = n.entries(plain(n, n.input(0)), 1, 0, n.positive("channels"));
  return n.results({n.source.integer("channels_last", 0) != 0 ? n.channels_last(x) : x});
}

// The elements of a constant weight in ONNX's order: its blocks are not computed again in each run.
ValueId plain_weight(ContribNode& n, const Tensor& stored, bool has_input_blocks) {
  const Sizes& sizes = stored.sizes();
  const std::int64_t block = block_size(), inputs = sizes[1], window = sizes[2] * sizes[3];
  const std::vector<double> elements = stored.reals();
  std::vector<double> made(elements.size());
  // [O / B, I / B, window, B of I, B of O], or [O / B, I, window, B of O].
  const std::int64_t inner = has_input_blocks ? block : 1;
  for (std::int64_t o = 0; o < sizes[0]; ++o)
    for (std::int64_t i = 0; i < inputs; ++i)
      for (std::int64_t k = 0; k < window; ++k) {
        const std::int64_t row = (o / block * (inputs / inner) + i / inner) * window + k;
        made[static_cast<std::size_t>((o * inputs + i) * window + k)] =
            elements[static_cast<std::size_t>((row * inner + i % inner) * block + o % block)];
      }
  return n.b.constant(Tensor::from_reals(stored.type(), sizes, made));
}

// The activation of conv(X, W) + B + sum. X is not blocked if it has fewer channels than a block.
Results convolution(ContribNode& n, std::string& reason) {
  n.require_rank(0, 4), n.require_rank(1, 4);
  const std::optional<Tensor> weight = n.source.constant_value(n.source.input(1));
  if (!weight) {
    reason = "its weights are no constant";
    return std::nullopt;
  }
  const std::int64_t block = block_size(), inputs = weight->sizes()[1];
  const bool is_plain = n.source.integer("group", 1) == 1 && inputs < block;
  if (weight->sizes()[0] % block != 0 || (inputs >= block && inputs % block != 0)) {
    reason = "its weights are not in blocks of " + std::to_string(block) + " channels, as this processor has";
    return std::nullopt;
  }
  const ValueId x = is_plain ? n.input(0) : plain(n, n.input(0));
  const ValueId w = plain_weight(n, *weight, inputs >= block);
  NodeView conv(n.source, "Conv", 11, {static_cast<OnnxValue>(x), static_cast<OnnxValue>(w), n.source.input(2)});
  const auto y = conv.import(reason);
  if (!y) return std::nullopt;
  const ValueId sum = n.has(3) ? n.plus(static_cast<ValueId>(y->at(0)), plain(n, n.input(3))) : static_cast<ValueId>(y->at(0));
  const std::string name = n.source.text("activation", "");
  const auto activated = n.activation(name, sum, n.source.reals("activation_params"));
  if (!activated) {
    reason = "activation " + name + " is not known";
    return std::nullopt;
  }
  return n.results({blocked(n, *activated)});
}

ContribGraph pool(const char* type, int opset) {
  return [type, opset](ContribNode& n, std::string& reason) -> Results {
    NodeView node(n.source, type, opset, {static_cast<OnnxValue>(plain(n, n.input(0)))});
    const auto y = node.import(reason);
    if (!y) return std::nullopt;
    return n.results({blocked(n, static_cast<ValueId>(y->at(0)))});
  };
}

// Height and width times whole numbers. ONNX Runtime writes it for these modes alone: nearest elements are those of rounded
// down positions, whatever the attribute for coordinates says.
Results upsample(ContribNode& n, std::string& reason) {
  const ValueId x = plain(n, n.input(0));
  const std::vector<std::int64_t> scales = n.source.integers("scales");
  ContribNode::require(scales.size() == 4, "scales has " + std::to_string(scales.size()) + " entries, must be 4");
  const std::string mode = n.source.text("mode", "nearest");
  if (scales[0] != 1 || scales[1] != 1 || scales[2] < 1 || scales[3] < 1 || (mode != "nearest" && mode != "linear")) {
    reason = "mode " + mode + " or its scales are none that ONNX Runtime writes";
    return std::nullopt;
  }
  const bool is_nearest = mode == "nearest";
  const std::string asked = n.source.text("coordinate_transformation_mode", "asymmetric");
  if (!is_nearest && asked != "asymmetric" && asked != "half_pixel" && asked != "align_corners") {
    reason = "coordinates " + asked + " are none that ONNX Runtime writes";
    return std::nullopt;
  }
  const std::string coordinates = is_nearest ? "asymmetric" : asked;
  Indices sizes = n.b.shape_of(x), numerators, denominators(4, 1);
  for (std::size_t axis = 0; axis < scales.size(); ++axis) {
    sizes[axis] = sizes[axis] * scales[axis];
    numerators.emplace_back(scales[axis]);
  }
  const ValueId y = n.b.add("Resize", {x},
                            {{"sizes", sizes},
                             {"numerators", numerators},
                             {"denominators", denominators},
                             {"mode", mode},
                             {"coordinates", coordinates},
                             {"rounding", std::string(is_nearest ? "floor" : "round_prefer_floor")}});
  return n.results({blocked(n, y)});
}

}  // namespace

void register_contrib_blocked_layout(ContribOperators& c) {
  const auto add = [&](const char* type, ContribGraph graph) { c.add(type, std::move(graph), std::string(kBlockedDomain)); };
  add("ReorderInput", reorder_input);
  add("ReorderOutput", reorder_output);
  add("Conv", convolution);
  add("MaxPool", pool("MaxPool", 12));
  add("AveragePool", pool("AveragePool", 11));
  add("GlobalAveragePool", pool("GlobalAveragePool", 1));
  add("GlobalMaxPool", pool("GlobalMaxPool", 1));
  add("Upsample", upsample);
}

}  // namespace rewright::operators
