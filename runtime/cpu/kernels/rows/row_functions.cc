#include "runtime/cpu/kernels/rows/row_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>

#include "base/hash_mix.h"
#include "runtime/cpu/loops/product_loops.h"
#include "runtime/cpu/loops/rows.h"
#include "runtime/cpu/loops/scaling_loops.h"
#include "runtime/cpu/planning/layout_assignment.h"
#include "runtime/cpu/planning/plan_together.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/loops.h"
#include "runtime/planning/row_functions.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr double kElements = 4;  // per nanosecond

class NormalizationKernel final : public Kernel {
 public:
  NormalizationKernel(Isa isa, Count rows, Count columns, planning::RowNormalization normalization, int scale, int shift)
      : loops_(loops_for<ProductLoops>(isa)),
        sums_(loops_for<ScalingLoops>(isa)),
        rows_(rows),
        columns_(columns),
        normalization_(normalization),
        scale_(scale),
        shift_(shift) {}

  // Numbers of outputs for each row's mean, and for 1 / sqrt(variance + epsilon); -1: none.
  void set_statistics(int mean, int inverse) { mean_ = mean, inverse_ = inverse; }

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const float*>(call.inputs[0]);
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const auto input = [&](int number) {
      return number < 0 ? nullptr : reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(number)]);
    };
    const float *const scale = input(scale_), *const shift = input(shift_);
    const double work = static_cast<double>(rows_) * static_cast<double>(columns_);
    call.workers.for_each(rows_, work / kElements, [&](Count r, int) {
      loops_.normalize(y + r * columns_, x + r * columns_, columns_, normalization_.centered,
                       static_cast<float>(normalization_.epsilon), scale, shift);
      if (mean_ >= 0 || inverse_ >= 0) write_statistics(call, x + r * columns_, r);
    });
  }

 private:
  void write_statistics(const Call& call, const float* x, Count row) const {
    const auto count = static_cast<float>(columns_);
    const auto output = [&](int number) {
      return reinterpret_cast<float*>(call.outputs[static_cast<std::size_t>(number)]) + row;
    };
    const float mean = sums_.sum(x, columns_, 0) / count;
    if (mean_ >= 0) *output(mean_) = mean;
    if (inverse_ >= 0)
      *output(inverse_) =
          1 / std::sqrt(sums_.sum_of_squares(x, columns_, mean) / count + static_cast<float>(normalization_.epsilon));
  }

  const ProductLoops& loops_;
  const ScalingLoops& sums_;
  int mean_ = -1, inverse_ = -1;
  Count rows_, columns_;
  planning::RowNormalization normalization_;
  int scale_, shift_;  // numbers of inputs; -1: none
};

class NormalizationPlan final : public NodePlan {
 public:
  NormalizationPlan(const Node& node, planning::RowNormalization normalization) : node_(node), normalization_(normalization) {}

  void emit(Planner& planner, ValueId result) override {
    const Sizes& sizes = planner.info(node_.inputs[0]).sizes;
    std::vector<int> inputs;
    for (const ValueId i : node_.inputs) inputs.push_back(planner.storage(i, kPlain));
    const int scale = inputs.size() > 1 ? 1 : -1, shift = inputs.size() > 2 ? 2 : -1;
    const int target = planner.add_value(result, kPlain);
    const Count columns = element_count(std::span(sizes).last(normalization_.axes));
    planner.add_step(std::make_unique<NormalizationKernel>(planner.options().isa, element_count(sizes) / columns, columns,
                                                           normalization_, scale, shift),
                     std::move(inputs), {target});
  }

 private:
  const Node& node_;
  planning::RowNormalization normalization_;
};

// Instances and groups of channels: rows of several channels, each with a scale and a shift.
struct ChannelGroups {
  Count rows, channels, size;  // channels of a row, and elements of a channel
  Count all_channels;

  Count columns() const { return channels * size; }
  Count first_channel(Count row) const { return row * channels % all_channels; }
};

class GroupNormalizationKernel final : public Kernel {
 public:
  GroupNormalizationKernel(Isa isa, const ChannelGroups& groups, float epsilon)
      : products_(loops_for<ProductLoops>(isa)), loops_(loops_for<RowLoops>(isa)), groups_(groups), epsilon_(epsilon) {}

  void run(const Call& call) const override {
    const auto input = [&](std::size_t n) { return reinterpret_cast<const float*>(call.inputs[n]); };
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const Count columns = groups_.columns();
    const double work = static_cast<double>(groups_.rows) * static_cast<double>(columns);
    call.workers.for_each(groups_.rows, work / kElements, [&](Count r, int) {
      float* y = reinterpret_cast<float*>(call.outputs[0]) + r * columns;
      products_.normalize(y, input(0) + r * columns, columns, true, epsilon_, nullptr, nullptr);
      const Count first = groups_.first_channel(r);
      for (Count c = first; c < first + groups_.channels; ++c, y += groups_.size)
        loops_.scale_row(y, y, groups_.size, input(1)[c], input(2)[c], -kInfinity, kInfinity);
    });
  }

 private:
  const ProductLoops& products_;
  const RowLoops& loops_;
  ChannelGroups groups_;
  float epsilon_;
};

// Rows of doubles, likewise.
class DoubleGroupNormalizationKernel final : public Kernel {
 public:
  DoubleGroupNormalizationKernel(Isa isa, const ChannelGroups& groups, double epsilon)
      : loops_(row_sums<double>(isa)), groups_(groups), epsilon_(epsilon) {}

  void run(const Call& call) const override {
    const auto input = [&](std::size_t n) { return reinterpret_cast<const double*>(call.inputs[n]); };
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const Count columns = groups_.columns();
    const auto count = static_cast<double>(columns);
    call.workers.for_each(groups_.rows, 2 * static_cast<double>(groups_.rows) * count / kElements, [&](Count r, int) {
      const double* x = input(0) + r * columns;
      double* y = reinterpret_cast<double*>(call.outputs[0]) + r * columns;
      const double mean = loops_.sum(x, columns, 0) / count;
      const double inverse = 1 / std::sqrt(loops_.sum_of_squares(x, columns, mean) / count + epsilon_);
      const Count first = groups_.first_channel(r);
      for (Count c = first; c < first + groups_.channels; ++c, x += groups_.size, y += groups_.size)
        loops_.scale(y, x, groups_.size, {mean, inverse * input(1)[c], input(2)[c], -kInfinity, kInfinity});
    });
  }

 private:
  const RowSums<double>& loops_;
  ChannelGroups groups_;
  double epsilon_;
};

class GroupNormalizationPlan final : public NodePlan {
 public:
  GroupNormalizationPlan(const Node& node, Count groups) : node_(node), groups_(groups) {}

  // The groups of such a node; 0: it has no kernel.
  static Count groups(const Planner& planner, const Node& node) {
    constexpr Count kShort = 8;  // elements of a channel
    const Sizes& sizes = planner.info(node.inputs[0]).sizes;
    if (node.inputs.size() != 3 || sizes.size() < 3 || element_count(std::span(sizes).subspan(2)) < kShort || sizes[1] == 0)
      return 0;
    const DataType type = planner.info(node.inputs[0]).type;
    if (type != DataType::kFloat && type != DataType::kDouble) return 0;
    for (const ValueId i : node.inputs)
      if (i == kNoValue || planner.info(i).type != type) return 0;
    if (node.op->name() == "InstanceNormalization") return sizes[1];
    return node.op->name() == "GroupNormalization" ? AttributeReader(node).number("num_groups") : 0;
  }

  void emit(Planner& planner, ValueId result) override {
    const Sizes& sizes = planner.info(node_.inputs[0]).sizes;
    std::vector<int> inputs;
    for (const ValueId i : node_.inputs) inputs.push_back(planner.storage(i, kPlain));
    const int target = planner.add_value(result, kPlain);
    const Isa isa = planner.options().isa;
    const double epsilon = AttributeReader(node_).real("epsilon");
    const ChannelGroups groups{sizes[0] * groups_, sizes[1] / groups_, element_count(std::span(sizes).subspan(2)), sizes[1]};
    std::unique_ptr<Kernel> kernel;
    if (planner.info(result).type == DataType::kDouble)
      kernel = std::make_unique<DoubleGroupNormalizationKernel>(isa, groups, epsilon);
    else
      kernel = std::make_unique<GroupNormalizationKernel>(isa, groups, static_cast<float>(epsilon));
    planner.add_step(std::move(kernel), std::move(inputs), {target});
  }

 private:
  const Node& node_;
  Count groups_;
};

// Rows divided by their norm, which is the sum of magnitudes, or the root of that of squares; 0 where it is 0.
class NormKernel final : public Kernel {
 public:
  NormKernel(Isa isa, Count rows, Count columns, bool of_magnitudes)
      : loops_(loops_for<ScalingLoops>(isa)),
        reals_(real_loops<float>(isa)),
        rows_(rows),
        columns_(columns),
        of_magnitudes_(of_magnitudes) {}

  void run(const Call& call) const override {
    const double work = static_cast<double>(rows_) * static_cast<double>(columns_);
    if (columns_ <= kShort) {  // several rows at once: a call takes longer than a row
      const Count together = kTogether / columns_, blocks = (rows_ + together - 1) / together;
      return call.workers.for_each(blocks, work / kElements, [&](Count block, int) {
        const Count first = block * together * columns_;
        run_short(reinterpret_cast<float*>(call.outputs[0]) + first, reinterpret_cast<const float*>(call.inputs[0]) + first,
                  std::min(together, rows_ - block * together));
      });
    }
    call.workers.for_each(rows_, work / kElements, [&](Count r, int) {
      const auto* const x = reinterpret_cast<const float*>(call.inputs[0]) + r * columns_;
      auto* const y = reinterpret_cast<float*>(call.outputs[0]) + r * columns_;
      const float norm =
          of_magnitudes_ ? loops_.sum_of_magnitudes(x, columns_, 0) : std::sqrt(loops_.sum_of_squares(x, columns_, 0));
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      if (norm < kLeast)
        divide(y, x, norm);
      else
        loops_.scale(y, x, columns_, {0, 1 / norm, 0, -kInfinity, kInfinity});
    });
  }

 private:
  static constexpr Count kShort = 256, kTogether = 1024;              // elements
  static constexpr float kLeast = std::numeric_limits<float>::min();  // the inverse of a smaller norm may be no float

  void divide(float* y, const float* x, float norm) const {
    std::transform(x, x + columns_, y, [&](float v) { return norm == 0 ? 0 : v / norm; });
  }

  void run_short(float* y, const float* x, Count rows) const {
    float terms[kTogether], norms[kTogether], inverses[kTogether];
    const Count n = rows * columns_;
    const auto unary = [&](const Function& function, float* to, const float* from, Count count) {
      reals_.unary(function)(to, from, count);
    };
    if (of_magnitudes_)
      unary(functions::abs, terms, x, n);
    else
      reals_.multiply(terms, x, x, n);
    reals_.row_sum(norms, terms, rows, columns_);
    if (!of_magnitudes_) unary(functions::sqrt, norms, norms, rows);
    reals_.fill(inverses, 1, rows);
    reals_.divide(inverses, inverses, norms, rows);
    reals_.spread(terms, inverses, rows, columns_);
    reals_.multiply(y, x, terms, n);
    for (Count r = 0; r < rows; ++r)
      if (norms[r] < kLeast) divide(y + r * columns_, x + r * columns_, norms[r]);
  }

  const ScalingLoops& loops_;
  const RealLoops<float>& reals_;
  Count rows_, columns_;
  bool of_magnitudes_;
};

class NormPlan final : public NodePlan {
 public:
  explicit NormPlan(const Node& node) : node_(node) {}

  static bool serves(const Planner& planner, const Node& node) {
    if (node.op->name() != "LpNormalization") return false;
    const Sizes sizes = planner.info(node.inputs[0]).sizes;
    return AttributeReader(node).number("axis") == std::ssize(sizes) - 1 && element_count(sizes) > 0;
  }

  void emit(Planner& planner, ValueId result) override {
    const Sizes sizes = planner.info(node_.inputs[0]).sizes;
    const int x = planner.storage(node_.inputs[0], kPlain), target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<NormKernel>(planner.options().isa, element_count(sizes) / sizes.back(), sizes.back(),
                                                  AttributeReader(node_).number("p") == 1),
                     {x}, {target});
  }

 private:
  const Node& node_;
};

// Elements in memory: `count` of them, `inner` apart, are normalized together.
struct SoftmaxShape {
  Count outer = 1, count = 1, inner = 1;
  bool logarithm = false;
};

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const ProductLoops& loops, SoftmaxShape shape) : loops_(loops), shape_(shape) {}

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const float*>(call.inputs[0]);
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const Count outer = shape_.outer, count = shape_.count, inner = shape_.inner;
    const double nanoseconds = static_cast<double>(outer * inner) * static_cast<double>(count) / kElements;
    if (inner == 1) {
      const auto row = shape_.logarithm ? loops_.log_softmax : loops_.softmax;
      return call.workers.for_each(outer, nanoseconds, [&](Count r, int) { row(y + r * count, x + r * count, count); });
    }
    const Count width = kMostVectors * loops_.lanes, blocks = (inner + width - 1) / width;
    call.workers.for_each(outer * blocks, nanoseconds, [&](Count number, int) {
      const Count column = number % blocks * width, at = number / blocks * count * inner + column;
      loops_.softmax_columns(y + at, x + at, count, inner, std::min(width, inner - column), shape_.logarithm);
    });
  }

 private:
  static constexpr Count kMostVectors = 16;  // vectors of columns in a piece of work
  const ProductLoops& loops_;
  SoftmaxShape shape_;
};

class SoftmaxPlan final : public NodePlan, public ChoosesLayout {
 public:
  SoftmaxPlan(const Node& node, planning::Softmax softmax) : node_(node), softmax_(softmax) {}

  LayoutNeeds layout_needs(const Planner& planner) const override {
    const bool image = planner.info(node_.inputs[0]).sizes.size() > 2 && softmax_.first == softmax_.last;
    return {0, image ? 0 : kNoSuchKernel, {node_.inputs[0]}};
  }

  void emit(Planner& planner, ValueId result) override {
    Layout layout = kPlain;
    if (const auto assigned = planner.assigned_layout(result); assigned && assigned->channels_last()) layout = kChannelsLast;
    const int input = planner.storage(node_.inputs[0], layout);
    const int target = planner.add_value(result, layout);
    planner.add_step(std::make_unique<SoftmaxKernel>(loops_for<ProductLoops>(planner.options().isa),
                                                     shape(planner.info(node_.inputs[0]).sizes, layout)),
                     {input}, {target});
  }

 private:
  SoftmaxShape shape(const Sizes& sizes, Layout layout) const {
    std::vector<std::size_t> axes(sizes.size());  // in memory order
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    if (layout.channels_last()) std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
    SoftmaxShape result;
    result.logarithm = softmax_.logarithm;
    bool behind = false;
    for (const std::size_t a : axes) {
      const bool within = a >= softmax_.first && a <= softmax_.last;
      (within ? result.count : behind ? result.inner : result.outer) *= sizes[a];
      behind = behind || within;
    }
    return result;
  }

  const Node& node_;
  planning::Softmax softmax_;
};

// Is it a function of floats that the model computes?
bool may_be_row_function(const Planner& planner, const Node& node, DataType type = DataType::kFloat) {
  if (node.inputs.empty() || node.inputs[0] == kNoValue || planner.constant(node.inputs[0])) return false;
  const ValueInfo &x = planner.info(node.inputs[0]), &y = planner.info(node.outputs[0]);
  return x.type == type && y.type == type && x.sizes == y.sizes;
}

std::vector<ValueInfo> operands_of(const Planner& planner, const Node& node) {
  std::vector<ValueInfo> result;
  for (const ValueId i : node.inputs) result.push_back(i == kNoValue ? ValueInfo{} : planner.info(i));
  return result;
}

// A name for everything that samples of the function depend on.
std::uint64_t name_of(std::string_view what, std::uint64_t operation, const std::vector<ValueInfo>& operands) {
  std::uint64_t name = hash_mix(hash_text(what), operation);
  for (const ValueInfo& operand : operands) name = hash_mix(name, operand.sizes.size());
  return hash_mix(name, operands.size());
}

std::optional<planning::Softmax> softmax_of(const Planner& planner, const Node& node, const std::vector<ValueInfo>& operands) {
  if (!planning::has_sample(node, operands)) return std::nullopt;
  return planner.recognitions().functions.recall(name_of("softmax", planner.operation(node), operands),
                                                 [&] { return planning::find_softmax(node, operands); });
}

std::optional<planning::RowNormalization> normalization_of(const Planner& planner, const Node& node,
                                                           const std::vector<ValueInfo>& operands) {
  if (!planning::may_be_row_function(node, operands)) return std::nullopt;
  return planner.recognitions().functions.recall(name_of("normalization", planner.operation(node), operands),
                                                 [&] { return planning::find_row_normalization(node, operands); });
}

}  // namespace

bool is_row_softmax(const Planner& planner, const Node& node) {
  if (!may_be_row_function(planner, node)) return false;
  const std::vector<ValueInfo> operands = operands_of(planner, node);
  return planning::may_be_row_function(node, operands) &&
         planner.recognitions().functions.recall(name_of("row softmax", planner.operation(node), operands),
                                                 [&] { return planning::is_row_softmax(node, operands); });
}

std::unique_ptr<NodePlan> plan_row_function(Planner& planner, const Node& node) {
  const bool is_double = may_be_row_function(planner, node, DataType::kDouble);
  if (!is_double && !may_be_row_function(planner, node)) return nullptr;
  if (const Count groups = GroupNormalizationPlan::groups(planner, node); groups > 0)
    return std::make_unique<GroupNormalizationPlan>(node, groups);
  if (is_double) return nullptr;
  if (NormPlan::serves(planner, node)) return std::make_unique<NormPlan>(node);
  const std::vector<ValueInfo> operands = operands_of(planner, node);
  if (const auto softmax = softmax_of(planner, node, operands)) return std::make_unique<SoftmaxPlan>(node, *softmax);
  const auto normalization = normalization_of(planner, node, operands);
  return normalization ? std::make_unique<NormalizationPlan>(node, *normalization) : nullptr;
}

bool plan_row_statistics(Planner& planner, const Node& node) {
  if (node.op->name() != "LayerNormalization" || node.outputs[0] == kNoValue || !may_be_row_function(planner, node))
    return false;
  const auto normalization = normalization_of(planner, node, operands_of(planner, node));
  if (!normalization || !normalization->centered) return false;
  for (const ValueId o : node.outputs)
    if (o != kNoValue && planner.info(o).type != DataType::kFloat) return false;
  const Sizes& sizes = planner.info(node.inputs[0]).sizes;
  const Count columns = element_count(std::span(sizes).last(normalization->axes));
  std::vector<int> inputs, targets;
  for (const ValueId i : node.inputs) inputs.push_back(planner.storage(i, kPlain));
  int numbers[3] = {-1, -1, -1};
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    if (node.outputs[o] == kNoValue) continue;
    numbers[o] = static_cast<int>(targets.size());
    targets.push_back(planner.add_value(node.outputs[o], kPlain));
  }
  auto kernel = std::make_unique<NormalizationKernel>(planner.options().isa, element_count(sizes) / columns, columns,
                                                      *normalization, inputs.size() > 1 ? 1 : -1, inputs.size() > 2 ? 2 : -1);
  kernel->set_statistics(numbers[1], numbers[2]);
  planner.add_step(std::move(kernel), std::move(inputs), std::move(targets));
  return true;
}

}  // namespace rewright::cpu
