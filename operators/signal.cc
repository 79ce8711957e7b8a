// Fourier transforms and what goes with them.
#include <cmath>
#include <complex>
#include <numbers>

#include "operators/pieces.h"
#include "operators/procedures.h"

namespace rewright {

namespace {

using Complex = std::complex<double>;

// y[k] = sum(n) x[n] * exp(-+ 2 pi i k n / N), for the first `bins` k.
std::vector<Complex> transformed(Call& call, const std::vector<Complex>& x, std::int64_t bins, bool inverse) {
  const auto length = static_cast<std::int64_t>(x.size());
  std::vector<Complex> roots(x.size()), y(static_cast<std::size_t>(bins));
  for (std::int64_t n = 0; n < length; ++n)
    roots[static_cast<std::size_t>(n)] =
        std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(n) / static_cast<double>(length));
  for (std::int64_t k = 0; k < bins; ++k) {
    call.checkpoint();
    Complex total = 0;
    std::int64_t phase = 0;
    for (std::int64_t n = 0; n < length; ++n) {
      total += x[static_cast<std::size_t>(n)] * roots[static_cast<std::size_t>(phase)];
      phase = (phase + k) % length;
    }
    y[static_cast<std::size_t>(k)] = inverse ? total / static_cast<double>(length) : total;
  }
  return y;
}

void run_dft(Call& call) {
  const Tensor& x = call.tensor(0);
  const std::size_t rank = x.sizes().size();
  if (rank < 2 || (x.sizes().back() != 1 && x.sizes().back() != 2))
    throw Error(ErrorCode::kBadInput, "the last axis must hold a real, or a real and an imaginary part");
  const std::int64_t given_axis = call.opset() < 20 ? call.integer("axis", 1) : call.has_input(2) ? call.integer_input(2) : -2;
  const std::size_t axis = checked_axis(given_axis, rank);
  if (axis + 1 == rank) throw Error(ErrorCode::kBadInput, "the transformed axis is that of real and imaginary parts");
  const bool inverse = call.integer("inverse", 0) != 0, onesided = call.integer("onesided", 0) != 0;
  const std::int64_t parts = x.sizes().back();
  const AxisView view(x.sizes(), axis);
  const bool to_real = inverse && onesided;  // from the half that is not redundant
  const std::int64_t length = call.has_input(1) ? call.integer_input(1) : to_real ? 2 * (view.size - 1) : view.size;
  if (length < 1 || length > kMostElements) throw Error(ErrorCode::kBadInput, "the length is " + std::to_string(length));
  const std::int64_t bins = onesided && !inverse ? length / 2 + 1 : length;
  const std::int64_t result_parts = to_real ? 1 : 2, inner = view.after / parts;
  const std::vector<double> values = x.reals();
  Sizes sizes = x.sizes();
  sizes[axis] = bins;
  sizes.back() = result_parts;
  std::vector<double> result = zeros(sizes);
  for (std::int64_t b = 0; b < view.before && !result.empty(); ++b)
    for (std::int64_t a = 0; a < inner; ++a) {
      std::vector<Complex> signal(static_cast<std::size_t>(length));
      for (std::int64_t n = 0; n < std::min(view.size, length); ++n) {
        const double* v = values.data() + ((b * view.size + n) * inner + a) * parts;
        signal[static_cast<std::size_t>(n)] = {v[0], parts == 2 ? v[1] : 0};
      }
      if (to_real)
        for (std::int64_t n = length / 2 + 1; n < length; ++n)
          signal[static_cast<std::size_t>(n)] = std::conj(signal[static_cast<std::size_t>(length - n)]);
      const std::vector<Complex> y = transformed(call, signal, bins, inverse);
      for (std::int64_t k = 0; k < bins; ++k) {
        double* to = result.data() + ((b * bins + k) * inner + a) * result_parts;
        to[0] = y[static_cast<std::size_t>(k)].real();
        if (result_parts == 2) to[1] = y[static_cast<std::size_t>(k)].imag();
      }
    }
  call.give(Tensor::from_reals(x.type(), std::move(sizes), result));
}

void run_stft(Call& call) {
  const Tensor& x = call.tensor(0);
  // Exporters leave the last axis of a real signal out.
  const bool is_real_signal = x.sizes().size() == 2 || (x.sizes().size() == 3 && x.sizes()[2] == 1);
  if (!is_real_signal && (x.sizes().size() != 3 || x.sizes()[2] != 2))
    throw Error(ErrorCode::kBadInput, "the signal must have shape [batches, length], or [batches, length, 1 or 2]");
  const std::int64_t step = call.integer_input(1), parts = is_real_signal ? 1 : 2;
  const std::vector<double> window = call.has_input(2) ? call.reals(2) : std::vector<double>();
  const std::int64_t length = call.has_input(3) ? call.integer_input(3)
                              : !window.empty() ? static_cast<std::int64_t>(window.size())
                                                : x.sizes()[1];
  if (step < 1 || length < 1 || length > x.sizes()[1] ||
      (!window.empty() && static_cast<std::int64_t>(window.size()) != length))
    throw Error(ErrorCode::kBadInput, "step, window and frame length do not fit the signal");
  const std::int64_t frames = (x.sizes()[1] - length) / step + 1;
  const std::int64_t bins = call.integer("onesided", 1) != 0 ? length / 2 + 1 : length;
  const Sizes sizes{x.sizes()[0], frames, bins, 2};
  require_few(element_count(sizes));
  const std::vector<double> values = x.reals();
  std::vector<double> result;
  for (std::int64_t b = 0; b < x.sizes()[0]; ++b)
    for (std::int64_t f = 0; f < frames; ++f) {
      std::vector<Complex> frame(static_cast<std::size_t>(length));
      for (std::int64_t n = 0; n < length; ++n) {
        const double* v = values.data() + (b * x.sizes()[1] + f * step + n) * parts;
        const double w = window.empty() ? 1 : window[static_cast<std::size_t>(n)];
        frame[static_cast<std::size_t>(n)] = {v[0] * w, parts == 2 ? v[1] * w : 0};
      }
      for (const Complex& y : transformed(call, frame, bins, false)) result.insert(result.end(), {y.real(), y.imag()});
    }
  call.give(Tensor::from_reals(x.type(), sizes, result));
}

// Triangles over the bins of a spectrum, at equal steps of the mel scale, m = 2595 log10(1 + f / 700).
void run_mel_weights(Call& call) {
  const std::int64_t filters = call.integer_input(0), length = call.integer_input(1), rate = call.integer_input(2);
  if (filters < 0 || length < 1 || rate < 1 || filters > kMostElements / (length / 2 + 1))
    throw Error(ErrorCode::kBadInput, "the numbers of filters and bins, or the rate, are wrong");
  const auto mel = [](double f) { return 2595 * std::log10(1 + f / 700); };
  const double low = mel(call.real_input(3)), step = (mel(call.real_input(4)) - low) / static_cast<double>(filters + 2);
  const std::int64_t bins = length / 2 + 1;
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < filters + 2; ++i) {
    const double f = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    edges.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(length + 1) * f / static_cast<double>(rate))));
  }
  std::vector<double> result(static_cast<std::size_t>(bins * filters));
  const auto set = [&](std::int64_t bin, std::int64_t filter, double value) {
    if (bin >= 0 && bin < bins) result[static_cast<std::size_t>(bin * filters + filter)] = value;
  };
  for (std::size_t i = 0; i + 2 < edges.size(); ++i) {
    const std::int64_t from = edges[i], center = edges[i + 1], to = edges[i + 2], filter = static_cast<std::int64_t>(i);
    if (center == from) set(center, filter, 1);
    for (std::int64_t b = std::max<std::int64_t>(from, 0); b <= std::min(center, bins) && center > from; ++b)
      set(b, filter, static_cast<double>(b - from) / static_cast<double>(center - from));
    for (std::int64_t b = std::max<std::int64_t>(center, 0); b < std::min(to, bins); ++b)
      set(b, filter, static_cast<double>(to - b) / static_cast<double>(to - center));
  }
  const auto type = static_cast<DataType>(call.integer("output_datatype", static_cast<int>(DataType::kFloat)));
  call.give(Tensor::from_reals(type, {bins, filters}, result));
}

}  // namespace

void register_signal(Procedures& p) {
  p.add("DFT", run_dft);
  p.add("STFT", run_stft);
  p.add("MelWeightMatrix", run_mel_weights);
}

}  // namespace rewright
