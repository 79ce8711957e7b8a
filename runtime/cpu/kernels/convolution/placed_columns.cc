// Transposed convolutions whose weights are 1 at each channel's own place in the window and 0 elsewhere, as Col2Im is written:
// each element is added at one place, without products.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/loops.h"
#include "runtime/planning/node_shapes.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

// Additions of an image's elements to its result: y[to + i * to_step] += x[from + i * from_step] for i < count, for each run.
struct Placement {
  struct Run {
    Count from, to, count;
  };
  std::vector<Run> runs;
  Count from_step = 1, to_step = 1;
  Count images = 1, elements = 0, results = 0;  // elements and results: of an image
};

constexpr Count kMostRuns = 1 << 16;

// The axes with the one in the last place that has the most windows: loops along it are the longest.
std::vector<std::size_t> loop_order(const planning::ConvolutionNode& c) {
  std::vector<std::size_t> order;
  const std::size_t axes = c.strides.size();
  std::size_t longest = axes - 1;
  for (std::size_t a = 0; a < axes; ++a)
    if (c.x[a + 2] > c.x[longest + 2]) longest = a;
  for (std::size_t a = 0; a < axes; ++a)
    if (a != longest) order.push_back(a);
  order.push_back(longest);
  return order;
}

std::optional<Placement> placement(const planning::ConvolutionNode& c) {
  const std::size_t axes = c.strides.size();
  std::vector<Count> x_stride(axes, 1), y_stride(axes, 1);
  for (std::size_t a = axes - 1; a-- > 0;) {
    x_stride[a] = x_stride[a + 1] * c.x[a + 3];
    y_stride[a] = y_stride[a + 1] * c.y[a + 3];
  }
  const Sizes kernel(c.w.begin() + 2, c.w.end()), windows(c.x.begin() + 2, c.x.end());
  const Count taps = element_count(kernel), all = element_count(windows);
  const std::vector<std::size_t> order = loop_order(c);
  const std::size_t inner = order.back();
  if (taps * (all / windows[inner]) > kMostRuns) return std::nullopt;
  Placement p;
  p.images = c.x[0], p.elements = taps * all, p.results = element_count(Sizes(c.y.begin() + 2, c.y.end()));
  p.from_step = x_stride[inner], p.to_step = y_stride[inner] * c.strides[inner];
  for (Count t = 0; t < taps; ++t) {
    // The place of the first window's element along each axis, which may be outside.
    std::vector<Count> start(axes);
    Count left = t;
    for (std::size_t a = axes; a-- > 0; left /= kernel[a]) start[a] = left % kernel[a] * c.dilations[a] - c.pads_begin[a];
    const Count stride = c.strides[inner], first = start[inner] >= 0 ? 0 : (-start[inner] + stride - 1) / stride;
    const Count last = std::min(windows[inner], (c.y[inner + 2] - start[inner] + stride - 1) / stride);
    if (first >= last) continue;
    for (Count outer = 0; outer < all / windows[inner]; ++outer) {
      Count rest = outer, from = t * all + first * x_stride[inner], to = (start[inner] + first * stride) * y_stride[inner];
      bool inside = true;
      for (std::size_t k = axes - 1; k-- > 0;) {
        const std::size_t a = order[k];
        const Count window = rest % windows[a], at = start[a] + window * c.strides[a];
        rest /= windows[a];
        inside = inside && at >= 0 && at < c.y[a + 2];
        from += window * x_stride[a];
        to += at * y_stride[a];
      }
      if (inside) p.runs.push_back({from, to, last - first});
    }
  }
  return p;
}

class PlacedColumnsKernel final : public Kernel {
 public:
  PlacedColumnsKernel(Placement placement, Isa isa) : p_(std::move(placement)), loops_(real_loops<float>(isa)) {}

  void run(const Call& call) const override {
    const double work = static_cast<double>(p_.images) * static_cast<double>(p_.elements + p_.results);
    call.workers.for_each(p_.images, work / kElements, [&](Count image, int) {
      const float* const x = reinterpret_cast<const float*>(call.inputs[0]) + image * p_.elements;
      float* const y = reinterpret_cast<float*>(call.outputs[0]) + image * p_.results;
      std::fill_n(y, p_.results, 0.0f);
      const Count from_step = p_.from_step, to_step = p_.to_step;
      for (const Placement::Run& run : p_.runs) {
        const float* from = x + run.from;
        float* to = y + run.to;
        if (from_step == 1 && to_step == 1)
          loops_.add(to, to, from, run.count);
        else
          for (Count i = 0; i < run.count; ++i) to[i * to_step] += from[i * from_step];
      }
    });
  }

 private:
  static constexpr double kElements = 1;  // per nanosecond
  Placement p_;
  const RealLoops<float>& loops_;
};

class PlacedColumnsPlan final : public NodePlan {
 public:
  PlacedColumnsPlan(const Node& node, Placement placement) : node_(node), placement_(std::move(placement)) {}
  void emit(Planner& planner, ValueId result) override {
    const int x = planner.storage(node_.inputs[0], kPlain);
    planner.add_step(std::make_unique<PlacedColumnsKernel>(std::move(placement_), planner.options().isa), {x},
                     {planner.add_value(result, kPlain)});
  }

 private:
  const Node& node_;
  Placement placement_;
};

// Is each channel's window 1 at the channel's own place, and 0 elsewhere?
bool places_columns(const Tensor& w) {
  const std::span<const float> weights = w.data<float>();
  const auto taps = static_cast<std::size_t>(w.sizes()[0]);
  for (std::size_t t = 0; t < taps; ++t)
    for (std::size_t u = 0; u < taps; ++u)
      if (weights[t * taps + u] != (t == u ? 1.0f : 0.0f)) return false;
  return true;
}

}  // namespace

std::unique_ptr<NodePlan> plan_placed_columns(Planner& planner, const Node& node) {
  constexpr std::int64_t kMostTaps = 1024;
  if (planner.has(node, 2) || planner.constant(node.inputs[0])) return nullptr;
  const Tensor& w = planner.constant(node.inputs[1]);
  if (!w || w.type() != DataType::kFloat || w.sizes().size() < 3 || w.sizes()[0] > kMostTaps) return nullptr;
  if (w.size() == 0 || w.sizes()[1] != 1 || w.size() != w.sizes()[0] * w.sizes()[0] || !places_columns(w)) return nullptr;
  const auto read =
      planning::read_convolution_node(node, planner.info(node.inputs[0]).sizes, w.sizes(), planner.info(node.outputs[0]).sizes);
  if (!read || read->group != 1) return nullptr;
  auto found = placement(*read);
  return found ? std::make_unique<PlacedColumnsPlan>(node, std::move(*found)) : nullptr;
}

}  // namespace rewright::cpu
