// Plans convolutions: which surrounding operators are fused, and which kernel computes the step.
#include <algorithm>

#include "runtime/cpu/kernels/convolution/convolution_steps.h"
#include "runtime/cpu/kernels/convolution/convolution_timing.h"
#include "runtime/cpu/loops/convolution_loops.h"
#include "runtime/cpu/planning/layout_assignment.h"

namespace rewright::cpu {

namespace {

class ConvolutionPlan;
// Null if no kernel computes it.
std::unique_ptr<ConvolutionPlan> plan_of(Planner& planner, FoldedConvolution convolution);

class ConvolutionPlan final : public NodePlan, public ChoosesLayout {
 public:
  // `own`: uses one of our own kernels; operators that it cannot fuse stay separate steps.
  ConvolutionPlan(FoldedConvolution convolution, bool own) : convolution_(std::move(convolution)), own_(own) {}

  bool absorb(Planner& planner, const Chain& chain) override {
    if (!convolution_.constant_weights) return false;
    if (pointwise_) return pointwise_->absorb(planner, chain);
    Epilogue longer = convolution_.epilogue;
    // With open sizes too, since the library would generate code for each set of them.
    const bool is_ours = own_ || (planner.options().open_sizes && (convolution_.image() || convolution_.volume()));
    if (!longer.absorb(planner, chain) || (is_ours && !longer.simple(planner.options().isa))) return false;
    convolution_.epilogue = std::move(longer);
    return true;
  }

  // Absorbs a Relu before a depthwise convolution.
  bool absorb_before(Planner& planner, const Chain& chain) override {
    if (!convolution_.is_by_channel()) return false;
    const auto function = match_eltwise(planner, chain);
    if (!function || function->algorithm != dnnl::algorithm::eltwise_relu || function->alpha != 0) return false;
    convolution_.input = chain.start;
    convolution_.floor = 0;
    own_ = true;
    return true;
  }

  // Absorbs a 1x1 convolution after a depthwise one.
  bool absorb_next(Planner& planner, const Node& next) override {
    if (pointwise_ || !convolution_.is_by_channel() || next.op->name() != convolution_.node.op->name()) return false;
    const auto simple = convolution_.epilogue.simple(planner.options().isa);
    if (!simple || simple->addition || next.inputs[1] == next.inputs[0]) return false;
    const Sizes& window = planner.info(next.inputs[1]).sizes;  // few are 1x1; reading a convolution takes longer than this
    if (std::any_of(window.begin() + 2, window.end(), [](std::int64_t size) { return size != 1; })) return false;
    std::optional<FoldedConvolution> read = read_folded_convolution(planner, next);
    const std::optional<ImageShape> image = read ? read->image() : std::nullopt;
    if (!image || !is_pointwise(*image) || !pays_to_join(*image)) return false;
    pointwise_ = plan_of(planner, *std::move(read));
    if (!pointwise_) return false;
    pointwise_->own_ = own_ = true;
    return true;
  }

  // Absorbs convolutions of the same image that are added: all 1x1, or all depthwise.
  bool absorb_addend(Planner&, ValueId addend, std::unique_ptr<planning::MatchedKernel>& other) override {
    auto* const plan = dynamic_cast<ConvolutionPlan*>(other.get());
    if (plan == nullptr || pointwise_ || plan->pointwise_) return false;
    const FoldedConvolution &a = convolution_, &b = plan->convolution_;
    if (a.input != b.input || a.floor != b.floor) return false;
    if (!(a.is_by_channel() && b.is_by_channel()) && !(a.is_one_by_one() && b.is_one_by_one())) return false;
    // One axis may be seen as rows or as columns, planes of a volume as images or as rows.
    if (a.image()->out_height != b.image()->out_height || a.image()->images != b.image()->images) return false;
    if (!plan->epilogue_without_parallel().operations().empty()) return false;
    const std::vector<ValueId>& additions = a.epilogue.additions();
    if (std::find(additions.begin(), additions.end(), addend) == additions.end()) return false;
    static_cast<void>(other.release());  // it is `plan` now
    parallel_.emplace_back(addend, plan);
    return true;
  }

  // With few channels, both layouts are read.
  LayoutNeeds layout_needs(const Planner& planner) const override {
    LayoutNeeds needs{kNoSuchKernel, 0};
    if (may_be_plain(planner)) {
      constexpr double kOthers = 55;  // multiplications of others than depthwise ones, a nanosecond
      const ImageShape image = *convolution_.image();
      const double last = is_by_channel(image) ? depthwise_nanoseconds(image) : multiplications(image) / kOthers;
      const double plain = plain_convolution_nanoseconds(image, loops_for<ConvolutionLoops>(planner.options().isa).lanes);
      needs.plain = std::max(0.0, plain - last), needs.channels_last = std::max(0.0, last - plain);
    }
    if (convolution_.shape.x[1] >= kFewChannels) needs.operands.push_back(convolution_.input);
    std::vector<const FoldedConvolution*> convolutions;
    collect(convolutions);
    if (pointwise_) convolutions.push_back(&pointwise_->convolution_);
    for (const FoldedConvolution* const c : convolutions)
      needs.operands.insert(needs.operands.end(), c->epilogue.additions().begin(), c->epilogue.additions().end());
    return needs;
  }

  void emit(Planner& planner, ValueId result) override {
    if (!parallel_.empty() && emit_sum(planner, result)) return;
    for (const auto& [addend, plan] : parallel_) plan->emit(planner, addend);
    if (own_ && convolution_.shape.transposed) return add_transposed_convolution(planner, convolution_, result);
    const bool is_simple = convolution_.epilogue.simple(planner.options().isa).has_value();
    if (!convolution_.image() && convolution_.volume() && is_simple && planner.options().open_sizes) {
      add_volume_convolution(planner, convolution_, result);
    } else if (!convolution_.image() || !is_simple) {
      add_library_convolution(planner, convolution_, result, false);
    } else if (pointwise_) {
      add_separable_convolution(planner, convolution_, pointwise_->convolution_, result);
    } else if (const auto layout = planner.assigned_layout(result); layout && layout->plain() && may_be_plain(planner)) {
      add_plain_convolution(planner, convolution_, result);
    } else if (convolution_.is_by_channel()) {
      const FoldedConvolution* const only = &convolution_;
      add_depthwise_convolutions(planner, {&only, 1}, result);
    } else {
      emit_fastest(planner, result);
    }
  }

 private:
  // With one axis too, but not with three.
  bool may_be_plain(const Planner& planner) const {
    if (pointwise_ || !parallel_.empty() || convolution_.shape.transposed || convolution_.shape.x.size() > 4) return false;
    const std::optional<ImageShape> image = convolution_.image();
    return image && has_few_channels(*image) && convolution_.epilogue.simple(planner.options().isa).has_value();
  }
  static double multiplications(const ImageShape& s) {
    return static_cast<double>(s.images * s.outputs * s.out_height * s.out_width * (s.channels / s.group)) *
           static_cast<double>(s.kernel[0] * s.kernel[1]);
  }

  Epilogue epilogue_without_parallel() const {
    Epilogue result = convolution_.epilogue;
    for (const auto& [addend, plan] : parallel_) result = result.without(addend);
    return result;
  }

  // Collects the parallel convolutions, then this one.
  void collect(std::vector<const FoldedConvolution*>& to) const {
    for (const auto& [addend, plan] : parallel_) plan->collect(to);
    to.push_back(&convolution_);
  }

  // Emits all parallel convolutions as one step; false if no kernel computes the epilogue of their sum.
  bool emit_sum(Planner& planner, ValueId result) {
    Epilogue rest = epilogue_without_parallel();
    if (!rest.simple(planner.options().isa)) return false;
    convolution_.epilogue = std::move(rest);
    std::vector<const FoldedConvolution*> convolutions;
    collect(convolutions);
    if (convolution_.is_by_channel())
      add_depthwise_convolutions(planner, convolutions, result);
    else
      add_parallel_convolutions(planner, convolutions, result);
    return true;
  }

  void emit_fastest(Planner& planner, ValueId result) {
    const ConvolutionMethod method = choose_method(planner, convolution_);
    if (method != ConvolutionMethod::kLibrary) return add_own_convolution(planner, convolution_, method, result);
    const ImageShape image = *convolution_.image();
    if (add_library_convolution(planner, convolution_, result, image.group != image.channels)) return;
    add_own_convolution(planner, convolution_, ConvolutionMethod::kDirect, result);
  }

  FoldedConvolution convolution_;
  bool own_;
  std::unique_ptr<ConvolutionPlan> pointwise_;                                  // applied to this one's result
  std::vector<std::pair<ValueId, std::unique_ptr<ConvolutionPlan>>> parallel_;  // added to this one's result
};

std::unique_ptr<ConvolutionPlan> plan_of(Planner& planner, FoldedConvolution convolution) {
  const ConvolutionShape& s = convolution.shape;
  const std::optional<ImageShape> image = convolution.constant_weights ? s.transposed_image() : std::nullopt;
  const Isa isa = planner.options().isa;
  std::optional<bool> slow;  // of the library's kernel; nullopt: none
  const auto is_empty = [](const Sizes& sizes) { return element_count(sizes) == 0; };
  // The library has at least plain loops for all other cases, and describing them takes time: up to 200 ms where transposed
  // ones are wide, for each set of open sizes.
  const bool is_certain = !s.transposed && s.x.size() <= 5 && !is_empty(s.x) && !is_empty(s.w) && !is_empty(s.y);
  const bool is_ours = image && planner.options().open_sizes && pays_as_product(*image, isa, true);
  if (is_certain) slow = false;
  if (!is_certain && !is_ours) try {
      const dnnl::memory::desc any_weights(s.weights().get_dims(), dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
      describe_convolution(s, dnnl_any(s.x), any_weights, false, dnnl_any(s.y), nullptr);
      slow = image && choose_convolution(s, true, nullptr, isa).slow;
    } catch (const dnnl::error&) {
    }
  const bool as_products = image && pays_as_product(*image, isa, slow.value_or(true));
  if (!slow && !as_products) return nullptr;
  return std::make_unique<ConvolutionPlan>(std::move(convolution), as_products);
}

}  // namespace

std::unique_ptr<NodePlan> plan_convolution(Planner& planner, const Node& node) {
  std::optional<FoldedConvolution> convolution = read_folded_convolution(planner, node);
  if (!convolution) return nullptr;
  return plan_of(planner, *std::move(convolution));
}

}  // namespace rewright::cpu
