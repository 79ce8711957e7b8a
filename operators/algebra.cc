// Executed operators on matrices, bits and positions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "operators/pieces.h"
#include "operators/procedures.h"

namespace rewright {

namespace {

// By elimination with the largest pivots.
double determinant(std::vector<double> a, std::int64_t n) {
  double result = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t r = k + 1; r < n; ++r)
      if (std::fabs(a[static_cast<std::size_t>(r * n + k)]) > std::fabs(a[static_cast<std::size_t>(pivot * n + k)])) pivot = r;
    const double value = a[static_cast<std::size_t>(pivot * n + k)];
    if (value == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(a.begin() + pivot * n, a.begin() + (pivot + 1) * n, a.begin() + k * n);
      result = -result;
    }
    result *= value;
    for (std::int64_t r = k + 1; r < n; ++r) {
      const double factor = a[static_cast<std::size_t>(r * n + k)] / value;
      for (std::int64_t c = k; c < n; ++c)
        a[static_cast<std::size_t>(r * n + c)] -= factor * a[static_cast<std::size_t>(k * n + c)];
    }
  }
  return result;
}

void run_det(Call& call) {
  const Tensor& x = call.tensor(0);
  Sizes sizes = x.sizes();
  if (sizes.size() < 2 || sizes.back() != sizes[sizes.size() - 2]) throw Error(ErrorCode::kBadInput, "matrices must be square");
  const std::int64_t n = sizes.back();
  sizes.resize(sizes.size() - 2);
  require_few(element_count(sizes));
  const std::vector<double> values = x.reals();
  std::vector<double> results;
  for (std::int64_t m = 0; m < element_count(sizes); ++m) {
    call.checkpoint();
    results.push_back(determinant({values.begin() + m * n * n, values.begin() + (m + 1) * n * n}, n));
  }
  call.give(Tensor::from_reals(x.type(), std::move(sizes), results));
}

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

// A cache with some entries of an axis overwritten: for each batch from its index on, in a circle where the mode says so.
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

// In training: normalized by the mean and variance of the batch, of which running averages go on. Inputs: x, scale, bias, and
// the averages so far.
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
  p.add("Det", run_det);
  p.add("BitCast", run_bit_cast);
  p.add("BatchNormalization", run_batch_normalization);
  p.add("TensorScatter", run_tensor_scatter);
}

}  // namespace rewright
