#include "runtime/planning/row_functions.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "operators/readings/interpreter.h"

namespace rewright::planning {

namespace {

using Count = std::int64_t;

constexpr Count kSampleRows = 3, kSampleColumns = 7;  // of the last two axes; the others have 2 each
constexpr std::size_t kMostAxes = 8;
constexpr double kSmall = 1e-6;  // the scale of the first sample row's elements

using Rows = std::vector<double>;

Sizes sample_sizes(std::size_t rank) {
  Sizes sizes(rank, 2);
  sizes[rank - 1] = kSampleColumns;
  sizes[rank - 2] = kSampleRows;
  return sizes;
}

// The axes of a row: those of the second operand, or the last one. At most all of the first operand's.
std::size_t row_axes(std::span<const ValueInfo> operands) {
  const std::size_t axes = operands.size() > 1 ? operands[1].sizes.size() : 1;
  return std::clamp<std::size_t>(axes, 1, operands[0].sizes.size());
}

}  // namespace

bool has_sample(const Node& node, std::span<const ValueInfo> operands) {
  if (node.op == nullptr || operands.empty() || operands.size() != node.inputs.size()) return false;
  const ValueInfo& x = operands[0];
  return is_real(x.type) && x.sizes.size() >= 2 && x.sizes.size() <= kMostAxes && element_count(x.sizes) > 0;
}

bool may_be_row_function(const Node& node, std::span<const ValueInfo> operands) {
  if (!has_sample(node, operands)) return false;
  const Sizes &x = operands[0].sizes, row(x.end() - static_cast<std::ptrdiff_t>(row_axes(operands)), x.end());
  if (element_count(row) <= 1) return false;
  for (std::size_t i = 1; i < operands.size(); ++i)
    if (node.inputs[i] == kNoValue || operands[i].sizes != row) return false;
  return true;
}

namespace {

// The node's first output in double for sample operands; empty if it cannot be computed. The other operands are rows over the
// last `axes` axes.
Rows sample_rows(const Node& node, const std::vector<Rows>& operands, std::size_t rank, std::size_t axes = 1) {
  const Sizes sizes = sample_sizes(rank), row(sizes.end() - static_cast<std::ptrdiff_t>(axes), sizes.end());
  if (node.inputs.size() > operands.size()) return {};
  std::vector<Tensor> tensors{Tensor::from_reals(DataType::kDouble, sizes, operands[0])};
  for (std::size_t i = 1; i < node.inputs.size(); ++i)
    tensors.push_back(Tensor::from_reals(DataType::kDouble, row, operands[i]));
  std::vector<std::optional<TensorType>> types;
  for (const Tensor& t : tensors) types.emplace_back(TensorType{t.type(), to_indices(t.sizes())});
  try {
    const Definition definition = node.op->define(node.attributes, Inputs::of(std::span(std::as_const(types))));
    if (!definition.has_denotation() || values(definition.outputs()[0].type.shape) != sizes) return {};
    return interpret(*node.op, node.attributes, tensors)[0].reals();
  } catch (const Error&) {
    return {};  // undefined for operands of these sizes
  }
}

// The first `small` elements are small.
Rows sample_operand(std::size_t rank, std::size_t small = kSampleColumns) {
  Rows x(static_cast<std::size_t>(element_count(sample_sizes(rank))));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (i < small ? kSmall : 1.0) * std::sin(static_cast<double>(i * i + 1));
  return x;
}

bool agree(const Rows& a, const Rows& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::fabs(a[i] - b[i]) <= 1e-9 * std::max(1.0, std::fabs(b[i])))) return false;
  return !a.empty();
}

Rows softmax_over(const Rows& x, const Sizes& sizes, std::size_t first, std::size_t last) {
  std::size_t count = 1, inner = 1;
  for (std::size_t a = first; a < sizes.size(); ++a) (a <= last ? count : inner) *= static_cast<std::size_t>(sizes[a]);
  Rows y(x.size());
  for (std::size_t start = 0; start < x.size(); ++start) {
    if (start / inner % count != 0) continue;
    double sum = 0;
    for (std::size_t k = 0; k < count; ++k) sum += std::exp(x[start + k * inner]);
    for (std::size_t k = 0; k < count; ++k) y[start + k * inner] = std::exp(x[start + k * inner]) / sum;
  }
  return y;
}

Rows logarithms(Rows x) {
  for (double& v : x) v = std::log(v);
  return x;
}

// Rows have as many elements as `scale` and `shift`.
Rows normalized(const RowNormalization& n, const Rows& x, const Rows& scale, const Rows& shift,
                double* first_variance = nullptr) {
  Rows y(x.size());
  const std::size_t columns = scale.size();
  const auto count = static_cast<double>(columns);
  for (std::size_t r = 0; r < x.size() / columns; ++r) {
    const double* const row = x.data() + r * columns;
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < columns; ++c) mean += n.centered ? row[c] / count : 0.0;
    for (std::size_t c = 0; c < columns; ++c) variance += (row[c] - mean) * (row[c] - mean) / count;
    if (first_variance != nullptr && r == 0) *first_variance = variance;
    for (std::size_t c = 0; c < columns; ++c)
      y[r * columns + c] = (row[c] - mean) / std::sqrt(variance + n.epsilon) * scale[c] + shift[c];
  }
  return y;
}

}  // namespace

std::optional<Softmax> find_softmax(const Node& node, std::span<const ValueInfo> operands) {
  if (operands.size() != 1 || !has_sample(node, operands)) return std::nullopt;
  const std::size_t rank = operands[0].sizes.size();
  const Rows x = sample_operand(rank), y = sample_rows(node, {x}, rank);
  if (y.empty()) return std::nullopt;
  for (std::size_t first = rank; first-- > 0;)
    for (std::size_t last = rank; last-- > first;) {
      if (last != first && last != rank - 1) continue;  // one axis, or all from one on
      const Rows expected = softmax_over(x, sample_sizes(rank), first, last);
      for (const bool logarithm : {false, true})
        if (std::all_of(y.begin(), y.end(), [&](double v) { return logarithm ? v <= 0 : v >= 0; }) &&
            agree(y, logarithm ? logarithms(expected) : expected))
          return Softmax{first, last, logarithm};
    }
  return std::nullopt;
}

bool is_row_softmax(const Node& node, std::span<const ValueInfo> operands) {
  if (operands.size() != 1 || !may_be_row_function(node, operands)) return false;
  const std::size_t last = operands[0].sizes.size() - 1;
  const std::optional<Softmax> found = find_softmax(node, operands);
  return found && found->first == last && !found->logarithm;
}

std::optional<RowNormalization> find_row_normalization(const Node& node, std::span<const ValueInfo> operands) {
  if (operands.size() > 3 || !may_be_row_function(node, operands)) return std::nullopt;
  const std::size_t rank = operands[0].sizes.size(), axes = row_axes(operands);
  const Sizes sizes = sample_sizes(rank);
  const auto columns = static_cast<std::size_t>(element_count(std::span(sizes).last(axes)));
  // Epsilon follows from rows of small elements, and large ones tell normalizations from other functions: one row of each if
  // there are several, else the same row twice.
  const Rows x = sample_operand(rank, columns), large = sample_operand(rank, 0);
  Rows ones(columns, 1.0), zeros(columns, 0.0), scale, shift;
  for (std::size_t c = 0; c < columns; ++c) {
    scale.push_back(operands.size() > 1 ? 0.5 + 0.3 * static_cast<double>(c) : 1.0);
    shift.push_back(operands.size() > 2 ? 0.7 - 0.2 * static_cast<double>(c) : 0.0);
  }
  const Rows plain = sample_rows(node, {x, ones, zeros}, rank, axes);
  if (plain.empty()) return std::nullopt;
  const Rows both = sample_rows(node, {large, scale, shift}, rank, axes);
  for (const bool centered : {true, false}) {
    // Epsilon follows from the divisor of the first row, whose elements are small.
    RowNormalization n{centered, 1, axes};
    double variance = 0;
    const Rows by_one = normalized(n, x, ones, zeros, &variance);
    const double divisor = by_one[0] * std::sqrt(variance + 1) / plain[0];
    n.epsilon = std::max(0.0, divisor * divisor - variance);
    if (!std::isfinite(n.epsilon)) continue;  // the first row is 0: not a normalization
    if (agree(plain, normalized(n, x, ones, zeros)) && agree(both, normalized(n, large, scale, shift))) return n;
  }
  return std::nullopt;
}

}  // namespace rewright::planning
