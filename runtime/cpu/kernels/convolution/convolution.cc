// Convolutions by oneDNN: weights packed once, blocked layouts between operators, and the elementwise operators behind them
// done before the result is stored.
#include <algorithm>

#include "runtime/cpu/kernels/combined.h"
#include "runtime/cpu/kernels/convolution/convolution_choice.h"
#include "runtime/cpu/kernels/convolution/library_convolution.h"
#include "runtime/cpu/planning/layout_assignment.h"
#include "runtime/cpu/planning/measured_choices.h"

namespace rewright::cpu {

std::unique_ptr<NodePlan> plan_convolution(Planner& planner, const Node& node);

namespace {

using dnnl::memory;

class ConvolutionPlan final : public NodePlan, public ChoosesLayout {
 public:
  ConvolutionPlan(const Node& node, ConvolutionShape shape, bool constant_weights)
      : node_(node), shape_(std::move(shape)), constant_weights_(constant_weights), input_(node.inputs[0]), epilogue_(1) {}

  bool absorb(Planner& planner, const Chain& chain) override {
    if (!constant_weights_) return false;
    if (pointwise_) return pointwise_->absorb(planner, chain);
    Epilogue longer = epilogue_;
    if (!longer.absorb(planner, chain) || (own_ && !longer.simple(planner.options().isa))) return false;
    epilogue_ = std::move(longer);
    return true;
  }

  bool absorb_before(Planner& planner, const Chain& chain) override {
    if (!is_by_channel()) return false;
    const auto function = match_eltwise(planner, chain);
    if (!function || function->algorithm != dnnl::algorithm::eltwise_relu || function->alpha != 0) return false;
    input_ = chain.start;
    floor_ = 0;
    own_ = true;
    return true;
  }

  // A 1x1 convolution behind one by channels.
  bool absorb_next(Planner& planner, const Node& next) override {
    if (pointwise_ || !is_by_channel() || next.op->name() != node_.op->name()) return false;
    const auto simple = epilogue_.simple(planner.options().isa);
    if (!simple || simple->addition || next.inputs[1] == next.inputs[0]) return false;
    const std::optional<ConvolutionShape> shape = read_convolution(planner, next, false);
    const std::optional<PictureShape> picture = shape ? shape->picture() : std::nullopt;
    if (!picture || !is_pointwise(*picture) || !pays_to_join(*picture)) return false;
    auto plan = plan_convolution(planner, next);
    if (!plan) return false;
    std::unique_ptr<ConvolutionPlan> pointwise(static_cast<ConvolutionPlan*>(plan.release()));
    if (!pointwise->constant_weights_) return false;
    pointwise_ = std::move(pointwise);
    pointwise_->own_ = own_ = true;
    return true;
  }

  // Convolutions of the same picture that are added: 1x1, or by channels.
  bool absorb_addend(Planner&, ValueId addend, std::unique_ptr<planning::Taken>& other) override {
    auto* const plan = dynamic_cast<ConvolutionPlan*>(other.get());
    if (plan == nullptr || pointwise_ || plan->pointwise_ || plan->input_ != input_ || plan->floor_ != floor_) return false;
    if (!(is_by_channel() && plan->is_by_channel()) && !(is_one_by_one() && plan->is_one_by_one())) return false;
    const std::vector<ValueId>& additions = epilogue_.additions();
    if (!plan->without_parallel().operations().empty()) return false;
    if (std::find(additions.begin(), additions.end(), addend) == additions.end()) return false;
    other.release();
    parallel_.emplace_back(addend, plan);
    return true;
  }

  // Few channels are read in either layout.
  LayoutNeeds layout_needs(const Planner&) const override {
    LayoutNeeds needs{kNoSuchKernel, 0};
    if (shape_.x[1] >= kFewChannels) needs.operands.push_back(input_);
    std::vector<const ConvolutionPlan*> plans;
    collect(plans);
    if (pointwise_) plans.push_back(pointwise_.get());
    for (const ConvolutionPlan* const plan : plans)
      needs.operands.insert(needs.operands.end(), plan->epilogue_.additions().begin(), plan->epilogue_.additions().end());
    return needs;
  }

  // Chooses the kernel of make_transposed_convolution. Operators that it cannot fuse stay steps of their own.
  void compute_as_products() { own_ = true; }

  void emit(Planner& planner, ValueId result) override {
    if (!parallel_.empty()) {
      Epilogue rest = without_parallel();
      if (rest.simple(planner.options().isa)) {
        epilogue_ = std::move(rest);
        return is_by_channel() ? emit_by_channel(planner, result) : emit_one_by_one(planner, result);
      }
      for (const auto& [addend, plan] : parallel_) plan->emit(planner, addend);
    }
    if (own_ && shape_.transposed) return emit_transposed(planner, result);
    const std::optional<PictureShape> picture = shape_.picture();
    const auto simple = epilogue_.simple(planner.options().isa);
    if (picture && constant_weights_ && simple) {
      if (is_by_channel()) return emit_by_channel(planner, result);
      const ConvolutionMethod method = this->method(planner, *picture, *simple);
      const bool by_channel = picture->group == picture->channels;
      if (method != ConvolutionMethod::kLibrary) return emit_own(planner, result, *picture, method);
      if (emit_library(planner, result, !by_channel)) return;
      return emit_own(planner, result, *picture, ConvolutionMethod::kDirect);
    }
    emit_library(planner, result, false);
  }

 private:
  bool is_by_channel() const {
    const std::optional<PictureShape> picture = shape_.picture();
    return picture && constant_weights_ && cpu::is_by_channel(*picture);
  }

  bool is_one_by_one() const {
    const std::optional<PictureShape> picture = shape_.picture();
    return picture && constant_weights_ && is_pointwise(*picture);
  }

  // By measured times, if there are any, else by estimate.
  ConvolutionMethod method(Planner& planner, const PictureShape& picture, const Epilogue::Simple& simple) const {
    const PlanOptions& options = planner.options();
    if (options.convolution) return *options.convolution;
    ConvolutionMethod estimate = fastest_convolution(picture, options.isa, options.transformed_convolutions);
    if (picture.group == picture.channels) return estimate;
    if (estimate == ConvolutionMethod::kLibrary && choose_convolution(shape_, true, without_additions(), options.isa).slow)
      estimate = ConvolutionMethod::kDirect;
    if (estimate == ConvolutionMethod::kLibrary && pays_to_share_weights(picture, options.threads))
      estimate = ConvolutionMethod::kDirect;
    if (options.choices == nullptr) return estimate;
    const std::vector<ConvolutionMethod> methods = close_convolutions(picture, options.isa, options.transformed_convolutions);
    const auto estimated = std::find(methods.begin(), methods.end(), estimate);
    if (estimated == methods.end()) return estimate;
    std::vector<std::string> names;
    for (const ConvolutionMethod m : methods) names.emplace_back(name(m));
    return methods[options.choices->choose(problem_name(picture, simple.addition, simple.function != nullptr), names,
                                           static_cast<std::size_t>(estimated - methods.begin()), [&] {
                                             return time_convolutions(alone(planner, simple), methods,
                                                                      picture.channels < kFewChannels, options);
                                           })];
  }

  // A graph of this convolution and what is done with its sums, as far as that takes time.
  Graph alone(const Planner& planner, const Epilogue::Simple& simple) const {
    const auto typed = [&](ValueId value) {
      const ValueInfo i = planner.info(value);
      return TensorType{i.type, to_indices(i.sizes)};
    };
    Graph graph;
    std::vector<ValueId> inputs{graph.add_input("x", typed(node_.inputs[0])),
                                graph.add_constant(planner.constant(node_.inputs[1])),
                                graph.add_constant(shifted_bias(planner))};
    ValueId y = graph.add_node(*node_.op, node_.attributes, inputs)[0];
    const auto then = [&](std::string_view op, const std::vector<ValueId>& operands) {
      const Operator& o = registry().get(op);
      return graph.add_node(o, o.defaults(), operands)[0];
    };
    if (simple.addition) y = then("Add", {y, graph.add_input("added", typed(node_.outputs[0]))});
    if (simple.function != nullptr) y = then("Mul", {y, then("Sigmoid", {y})});
    graph.add_output("y", y);
    return graph;
  }

  Epilogue without_parallel() const {
    Epilogue result = epilogue_;
    for (const auto& [addend, plan] : parallel_) result = result.without(addend);
    return result;
  }
  // Those that are added, theirs, and this one, the last.
  void collect(std::vector<const ConvolutionPlan*>& to) const {
    for (const auto& [addend, plan] : parallel_) plan->collect(to);
    to.push_back(this);
  }

  // What a kernel of our own needs beside the shape; the epilogue is simple.
  Finish finish(const Planner& planner) const {
    const auto simple = epilogue_.simple(planner.options().isa);
    return {bias(planner), simple->addition, simple->low, simple->high, simple->function};
  }
  std::vector<float> bias(const Planner& planner) const {
    const Tensor shifted = shifted_bias(planner);
    const auto b = shifted.data<float>();
    return {b.begin(), b.end()};
  }
  // `number` tells apart those that compute one result.
  Weights weights(Planner& planner, ValueId result, std::size_t number = 0) const {
    return {[this, &planner] { return scaled_weights(planner); },
            [&planner, result, number](const std::string& how, std::size_t bytes, const std::function<void(std::byte*)>& fill) {
              return planner.prepared(result, number == 0 ? how : how + ' ' + std::to_string(number), bytes, fill);
            }};
  }

  void emit_by_channel(Planner& planner, ValueId result) {
    const Isa isa = planner.options().isa;
    std::vector<const ConvolutionPlan*> plans;
    collect(plans);
    std::vector<DepthwiseConvolution> convolutions;
    for (const ConvolutionPlan* const plan : plans) {
      DepthwiseConvolution c{*plan->shape_.picture(), plan->weights(planner, result, convolutions.size()), {}, floor_};
      if (plan == this)
        c.finish = finish(planner);
      else
        c.finish.bias = plan->bias(planner);
      convolutions.push_back(std::move(c));
    }
    convolutions.front().finish.addend = convolutions.back().finish.addend;
    if (pointwise_) {
      Finish finish = pointwise_->finish(planner);
      const int target = place(planner, result, finish);
      return add_own(planner, target,
                     make_separable_convolution(convolutions[0], pointwise_->shape_.y[1], pointwise_->weights(planner, result),
                                                std::move(finish), isa, planner.options().threads),
                     pointwise_->epilogue_);
    }
    add_own(planner, planner.add_value(result, kChannelsLast), make_depthwise_convolution(convolutions, isa), epilogue_);
  }

  void emit_one_by_one(Planner& planner, ValueId result) {
    std::vector<const ConvolutionPlan*> plans;
    collect(plans);
    std::vector<Weights> weights;
    Finish finish = this->finish(planner);
    for (const ConvolutionPlan* const plan : plans) {
      weights.push_back(plan->weights(planner, result));
      if (plan == this) continue;
      const std::vector<float> bias = plan->bias(planner);
      for (std::size_t c = 0; c < bias.size(); ++c) finish.bias[c] += bias[c];
    }
    const Isa isa = planner.options().isa;
    const int target = place(planner, result, finish);
    add_own(planner, target,
            make_parallel_convolution(*shape_.picture(), weights, std::move(finish), isa, planner.options().threads),
            epilogue_);
  }

  // Where the result lies: among the channels that it is concatenated with, or by itself.
  static int place(Planner& planner, ValueId result, Finish& finish) {
    const auto room = planner.take_slot(result, finish.function == nullptr);
    if (!room) return planner.add_value(result, kChannelsLast);
    finish.y_stride = room->stride;
    finish.low = std::clamp(finish.low, room->low, room->high);
    finish.high = std::clamp(finish.high, room->low, room->high);
    return room->storage;
  }

  void add_own(Planner& planner, int target, std::unique_ptr<Kernel> kernel, const Epilogue& epilogue) {
    std::vector<int> inputs{planner.storage(input_, kChannelsLast)};
    for (const ValueId v : epilogue.additions()) inputs.push_back(planner.storage(v, kChannelsLast));
    planner.add_step(std::move(kernel), std::move(inputs), {target});
  }

  void emit_own(Planner& planner, ValueId result, const PictureShape& picture, ConvolutionMethod method) {
    const Isa isa = planner.options().isa;
    Finish finish = this->finish(planner);
    const Weights weights = this->weights(planner, result);
    const int target =
        method == ConvolutionMethod::kGrouped ? planner.add_value(result, kChannelsLast) : place(planner, result, finish);
    std::unique_ptr<Kernel> kernel;
    if (method == ConvolutionMethod::kDirect)
      kernel = make_direct_convolution(picture, weights, std::move(finish), isa, planner.options().threads);
    else if (method == ConvolutionMethod::kGrouped)
      kernel = make_grouped_convolution(picture, weights, std::move(finish), isa, planner.options().threads);
    else if (method == ConvolutionMethod::kFourier)
      kernel = make_fourier_convolution(picture, fourier_size(picture, isa), weights, std::move(finish), isa,
                                        planner.options().threads);
    else
      kernel = make_winograd_convolution(picture, method == ConvolutionMethod::kWinograd2 ? 2 : 4, weights, std::move(finish),
                                         isa, planner.options().threads);
    add_own(planner, target, std::move(kernel), epilogue_);
  }

  void emit_transposed(Planner& planner, ValueId result) {
    add_own(planner, planner.add_value(result, kChannelsLast),
            make_transposed_convolution(*shape_.transposed_picture(), weights(planner, result), finish(planner),
                                        planner.options().isa, planner.options().threads),
            epilogue_);
  }

  // Does nothing but say so if it may leave the convolution to another kernel, which several threads can share.
  bool emit_library(Planner& planner, ValueId result, bool may_leave) {
    const memory::desc any_weights(shape_.weights().get_dims(), memory::data_type::f32, memory::format_tag::any);
    const bool bias = planner.has(node_, 2) || (epilogue_.affine() && has_shift());
    const Epilogue whole_epilogue = epilogue_;
    const RowLoops::Unary function = epilogue_.take_last_function(planner.options().isa);
    // First without additions, to learn the layouts; what they add then comes in the result's.
    ConvolutionPrimitive p = choose_convolution(shape_, bias, without_additions(), planner.options().isa);
    const Layout x_layout = *layout_of(p.source, shape_.x), y_layout = *layout_of(p.result, shape_.y);
    const std::vector<memory::desc> additions(epilogue_.additions().size(), p.result);
    if (!additions.empty()) p = describe_convolution(shape_, p.source, any_weights, bias, p.result, &epilogue_);

    std::optional<ConvolutionCut> parts;
    if (constant_weights_) parts = ConvolutionCut::make(shape_, epilogue_, planner.options(), p, x_layout, y_layout, bias);
    if (constant_weights_ && !parts && may_leave) {
      epilogue_ = whole_epilogue;
      return false;
    }
    const bool in_parts = parts && !parts->empty();
    if (in_parts) p.weights = parts->weights();

    std::vector<int> inputs{planner.storage(node_.inputs[0], x_layout)};
    std::vector<DnnlKernel::Argument> arguments{{DNNL_ARG_SRC, p.source, 0, -1}, {DNNL_ARG_DST, p.result, -1, 0}};
    std::vector<DnnlKernel::Owned> owned;
    if (constant_weights_) {
      owned.push_back(
          packed(planner, result, DNNL_ARG_WEIGHTS, shape_.weights(), p.weights, [&] { return scaled_weights(planner); }));
      if (bias) {
        const memory::desc d({shape_.y[1]}, memory::data_type::f32, memory::format_tag::a);
        owned.push_back(packed(planner, result, DNNL_ARG_BIAS, d, d, [&] { return shifted_bias(planner); }));
      }
    } else {
      int weights = planner.storage(node_.inputs[1], kPlain);
      if (shape_.weights() != p.weights) {
        const int plain = weights;
        weights = planner.add_scratch(p.weights.get_size());
        planner.add_step(make_reorder(shape_.weights(), p.weights), {plain}, {weights});
      }
      arguments.push_back({DNNL_ARG_WEIGHTS, p.weights, static_cast<int>(inputs.size()), -1});
      inputs.push_back(weights);
      if (bias) {
        const memory::desc d({shape_.y[1]}, memory::data_type::f32, memory::format_tag::a);
        arguments.push_back({DNNL_ARG_BIAS, d, static_cast<int>(inputs.size()), -1});
        inputs.push_back(planner.storage(node_.inputs[2], kPlain));
      }
    }
    const std::vector<int> numbers = epilogue_.argument_numbers();
    for (std::size_t n = 0; n < additions.size(); ++n) {
      arguments.push_back({numbers[n], additions[n], static_cast<int>(inputs.size()), -1});
      inputs.push_back(planner.storage(epilogue_.additions()[n], y_layout));
    }
    const int target = planner.add_value(result, y_layout);
    std::unique_ptr<Kernel> kernel;
    if (in_parts) {
      kernel = parts->kernel(planner.options().threads, arguments, owned, function);
    } else {
      kernel = library_kernel(p, shape_, epilogue_, std::move(arguments), std::move(owned));
      if (function != nullptr) kernel = followed_by(std::move(kernel), function, stored_elements(shape_.y, y_layout));
    }
    planner.add_step(std::move(kernel), std::move(inputs), {target});
    return true;
  }

  // What follows, to choose layouts by: where tensors are added, these say in which they are to come.
  const Epilogue* without_additions() const { return epilogue_.additions().empty() ? &epilogue_ : nullptr; }

  bool has_shift() const {
    return std::any_of(epilogue_.affine()->shift.begin(), epilogue_.affine()->shift.end(), [](double v) { return v != 0; });
  }

  Tensor scaled_weights(const Planner& planner) const {
    const Tensor& given = planner.constant(node_.inputs[1]);
    if (!epilogue_.affine()) return given;
    const float* w = given.data<float>().data();
    Tensor result(DataType::kFloat, given.sizes());
    float* to = result.mutable_data<float>().data();
    const std::vector<double>& scale = epilogue_.affine()->scale;
    const std::size_t axis = shape_.output_axis();
    std::int64_t inner = 1;
    for (std::size_t a = axis + 1; a < shape_.w.size(); ++a) inner *= shape_.w[a];
    const std::int64_t outputs = shape_.w[axis], rows = given.size() / inner;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t channel = row % outputs;
      if (shape_.transposed)  // outputs of the input channel's group
        channel += row / outputs / (shape_.w[0] / shape_.group) * outputs;
      const double by = scale[static_cast<std::size_t>(channel)];
      for (std::int64_t i = row * inner; i < (row + 1) * inner; ++i) to[i] = static_cast<float>(w[i] * by);
    }
    return result;
  }

  Tensor shifted_bias(const Planner& planner) const {
    Tensor result(DataType::kFloat, {shape_.y[1]});
    const auto to = result.mutable_data<float>();
    for (std::size_t c = 0; c < to.size(); ++c) {
      const double b = planner.has(node_, 2) ? planner.constant(node_.inputs[2]).data<float>()[c] : 0.0;
      to[c] = static_cast<float>(epilogue_.affine() ? b * epilogue_.affine()->scale[c] + epilogue_.affine()->shift[c] : b);
    }
    return result;
  }

  const Node& node_;
  ConvolutionShape shape_;
  bool constant_weights_;
  ValueId input_;  // what is read: the node's first input, or what that is a function of
  float floor_ = -std::numeric_limits<float>::infinity();
  bool own_ = false;  // a kernel of our own has to do it
  Epilogue epilogue_;
  std::unique_ptr<ConvolutionPlan> pointwise_;                                  // behind it
  std::vector<std::pair<ValueId, std::unique_ptr<ConvolutionPlan>>> parallel_;  // what they compute is added
};

}  // namespace

std::unique_ptr<NodePlan> plan_convolution(Planner& planner, const Node& node) {
  std::optional<ConvolutionShape> read = read_convolution(planner, node, node.op->name() == "ConvTranspose");
  if (!read) return nullptr;
  ConvolutionShape s = std::move(*read);
  const bool bias_is_constant = !planner.has(node, 2) || planner.constant(node.inputs[2]);
  const bool constant = planner.constant(node.inputs[1]) && bias_is_constant;
  const std::optional<PictureShape> picture = constant ? s.transposed_picture() : std::nullopt;
  const Isa isa = planner.options().isa;
  std::optional<bool> slow;  // the library's kernel; nothing: it has none
  try {
    const memory::desc any_weights(s.weights().get_dims(), memory::data_type::f32, memory::format_tag::any);
    describe_convolution(s, dnnl_any(s.x), any_weights, false, dnnl_any(s.y), nullptr);
    slow = picture && choose_convolution(s, true, nullptr, isa).slow;
  } catch (const dnnl::error&) {
  }
  const bool as_products = picture && pays_as_product(*picture, isa, slow.value_or(true));
  if (!slow && !as_products) return nullptr;
  auto plan = std::make_unique<ConvolutionPlan>(node, std::move(s), constant);
  if (as_products) plan->compute_as_products();
  return plan;
}

}  // namespace rewright::cpu
