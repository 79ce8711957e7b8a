#include "runtime/cpu/rows/row_functions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/cpu/planner.h"
#include "runtime/cpu/product/product_loops.h"
#include "runtime/cpu/tile/stages.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr Count kSampleRows = 3, kSampleColumns = 7;  // of the last two axes; the others have 2 each
constexpr std::size_t kMostAxes = 8;
constexpr double kSmall = 1e-6;  // elements of the first sample row
constexpr double kElements = 4;  // a nanosecond

// The node's first output in double, for rows of samples and, in place of operands that have one element for each column,
// vectors of samples. Empty if its denotation cannot be evaluated so.
using Rows = std::vector<double>;
Sizes sample_sizes(std::size_t rank) {
  Sizes sizes(rank, 2);
  sizes[rank - 1] = kSampleColumns;
  sizes[rank - 2] = kSampleRows;
  return sizes;
}

Rows sample_rows(const Planner& planner, const Node& node, const std::vector<Rows>& operands) {
  const ValueInfo x = planner.info(node.inputs[0]);
  const Sizes sizes = sample_sizes(x.sizes.size());
  std::vector<std::optional<TensorType>> types{TensorType{DataType::kDouble, to_indices(sizes)}};
  std::vector<TileOperand> tiles{{DataType::kDouble, sizes, kPlain}};
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue || planner.info(node.inputs[i]).sizes != Sizes{x.sizes.back()}) return {};
    tiles.push_back({DataType::kDouble, {kSampleColumns}, kPlain});
    types.emplace_back(TensorType{DataType::kDouble, {Index(kSampleColumns)}});
  }
  if (tiles.size() > operands.size()) return {};
  const Definition definition = node.op->define(node.attributes, Inputs::of(std::span(std::as_const(types))));
  if (!definition.has_denotation() || values(definition.outputs()[0].type.shape) != sizes) return {};
  const Output& output = definition.outputs()[0];
  const auto program = compile_stages(output.element, output.position, tiles[0], tiles, {Isa::kBaseline, true});
  if (!program) return {};
  std::vector<const std::byte*> data;
  for (std::size_t i = 0; i < tiles.size(); ++i) data.push_back(reinterpret_cast<const std::byte*>(operands[i].data()));
  Rows result(static_cast<std::size_t>(element_count(sizes))), scratch(program->scratch_bytes() / sizeof(double) + 1);
  program->run(data, reinterpret_cast<std::byte*>(result.data()), reinterpret_cast<std::byte*>(scratch.data()), Workers(1));
  return result;
}

Rows sample_operand(std::size_t rank) {
  Rows x(static_cast<std::size_t>(element_count(sample_sizes(rank))));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (i < kSampleColumns ? kSmall : 1.0) * std::sin(static_cast<double>(i * i + 1));
  return x;
}

bool agree(const Rows& a, const Rows& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::fabs(a[i] - b[i]) <= 1e-9 * std::max(1.0, std::fabs(b[i])))) return false;
  return !a.empty();
}

// (x - mean) / sqrt(variance + epsilon) * scale + shift, where the mean may be left out: the square is then that of x.
struct Normalization {
  bool centered = true;
  double epsilon = 0;
};

Rows normalized(const Normalization& n, const Rows& x, const Rows& scale, const Rows& shift, double* first_variance = nullptr) {
  Rows y(x.size());
  for (Count r = 0; r < std::ssize(x) / kSampleColumns; ++r) {
    const double* const row = x.data() + r * kSampleColumns;
    double mean = 0, variance = 0;
    for (Count c = 0; c < kSampleColumns; ++c) mean += n.centered ? row[c] / kSampleColumns : 0.0;
    for (Count c = 0; c < kSampleColumns; ++c) variance += (row[c] - mean) * (row[c] - mean) / kSampleColumns;
    if (first_variance != nullptr && r == 0) *first_variance = variance;
    for (Count c = 0; c < kSampleColumns; ++c)
      y[r * kSampleColumns + c] = (row[c] - mean) / std::sqrt(variance + n.epsilon) * scale[c] + shift[c];
  }
  return y;
}

std::optional<Normalization> match_normalization(const Planner& planner, const Node& node) {
  if (node.inputs.size() > 3) return std::nullopt;
  const Rows x = sample_operand(planner.info(node.inputs[0]).sizes.size());
  Rows ones(kSampleColumns, 1.0), zeros(kSampleColumns, 0.0), scale, shift;
  for (Count c = 0; c < kSampleColumns; ++c) {
    scale.push_back(node.inputs.size() > 1 ? 0.5 + 0.3 * static_cast<double>(c) : 1.0);
    shift.push_back(node.inputs.size() > 2 ? 0.7 - 0.2 * static_cast<double>(c) : 0.0);
  }
  const Rows plain = sample_rows(planner, node, {x, ones, zeros}), both = sample_rows(planner, node, {x, scale, shift});
  if (plain.empty() || both.empty()) return std::nullopt;
  for (const bool centered : {true, false}) {
    // What the first row's elements are divided by says what epsilon is.
    Normalization n{centered, 1};
    double variance = 0;
    const Rows by_one = normalized(n, x, ones, zeros, &variance);
    const double divisor = by_one[0] * std::sqrt(variance + 1) / plain[0];
    n.epsilon = std::max(0.0, divisor * divisor - variance);
    if (!std::isfinite(n.epsilon)) continue;  // what is 0 on the first row is no normalization
    if (agree(plain, normalized(n, x, ones, zeros)) && agree(both, normalized(n, x, scale, shift))) return n;
  }
  return std::nullopt;
}

class RowKernel final : public Kernel {
 public:
  // Without a normalization: softmax.
  RowKernel(const ProductLoops& loops, Count rows, Count columns, std::optional<Normalization> normalization, int scale,
            int shift)
      : loops_(loops), rows_(rows), columns_(columns), normalization_(normalization), scale_(scale), shift_(shift) {}

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const float*>(call.inputs[0]);
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const auto input = [&](int number) {
      return number < 0 ? nullptr : reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(number)]);
    };
    const float *const scale = input(scale_), *const shift = input(shift_);
    const double work = static_cast<double>(rows_) * static_cast<double>(columns_);
    call.workers.for_each(rows_, work / kElements, [&](Count r, int) {
      const float* const from = x + r * columns_;
      float* const to = y + r * columns_;
      if (normalization_)
        loops_.normalize(to, from, columns_, normalization_->centered, static_cast<float>(normalization_->epsilon), scale,
                         shift);
      else
        loops_.softmax(to, from, columns_);
    });
  }

 private:
  const ProductLoops& loops_;
  Count rows_, columns_;
  std::optional<Normalization> normalization_;
  int scale_, shift_;  // inputs; -1: none
};

class RowPlan final : public NodePlan {
 public:
  RowPlan(const Node& node, std::optional<Normalization> normalization) : node_(node), normalization_(normalization) {}

  void emit(Planner& planner, ValueId result) override {
    const Sizes sizes = planner.info(node_.inputs[0]).sizes;
    std::vector<int> inputs;
    for (const ValueId i : node_.inputs) inputs.push_back(planner.storage(i, kPlain));
    const int scale = inputs.size() > 1 ? 1 : -1, shift = inputs.size() > 2 ? 2 : -1;
    const int target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<RowKernel>(product_loops(planner.options().isa), element_count(sizes) / sizes.back(),
                                                 sizes.back(), normalization_, scale, shift),
                     std::move(inputs), {target});
  }

 private:
  const Node& node_;
  std::optional<Normalization> normalization_;
};

// Has the node a reduction, and a result of its operand's sizes, with rows of more than one element?
bool may_be_row_function(const Planner& planner, const Node& node) {
  if (node.inputs.empty() || node.inputs[0] == kNoValue || planner.constant(node.inputs[0])) return false;
  const ValueInfo x = planner.info(node.inputs[0]), y = planner.info(node.outputs[0]);
  if (x.type != DataType::kFloat || y.type != DataType::kFloat || x.sizes != y.sizes) return false;
  return x.sizes.size() >= 2 && x.sizes.size() <= kMostAxes && x.sizes.back() > 1 && element_count(x.sizes) > 0;
}

}  // namespace

bool is_row_softmax(const Planner& planner, const Node& node) {
  if (node.inputs.size() != 1 || !may_be_row_function(planner, node)) return false;
  const Rows x = sample_operand(planner.info(node.inputs[0]).sizes.size());
  Rows expected(x.size());
  for (Count r = 0; r < std::ssize(x) / kSampleColumns; ++r) {
    double sum = 0;
    for (Count c = 0; c < kSampleColumns; ++c) sum += std::exp(x[r * kSampleColumns + c]);
    for (Count c = 0; c < kSampleColumns; ++c) expected[r * kSampleColumns + c] = std::exp(x[r * kSampleColumns + c]) / sum;
  }
  return agree(sample_rows(planner, node, {x}), expected);
}

std::unique_ptr<NodePlan> plan_row_function(Planner& planner, const Node& node) {
  if (!may_be_row_function(planner, node)) return nullptr;
  if (is_row_softmax(planner, node)) return std::make_unique<RowPlan>(node, std::nullopt);
  const auto normalization = match_normalization(planner, node);
  return normalization ? std::make_unique<RowPlan>(node, normalization) : nullptr;
}

}  // namespace rewright::cpu
