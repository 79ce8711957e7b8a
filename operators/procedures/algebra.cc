// Operators on bits, caches and batches; inverses of matrices.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "operators/procedures/procedures.h"
#include "operators/source_builder.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

void run_bit_cast(Call& call) {
  const Tensor& x = call.tensor(0);
  const auto to = static_cast<DataType>(call.integer("to", 0));
  if (packed_bits(to) == 0 || packed_bits(to) != packed_bits(x.type()))
    throw Error(ErrorCode::kBadInput,
                "the bits of " + std::string(name(x.type())) + " are not those of a " + std::string(name(to)));
  Tensor result(to, x.sizes());
  if (!x.bytes().empty()) std::memcpy(result.mutable_bytes().data(), x.bytes().data(), x.bytes().size());
  if (packed_bits(to) < 8) {  // a byte each, with the sign of the type
    const std::vector<std::int64_t> values = result.integers();
    result = Tensor::from_integers(to, x.sizes(), values);
  }
  call.give(std::move(result));
}

// Overwrites entries of an axis of a cache: for each batch from its index on, in a circle if the mode says so. As a scatter of
// whole runs behind that axis, at positions on all axes up to it.
Imported graph_of_tensor_scatter(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId cache = b.input(0), update = b.input(1);
  const Indices sizes = b.shape_of(cache), added = b.shape_of(update);
  const std::size_t axis = checked_axis(source.integer("axis", -2), sizes.size());
  bool fits = axis > 0 && added.size() == sizes.size() && b.type_of(cache).type == b.type_of(update).type;
  for (std::size_t a = 0; a < sizes.size() && fits; ++a) fits = a == axis || added[a] == sizes[a];
  if (!fits) throw Error(ErrorCode::kBadInput, "cache and update do not fit together");
  if (!sizes[axis].is_constant()) {
    reason = "the length of its cache is not known";
    return std::nullopt;
  }
  const auto along = [&](ValueId v, std::size_t of) {
    Indices shape(axis + 1, 1);
    shape[of] = added[of];
    return b.reshaped(v, shape);
  };
  const auto number = [&](std::int64_t n) {
    return b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector<std::int64_t>{n}));
  };
  const std::int64_t length = sizes[axis].value();
  ValueId entries = along(b.add("Range", {}, {{"count", added[axis]}}), axis);
  if (b.input(2) != kNoGradient) entries = b.add("Add", {along(b.cast(b.input(2), DataType::kInt64), 0), entries});
  if (source.text("mode", "linear") == "circular" && length > 0)
    entries = b.add("Mod", {entries, number(length)});
  else  // negative positions do not count from the end
    entries = b.add("Where", {b.add("Less", {entries, number(0)}), number(length), entries});
  Indices shape(added.begin(), added.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  std::vector<ValueId> positions;
  for (std::size_t a = 0; a <= axis; ++a) {
    const ValueId on_axis = a == axis ? entries : along(b.add("Range", {}, {{"count", added[a]}}), a);
    positions.push_back(
        b.add("Unsqueeze", {b.add("Expand", {on_axis}, {{"shape", shape}})}, {{"axes", Indices{Index(axis + 1)}}}));
  }
  const ValueId places = b.add("Concat", positions, {{"axis", Index(axis + 1)}});
  return SourceBuilder::results({b.add("ScatterND", {cache, places, update})});
}

// In training mode: the operator's own form in training, with the averages that it updates as further outputs.
Imported graph_of_batch_normalization(OnnxSource& source, std::string& reason) {
  if (source.opset() < 14 || source.integer("training_mode", 0) == 0) {
    reason = "BatchNormalization in training mode, in a form before opset 14";
    return std::nullopt;
  }
  SourceBuilder b(source);
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < 5; ++i) inputs.push_back(b.input(i));
  const TensorType type = b.type_of(inputs[0]);
  if (type.rank() < 2) throw Error(ErrorCode::kBadInput, "its input has no channels");
  for (std::size_t i = 1; i < 5; ++i)
    if (!(b.shape_of(inputs[i]) == Indices{type.shape[1]}))
      throw Error(ErrorCode::kBadInput, "its parameters are not one for each channel");
  if (byte_size(type.type) < byte_size(DataType::kFloat)) inputs[0] = b.cast(inputs[0], DataType::kFloat);
  const Operator& op = registry().get("BatchNormalization");
  Attributes attributes = op.defaults();
  attributes[op.field("epsilon").value()] = Real(source.real("epsilon", 1e-5f));
  const TrainingForm form = op.training_form()(b, attributes, inputs, source.real("momentum", 0.9f));
  std::vector<ValueId> results{b.cast(form.outputs[0], type.type)};
  for (const auto& [input, value] : form.updated_inputs) results.push_back(value);
  return SourceBuilder::results(results);
}

// The inverse of a matrix of size x size elements, in its place, by elimination with the largest element of each column as
// pivot (Gauss and Jordan). That of a singular one has elements that are infinite or no numbers.
void invert(std::span<double> matrix, std::size_t size) {
  std::vector<double> inverse(matrix.size(), 0);
  for (std::size_t i = 0; i < size; ++i) inverse[i * size + i] = 1;
  const auto row = [size](std::span<double> m, std::size_t i) { return m.subspan(i * size, size); };
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    for (std::size_t i = column + 1; i < size; ++i)
      if (std::abs(matrix[i * size + column]) > std::abs(matrix[pivot * size + column])) pivot = i;
    for (const std::span<double> m : {matrix, std::span(inverse)}) {
      if (pivot != column) std::ranges::swap_ranges(row(m, column), row(m, pivot));
    }
    const double divisor = matrix[column * size + column];
    for (const std::span<double> m : {matrix, std::span(inverse)})
      for (double& element : row(m, column)) element /= divisor;
    for (std::size_t i = 0; i < size; ++i) {
      const double factor = matrix[i * size + column];
      if (i == column || factor == 0) continue;
      for (const std::span<double> m : {matrix, std::span(inverse)})
        for (std::size_t j = 0; j < size; ++j) row(m, i)[j] -= factor * row(m, column)[j];
    }
  }
  std::ranges::copy(inverse, matrix.begin());
}

// ONNX Runtime's Inverse, of matrices in the last two axes.
void run_inverse(Call& call) {
  const Tensor& x = call.tensor(0);
  const Sizes& sizes = x.sizes();
  if (!is_real(x.type())) throw Error(ErrorCode::kBadInput, "its elements are no real numbers");
  if (sizes.size() < 2 || sizes.back() != sizes[sizes.size() - 2])
    throw Error(ErrorCode::kBadInput,
                to_string(TensorType{x.type(), Indices(sizes.begin(), sizes.end())}) + " has no square matrices");
  const auto size = static_cast<std::size_t>(sizes.back());
  std::vector<double> elements = x.reals();
  for (std::size_t first = 0; first < elements.size(); first += size * size) {
    call.checkpoint();
    invert(std::span(elements).subspan(first, size * size), size);
  }
  call.give(Tensor::from_reals(x.type(), sizes, elements));
}

Procedure::KnownTypes infer_inverse(const OnnxAttributes&, const Procedure::KnownTypes& inputs, std::size_t) {
  return {inputs.empty() ? std::nullopt : inputs[0]};
}

}  // namespace

void register_algebra(Procedures& p) {
  p.add("BitCast", run_bit_cast);
  p.add_graph("BatchNormalization", graph_of_batch_normalization);
  p.add_graph("TensorScatter", graph_of_tensor_scatter);
  p.add_foreign("com.microsoft", "Inverse", {.run = run_inverse, .infer = infer_inverse});
}

}  // namespace rewright::operators
