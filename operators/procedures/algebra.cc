// Executable operators on bits, caches and batches.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "operators/procedures/procedures.h"
#include "operators/source_builder.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

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

// Overwrites entries of an axis of a cache: for each batch from its index on, in a circle if the mode says so.
void run_tensor_scatter(Call& call) {
  const Tensor &cache = call.tensor(0), &update = call.tensor(1);
  const Sizes &sizes = cache.sizes(), &added = update.sizes();
  const std::size_t axis = checked_axis(call.integer("axis", -2), sizes.size());
  if (axis == 0 || added.size() != sizes.size() || cache.type() != update.type())
    throw Error(ErrorCode::kBadInput, "cache and update do not fit together");
  for (std::size_t a = 0; a < sizes.size(); ++a)
    if (a == axis ? added[a] > sizes[a] : added[a] != sizes[a])
      throw Error(ErrorCode::kBadInput, "the update does not fit the cache");
  const bool circular = call.text("mode", "linear") == "circular";
  const std::vector<std::int64_t> starts =
      call.has_input(2) ? call.integers(2) : std::vector<std::int64_t>(static_cast<std::size_t>(sizes[0]));
  if (static_cast<std::int64_t>(starts.size()) != sizes[0]) throw Error(ErrorCode::kBadInput, "write_indices has a wrong size");
  const AxisView to(sizes, axis), from(added, axis);
  std::vector<std::int64_t> places(static_cast<std::size_t>(cache.size()));  // in the cache, followed by the update
  std::iota(places.begin(), places.end(), 0);
  for (std::int64_t b = 0; b < to.before && cache.size() > 0; ++b)
    for (std::int64_t i = 0; i < from.size; ++i) {
      std::int64_t entry = starts[static_cast<std::size_t>(b * sizes[0] / to.before)] + i;
      if (circular && to.size > 0) entry %= to.size;
      if (entry < 0 || entry >= to.size) throw Error(ErrorCode::kBadInput, "an entry is written outside of the cache");
      for (std::int64_t a = 0; a < to.after; ++a)
        places[static_cast<std::size_t>((b * to.size + entry) * to.after + a)] =
            cache.size() + (b * from.size + i) * from.after + a;
    }
  const Tensor both[] = {cache.reshaped({cache.size()}), update.reshaped({update.size()})};
  call.give(picked(concatenated(both, 0), sizes, places));
}

// As operators: for each entry of the update along the axis, the position where it is written.
std::optional<std::vector<OnnxValue>> graph_of_tensor_scatter(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId cache = b.input(0), update = b.input(1);
  const Indices sizes = b.shape_of(cache), added = b.shape_of(update);
  const std::size_t axis = checked_axis(source.integer("axis", -2), sizes.size());
  bool fits = axis > 0 && added.size() == sizes.size();
  for (std::size_t a = 0; a < sizes.size() && fits; ++a) fits = a == axis || added[a] == sizes[a];
  if (!fits) throw Error(ErrorCode::kBadInput, "cache and update do not fit together");
  if (!sizes[axis].is_constant()) {
    reason = "the length of its cache is not known";
    return std::nullopt;
  }
  const auto along = [&](ValueId v, std::size_t of) {
    Indices shape(added.size(), 1);
    shape[of] = added[of];
    return b.reshaped(v, shape);
  };
  ValueId places = along(b.add("Range", {}, {{"count", added[axis]}}), axis);
  if (b.input(2) != kNoGradient) places = b.add("Add", {along(b.cast(b.input(2), DataType::kInt64), 0), places});
  if (source.text("mode", "linear") == "circular" && !(sizes[axis] == Index(0)))
    places = b.add("Mod", {places, b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{sizes[axis].value()}))});
  return SourceBuilder::results(
      {b.add("ScatterElements", {cache, b.add("Expand", {places}, {{"shape", added}}), update}, {{"axis", Index(axis)}})});
}

// In training mode: normalizes by the mean and variance of the batch, and updates their running averages. Inputs: x, scale,
// bias, and the averages so far.
void run_batch_normalization(Call& call) {
  const Tensor& x = call.tensor(0);
  if (call.opset() < 14 || call.integer("training_mode", 0) == 0)
    throw Error(ErrorCode::kUnsupported, "BatchNormalization in training mode, in a form before opset 14");
  if (x.sizes().size() < 2) throw Error(ErrorCode::kBadInput, "its input has no channels");
  const AxisView view(x.sizes(), 1);
  const auto channels = static_cast<std::size_t>(view.size);
  const std::vector<double> scale = call.reals(1), bias = call.reals(2), values = x.reals();
  std::vector<double> mean = call.reals(3), variance = call.reals(4), result(values.size());
  for (std::size_t i = 1; i < 5; ++i)
    if (call.tensor(i).size() != view.size) throw Error(ErrorCode::kBadInput, "its parameters are not one for each channel");
  const double epsilon = call.real("epsilon", 1e-5f), momentum = call.real("momentum", 0.9f);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto for_each = [&](const auto& visit) {
      for (std::int64_t b = 0; b < view.before && x.size() > 0; ++b)
        for (std::int64_t a = 0; a < view.after; ++a)
          visit(static_cast<std::size_t>((b * view.size + static_cast<std::int64_t>(c)) * view.after + a));
    };
    const auto count = static_cast<double>(view.before * view.after);
    double sum = 0, squares = 0;
    for_each([&](std::size_t i) { sum += values[i]; });
    for_each([&](std::size_t i) { squares += (values[i] - sum / count) * (values[i] - sum / count); });
    const double deviation = std::sqrt(squares / count + epsilon);
    for_each([&](std::size_t i) { result[i] = (values[i] - sum / count) / deviation * scale[c] + bias[c]; });
    mean[c] = mean[c] * momentum + sum / count * (1 - momentum);
    variance[c] = variance[c] * momentum + squares / count * (1 - momentum);
  }
  call.give(Tensor::from_reals(x.type(), x.sizes(), result));
  call.give(Tensor::from_reals(call.tensor(3).type(), {view.size}, mean));
  call.give(Tensor::from_reals(call.tensor(4).type(), {view.size}, variance));
}

}  // namespace

void register_algebra(Procedures& p) {
  p.add("BitCast", run_bit_cast);
  p.add("BatchNormalization", run_batch_normalization);
  p.add("TensorScatter", run_tensor_scatter);
  p.add_graph("TensorScatter", graph_of_tensor_scatter);
}

}  // namespace rewright::operators
