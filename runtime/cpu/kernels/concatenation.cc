// Concatenation along the channels in the operands' layout, with scaling and clamping.
#include <algorithm>
#include <limits>

#include "runtime/cpu/kernels/epilogue.h"
#include "runtime/cpu/loops/rows.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kElements = 8;  // a nanosecond

// y = clamp(x * scale[c] + shift[c], low, high); empty scales: all 1 and 0.
struct Scaling {
  std::vector<float> scale, shift;
  float low = -kInfinity, high = kInfinity;

  bool any() const { return !scale.empty() || low > -kInfinity || high < kInfinity; }
};

class ConcatenationKernel final : public Kernel {
 public:
  // The channels of the result that an input provides.
  struct Part {
    std::int64_t first, count;
  };
  // `parts`: by input; channels-last ones may already be in place. `image`: elements of a channel.
  ConcatenationKernel(std::vector<Part> parts, std::int64_t channels, std::int64_t images, std::int64_t image,
                      bool channels_last, Scaling scaling, Isa isa)
      : parts_(std::move(parts)),
        images_(images),
        image_(image),
        channels_(channels),
        channels_last_(channels_last),
        scaling_(std::move(scaling)),
        loops_(loops_for<RowLoops>(isa)),
        copy_rows_(loops_for<LoopTables>(isa).copy_rows) {
    for (const Part& p : parts_) copied_ += p.count;
    if (scaling_.any() && scaling_.scale.empty()) {
      scaling_.scale.assign(static_cast<std::size_t>(channels_), 1);
      scaling_.shift.assign(static_cast<std::size_t>(channels_), 0);
    }
  }

  void run(const Call& call) const override {
    if (channels_last_)
      run_channels_last(call);
    else if (!scaling_.any() && image_ * channels_ <= kSmall)
      run_small(call);
    else
      run_plain(call);
  }

 private:
  static constexpr std::int64_t kSmall = 4096;  // elements of an image

  // Few enough rows of the result that lines 4 KiB apart do not evict each other from the first-level cache.
  std::int64_t block_rows() const { return std::max<std::int64_t>(8, std::min<std::int64_t>(32, 4096 / channels_)); }

  void run_channels_last(const Call& call) const {
    float* const y = reinterpret_cast<float*>(call.outputs[0]);
    const std::int64_t rows = images_ * image_, together = block_rows(), blocks = (rows + together - 1) / together;
    call.workers.for_each(blocks, static_cast<double>(rows * copied_) / kElements, [&](std::int64_t block, int) {
      const std::int64_t first = block * together, count = std::min(together, rows - first);
      for (std::size_t k = 0; k < parts_.size(); ++k) {
        const auto [channel, n] = parts_[k];
        const float* const x = reinterpret_cast<const float*>(call.inputs[k]) + first * n;
        float* const to = y + first * channels_ + channel;
        if (scaling_.any())
          loops_.scale_columns(to, channels_, x, n, count, n, scaling_.scale.data() + channel, scaling_.shift.data() + channel,
                               scaling_.low, scaling_.high);
        else
          loops_.copy(to, channels_, x, n, count, n);
      }
    });
  }

  // Several images of few elements: each part is rows of memory.
  void run_small(const Call& call) const {
    constexpr auto kWidth = static_cast<std::int64_t>(sizeof(float));
    const std::int64_t together = kSmall / (image_ * channels_), blocks = (images_ + together - 1) / together;
    call.workers.for_each(blocks, static_cast<double>(images_ * channels_ * image_) / kElements, [&](std::int64_t block, int) {
      const std::int64_t first = block * together, count = std::min(together, images_ - first);
      for (std::size_t k = 0; k < parts_.size(); ++k) {
        const auto [channel, n] = parts_[k];
        const std::int64_t row = n * image_ * kWidth, apart = channels_ * image_ * kWidth;
        copy_rows_(call.outputs[0] + first * apart + channel * image_ * kWidth, apart, call.inputs[k] + first * row, row, count,
                   row);
      }
    });
  }

  void run_plain(const Call& call) const {
    float* const y = reinterpret_cast<float*>(call.outputs[0]);
    const std::int64_t rows = images_ * channels_;
    call.workers.for_each(rows, static_cast<double>(rows * image_) / kElements, [&](std::int64_t row, int) {
      const std::int64_t channel = row % channels_;
      std::size_t k = 0;
      while (channel >= parts_[k].first + parts_[k].count) ++k;
      const float* const x = reinterpret_cast<const float*>(call.inputs[k]) +
                             (row / channels_ * parts_[k].count + channel - parts_[k].first) * image_;
      if (scaling_.any()) {
        const auto c = static_cast<std::size_t>(channel);
        loops_.scale_row(y + row * image_, x, image_, scaling_.scale[c], scaling_.shift[c], scaling_.low, scaling_.high);
      } else {
        std::copy(x, x + image_, y + row * image_);
      }
    });
  }

  std::vector<Part> parts_;
  std::int64_t images_, image_, channels_, copied_ = 0;
  bool channels_last_;
  Scaling scaling_;
  const RowLoops& loops_;
  decltype(LoopTables::copy_rows) copy_rows_;
};

class ConcatenationPlan final : public NodePlan, public ChoosesLayout, public GathersChannels {
 public:
  explicit ConcatenationPlan(const Node& node) : node_(node) {}

  bool absorb(Planner& planner, const Chain& chain) override {
    const ValueInfo &from = planner.info(chain.start), &to = planner.info(chain.result);
    if (bounded_ || to.sizes != from.sizes || to.type != from.type) return false;
    if (const auto affine = match_channel_affine(planner, chain, 1)) {
      if (!scaling_.scale.empty()) return false;
      scaling_.scale.assign(affine->scale.begin(), affine->scale.end());
      scaling_.shift.assign(affine->shift.begin(), affine->shift.end());
      return true;
    }
    const auto function = match_eltwise(planner, chain);
    if (!function) return false;
    if (function->algorithm == dnnl::algorithm::eltwise_relu && function->alpha == 0) {
      scaling_.low = 0;
    } else if (function->algorithm == dnnl::algorithm::eltwise_clip) {
      scaling_.low = function->alpha;
      scaling_.high = function->beta;
    } else {
      return false;
    }
    bounded_ = true;
    return true;
  }

  LayoutNeeds layout_needs(const Planner&) const override { return {0, 0, node_.inputs}; }

  std::optional<GatheredChannels> gathered(const Planner& planner, ValueId result) const override {
    if (!scaling_.scale.empty() || planner.assigned_layout(result) != kChannelsLast) return std::nullopt;
    return GatheredChannels{node_.inputs, scaling_.low, scaling_.high};
  }

  void emit(Planner& planner, ValueId result) override {
    // The layout of most of the elements.
    Layout layout;
    std::int64_t most = 0;
    for (const ValueId v : node_.inputs) {
      const Sizes& sizes = planner.info(v).sizes;
      const auto known = planner.layouts(v);
      if (known.empty() || element_count(sizes) <= most) continue;
      most = element_count(sizes);
      layout = known[0];
    }
    if (const auto assigned = planner.assigned_layout(result)) layout = *assigned;
    if (layout.blocked()) layout = kChannelsLast;
    std::vector<int> inputs;
    std::vector<ConcatenationKernel::Part> parts;
    std::int64_t channel = 0;
    bool begun = false;  // were some written in place?
    for (const ValueId v : node_.inputs) {
      const std::int64_t count = planner.info(v).sizes[1];
      if (planner.is_in_slot(v)) {
        begun = true;
      } else {
        inputs.push_back(planner.storage(v, layout));
        parts.push_back({channel, count});
      }
      channel += count;
    }
    if (inputs.empty()) return;
    const Sizes& sizes = planner.info(result).sizes;
    const std::int64_t image = element_count(sizes) / sizes[0] / sizes[1];
    const int target = begun ? planner.storage(result, layout) : planner.add_value(result, layout);
    planner.add_step(std::make_unique<ConcatenationKernel>(std::move(parts), channel, sizes[0], image, layout.channels_last(),
                                                           std::move(scaling_), planner.options().isa),
                     std::move(inputs), {target});
  }

 private:
  const Node& node_;
  Scaling scaling_;
  bool bounded_ = false;
};

}  // namespace

// Leaves concatenations to the tile engine if it can compute the parts on the way.
std::unique_ptr<NodePlan> plan_concatenation(Planner& planner, const Node& node) {
  const ValueInfo& y = planner.info(node.outputs[0]);
  if (y.type != DataType::kFloat || y.sizes.size() < 3 || y.sizes.size() > 5 || element_count(y.sizes) == 0) return nullptr;
  if (AttributeReader(node).number("axis") != 1) return nullptr;
  for (const ValueId v : node.inputs)
    if (!planner.is_stored(v) || element_count(planner.info(v).sizes) == 0) return nullptr;
  return std::make_unique<ConcatenationPlan>(node);
}

}  // namespace rewright::cpu
