#include <algorithm>
#include <mutex>

#include "base/hash_mix.h"
#include "runtime/cpu/kernels/combined.h"
#include "runtime/cpu/kernels/convolution/convolution_steps.h"

namespace rewright::cpu {

namespace {

using dnnl::memory;

// The packed forms that plans of other sizes have chosen for the same weights.
struct PackedForms {
  std::mutex mutex;
  std::vector<memory::desc> forms;
};

class LibraryStep {
 public:
  LibraryStep(Planner& planner, const FoldedConvolution& convolution, ValueId result)
      : planner_(planner), c_(convolution), result_(result), epilogue_(convolution.epilogue) {
    has_bias_ = planner.has(c_.node, 2) || (epilogue_.affine() && c_.has_shift());
    function_ = epilogue_.take_last_function(planner.options().isa);
    describe();
  }

  // Divides the convolution if that is faster; false if it should be divided but cannot.
  bool cut() {
    if (!c_.constant_weights) return true;
    cut_ = ConvolutionCut::make(c_.shape, epilogue_, planner_.options(), primitive_, x_layout_, y_layout_, has_bias_);
    if (cut_ && !cut_->empty()) primitive_.weights = cut_->weights();
    return cut_.has_value();
  }

  void add() {
    const bool in_parts = cut_ && !cut_->empty();
    if (c_.constant_weights && !in_parts && planner_.options().constants) use_known_form();
    inputs_ = {planner_.storage(c_.node.inputs[0], x_layout_)};
    arguments_ = {{DNNL_ARG_SRC, primitive_.source, 0, -1}, {DNNL_ARG_DST, primitive_.result, -1, 0}};
    if (c_.constant_weights)
      add_constants();
    else
      add_weights();
    const std::vector<int> numbers = epilogue_.argument_numbers();
    for (std::size_t n = 0; n < numbers.size(); ++n)
      add_input(numbers[n], primitive_.result, planner_.storage(epilogue_.additions()[n], y_layout_));
    const int target = planner_.add_value(result_, y_layout_);
    planner_.add_step(make_kernel(), std::move(inputs_), {target});
  }

 private:
  // First without the added tensors, to choose layouts: these are read in the result's layout.
  void describe() {
    const Epilogue* const without_additions = epilogue_.additions().empty() ? &epilogue_ : nullptr;
    const bool is_chosen = c_.with_bias && has_bias_ && !function_;
    primitive_ = is_chosen ? *c_.with_bias : choose_convolution(c_.shape, has_bias_, without_additions, planner_.options().isa);
    x_layout_ = *layout_of(primitive_.source, c_.shape.x);
    y_layout_ = *layout_of(primitive_.result, c_.shape.y);
    if (without_additions != nullptr) return;
    const memory::desc any_weights(c_.shape.weights().get_dims(), memory::data_type::f32, memory::format_tag::any);
    primitive_ = describe_convolution(c_.shape, primitive_.source, any_weights, has_bias_, primitive_.result, &epilogue_);
  }

  // Replaces the primitive by the same kernel on weights packed by another plan, if it can read them.
  void use_known_form() {
    const std::shared_ptr<PackedForms> known = planner_.recognitions().functions.recall(
        hash_mix(hash_text("forms"), hash_text(c_.origin(planner_).key())), [] { return std::make_shared<PackedForms>(); });
    const std::lock_guard lock(known->mutex);
    if (std::find(known->forms.begin(), known->forms.end(), primitive_.weights) != known->forms.end()) return;
    for (const memory::desc& form : known->forms) {
      try {
        ConvolutionPrimitive other =
            describe_convolution(c_.shape, primitive_.source, form, has_bias_, primitive_.result, &epilogue_);
        if (other.name != primitive_.name || other.scratchpad.get_size() > primitive_.scratchpad.get_size()) continue;
        primitive_ = std::move(other);
        return;
      } catch (const dnnl::error&) {
      }
    }
    known->forms.push_back(primitive_.weights);
  }

  void add_input(int number, const memory::desc& desc, int storage) {
    arguments_.push_back({number, desc, static_cast<int>(inputs_.size()), -1});
    inputs_.push_back(storage);
  }

  memory::desc bias_desc() const { return {{c_.shape.y[1]}, memory::data_type::f32, memory::format_tag::a}; }

  void add_constants() {
    owned_.push_back(packed(planner_, c_.origin(planner_), DNNL_ARG_WEIGHTS, c_.shape.weights(), primitive_.weights,
                            [&] { return c_.scaled_weights(planner_); }));
    if (has_bias_) owned_.push_back(constant_argument(DNNL_ARG_BIAS, bias_desc(), c_.shifted_bias(planner_)));
  }

  // Adds a step that packs weights computed by the graph.
  void add_weights() {
    int weights = planner_.storage(c_.node.inputs[1], kPlain);
    if (c_.shape.weights() != primitive_.weights) {
      const int plain = weights;
      weights = planner_.add_scratch(primitive_.weights.get_size());
      planner_.add_step(make_reorder(c_.shape.weights(), primitive_.weights), {plain}, {weights});
    }
    add_input(DNNL_ARG_WEIGHTS, primitive_.weights, weights);
    if (has_bias_) add_input(DNNL_ARG_BIAS, bias_desc(), planner_.storage(c_.node.inputs[2], kPlain));
  }

  std::unique_ptr<Kernel> make_kernel() {
    if (cut_ && !cut_->empty()) return cut_->kernel(planner_.options().threads, arguments_, owned_, function_);
    auto kernel = library_kernel(primitive_, c_.shape, epilogue_, std::move(arguments_), std::move(owned_));
    if (!function_) return kernel;
    return followed_by(std::move(kernel), function_, stored_elements(c_.shape.y, y_layout_));
  }

  Planner& planner_;
  const FoldedConvolution& c_;
  ValueId result_;
  Epilogue epilogue_;        // the part that oneDNN computes ...
  ResultFunction function_;  // ... and the function after it; null: none
  bool has_bias_ = false;
  ConvolutionPrimitive primitive_;
  Layout x_layout_, y_layout_;
  std::optional<ConvolutionCut> cut_;
  std::vector<int> inputs_;
  std::vector<DnnlKernel::Argument> arguments_;
  std::vector<DnnlKernel::Owned> owned_;
};

}  // namespace

bool add_library_convolution(Planner& planner, const FoldedConvolution& convolution, ValueId result, bool may_leave) {
  LibraryStep step(planner, convolution, result);
  if (!step.cut() && may_leave) return false;
  step.add();
  return true;
}

}  // namespace rewright::cpu
