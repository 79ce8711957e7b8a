// Fourier transforms, windows and filters.
#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <numbers>
#include <optional>
#include <utility>

#include "operators/definitions/axes.h"
#include "operators/procedures/fourier.h"
#include "operators/procedures/procedures.h"
#include "operators/source_builder.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

using Complex = std::complex<double>;

// A transform of one signal: `given` entries of one part (real) or two (complex) each, cut or padded with zeros to `length`.
struct Transform {
  std::int64_t given, parts, length, bins;
  bool inverse = false, to_real = false;  // to_real: from the half of the spectrum that is not redundant

  std::int64_t result_parts() const { return to_real ? 1 : 2; }
  // Transforms `count` signals. `at(s, n, p)` is part p of entry n of signal s, and put(s, k, p, value) gets those of results.
  template <class At, class Put>
  void each(std::int64_t count, const std::function<void()>& checkpoint, const At& at, const Put& put) const {
    if (length == 0 || bins == 0) return;
    const Fourier fourier(length);
    Batch batch(length);
    // Two signals of real numbers, or two spectra of such signals, are one transform: their sum, the second one times i.
    const std::int64_t together = parts == 1 || to_real ? 2 : 1;
    for (std::int64_t first = 0; first < count;) {
      if (checkpoint) checkpoint();
      const auto fill = [&](std::int64_t step) {
        batch.clear();
        for (std::int64_t l = 0; l < kLanes; ++l)
          for (std::int64_t k = 0; k < step && first + l * step + k < count; ++k)
            add(batch, l, k == 1, [&](std::int64_t n, std::int64_t p) { return at(first + l * step + k, n, p); });
      };
      std::int64_t step = together;
      fill(step);
      if (step == 2 && !batch.is_finite()) fill(step = 1);  // what is not finite would spread to the other signal
      inverse ? fourier.transform(batch.im, batch.re) : fourier.transform(batch.re, batch.im);
      for (std::int64_t l = 0; l < kLanes; ++l)
        for (std::int64_t k = 0; k < step && first + l * step + k < count; ++k) {
          const std::int64_t signal = first + l * step + k;
          give(batch, l, step == 2, k == 1, [&](std::int64_t n, std::int64_t p, double v) { put(signal, n, p, v); });
        }
      first += kLanes * step;
    }
  }

  // The transform is linear; this is its matrix, [given * parts, bins * result parts]. nullopt if it would be too big.
  std::optional<Tensor> matrix(DataType type) const {
    constexpr std::int64_t kMost = 1 << 24;
    const std::int64_t rows = given * parts, columns = bins * result_parts();
    if (rows > kMost / std::max<std::int64_t>(columns, 1)) return std::nullopt;
    std::vector<double> elements(static_cast<std::size_t>(rows * columns));
    each(
        rows, {}, [&](std::int64_t row, std::int64_t n, std::int64_t p) { return n * parts + p == row ? 1.0 : 0.0; },
        [&](std::int64_t row, std::int64_t k, std::int64_t p, double v) {
          elements[static_cast<std::size_t>(row * columns + k * result_parts() + p)] = v;
        });
    return Tensor::from_reals(type, {rows, columns}, elements);
  }

 private:
  static constexpr std::int64_t kLanes = Fourier::kLanes;
  struct Batch {
    explicit Batch(std::int64_t length) : re(static_cast<std::size_t>(length * kLanes)), im(re.size()) {}
    void clear() {
      std::fill(re.begin(), re.end(), 0.0);
      std::fill(im.begin(), im.end(), 0.0);
    }
    bool is_finite() const {
      const auto finite = [](double v) { return std::isfinite(v); };
      return std::all_of(re.begin(), re.end(), finite) && std::all_of(im.begin(), im.end(), finite);
    }
    static std::size_t place(std::int64_t n, std::int64_t lane) { return static_cast<std::size_t>(n * kLanes + lane); }
    std::vector<double> re, im;
  };

  // Adds a signal to a lane, times i if it is the second one.
  template <class At>
  void add(Batch& batch, std::int64_t lane, bool second, const At& at) const {
    const auto put = [&](std::int64_t n, double re, double im) {
      batch.re[Batch::place(n, lane)] += second ? -im : re;
      batch.im[Batch::place(n, lane)] += second ? re : im;
    };
    if (!to_real) {
      for (std::int64_t n = 0; n < std::min(given, length); ++n) put(n, at(n, 0), parts == 2 ? at(n, 1) : 0);
      return;
    }
    // The other half of the spectrum; what is its own conjugate is real.
    for (std::int64_t n = 0; n < std::min(given, length / 2 + 1); ++n) {
      const bool is_real = n == 0 || 2 * n == length;
      const double re = at(n, 0), im = parts == 2 && !is_real ? at(n, 1) : 0;
      put(n, re, im);
      if (!is_real) put(length - n, re, -im);
    }
  }

  template <class Put>
  void give(const Batch& batch, std::int64_t lane, bool of_two, bool second, const Put& put) const {
    const double scale = inverse ? 1 / static_cast<double>(length) : 1;
    for (std::int64_t k = 0; k < bins; ++k) {
      double re = batch.re[Batch::place(k, lane)], im = batch.im[Batch::place(k, lane)];
      if (to_real) {
        put(k, 0, (second ? im : re) * scale);
        continue;
      }
      if (of_two) {  // the spectrum of a real signal is its own conjugate, mirrored
        const std::size_t mirrored = Batch::place((length - k) % length, lane);
        const double mirrored_re = batch.re[mirrored], mirrored_im = batch.im[mirrored];
        const Complex first((re + mirrored_re) / 2, (im - mirrored_im) / 2),
            other((im + mirrored_im) / 2, (mirrored_re - re) / 2);
        re = second ? other.real() : first.real();
        im = second ? other.imag() : first.imag();
      }
      put(k, 0, re * scale);
      put(k, 1, im * scale);
    }
  }
};

struct Dft {
  std::size_t axis;
  Transform transform;
};
// `given_axis`: the axis, if it is an input.
std::size_t read_dft_axis(const OnnxAttributes& node, int opset, std::size_t rank, std::int64_t parts,
                          std::optional<std::int64_t> given_axis) {
  if (rank < 2 || (parts != 1 && parts != 2))
    throw Error(ErrorCode::kBadInput, "the last axis must hold a real, or a real and an imaginary part");
  const std::size_t axis = checked_axis(opset < 20 ? node.integer("axis", 1) : given_axis.value_or(-2), rank);
  if (axis + 1 == rank) throw Error(ErrorCode::kBadInput, "the transformed axis is that of real and imaginary parts");
  return axis;
}

// `dft_length`: the length, if it is an input.
Dft read_dft(const OnnxAttributes& node, int opset, const Sizes& sizes, std::optional<std::int64_t> dft_length,
             std::optional<std::int64_t> given_axis) {
  const std::size_t axis = read_dft_axis(node, opset, sizes.size(), sizes.empty() ? 0 : sizes.back(), given_axis);
  const bool inverse = node.integer("inverse", 0) != 0, onesided = node.integer("onesided", 0) != 0;
  const bool to_real = inverse && onesided;
  const std::int64_t length = dft_length.value_or(to_real ? 2 * (sizes[axis] - 1) : sizes[axis]);
  // A signal without elements has no frequencies, and one frequency transformed back to reals has length 2 * (1 - 1).
  const bool is_empty = !dft_length && (to_real ? sizes[axis] == 1 : sizes[axis] == 0 && !onesided);
  if ((length < 1 && !is_empty) || length > kMostElements)
    throw Error(ErrorCode::kBadInput, "the length is " + std::to_string(length));
  const std::int64_t bins = onesided && !inverse ? length / 2 + 1 : length;
  return {axis, {sizes[axis], sizes.back(), length, bins, inverse, to_real}};
}

void run_dft(Call& call) {
  const Tensor& x = call.tensor(0);
  const auto number = [&](std::size_t i) { return call.has_input(i) ? std::optional(call.integer_input(i)) : std::nullopt; };
  const Dft dft = read_dft(call, call.opset(), x.sizes(), number(1), number(2));
  const std::size_t axis = dft.axis;
  const Transform& transform = dft.transform;
  const AxisView view(x.sizes(), axis);
  const std::int64_t parts = transform.parts, result_parts = transform.result_parts(), inner = view.after / parts;
  const std::vector<double> values = x.reals();
  Sizes sizes = x.sizes();
  sizes[axis] = transform.bins;
  sizes.back() = result_parts;
  std::vector<double> result = zeros(sizes);
  // Entry n of signal s is number [s / inner, n, s % inner] of a tensor with `size` entries.
  const auto place = [&](std::int64_t s, std::int64_t size, std::int64_t n) {
    return (s / inner * size + n) * inner + s % inner;
  };
  transform.each(
      result.empty() ? 0 : view.before * inner, [&] { call.checkpoint(); },
      [&](std::int64_t s, std::int64_t n, std::int64_t p) {
        return values[static_cast<std::size_t>(place(s, view.size, n) * parts + p)];
      },
      [&](std::int64_t s, std::int64_t k, std::int64_t p, double v) {
        result[static_cast<std::size_t>(place(s, transform.bins, k) * result_parts + p)] = v;
      });
  call.give(Tensor::from_reals(x.type(), std::move(sizes), result));
}

// Reads an optional number that a graph needs at import. False, with the reason, if it is given but not known.
bool read_number(const OnnxSource& source, std::size_t input, std::optional<std::int64_t>& number, std::string& reason) {
  if (source.input(input) == kAbsent) return true;
  const auto contents = source.contents(source.input(input));
  if (!contents || contents->size() != 1 || !(*contents)[0].is_constant()) {
    reason = "the value of its input " + std::to_string(input) + " is not known";
    return false;
  }
  number = (*contents)[0].value();
  return true;
}

// The product of x [..., given, parts] with a transform's matrix [given * parts, bins * result_parts].
ValueId product_with(GraphBuilder& b, ValueId x, ValueId matrix, const Index& bins, std::int64_t result_parts) {
  Indices shape = b.shape_of(x);
  Indices flat(shape.begin(), shape.end() - 2);
  flat.push_back(shape[shape.size() - 2] * shape.back());
  shape[shape.size() - 2] = bins, shape.back() = result_parts;
  return b.reshaped(b.add("MatMul", {b.reshaped(x, flat), matrix}), shape);
}

// The matrix of a transform of unknown length: cosines and sines of 2 pi (n k mod length) / length.
ValueId open_matrix(GraphBuilder& b, DataType type, const Index& length, std::int64_t parts, const Index& bins, bool inverse) {
  const auto numbers = [&](const Index& start, const Index& count, const Indices& shape) {
    return b.reshaped(b.add("Range", {}, {{"start", start}, {"count", count}}), shape);
  };
  const ValueId whole = numbers(length, 1, {1, 1});
  const ValueId turns = b.add("Mul", {numbers(0, length, {length, 1}), numbers(0, bins, {1, bins})});
  const ValueId part = b.add("Div", {b.cast(b.add("Mod", {turns, whole}), type), b.cast(whole, type)});
  const ValueId angle = b.add("Mul", {part, b.scalar(type, (inverse ? 2 : -2) * std::numbers::pi)});
  const auto column = [&](ValueId x) {
    if (inverse) x = b.add("Div", {x, b.cast(whole, type)});
    return b.reshaped(x, {length, 1, bins, 1});
  };
  const ValueId cosine = column(b.add("Cos", {angle})), sine = column(b.add("Sin", {angle}));
  const auto joined = [&](ValueId x, ValueId y, std::int64_t axis) { return b.add("Concat", {x, y}, {{"axis", Index(axis)}}); };
  ValueId matrix = joined(cosine, sine, 3);  // (a + bi)(cos + i sin)
  if (parts == 2) matrix = joined(matrix, joined(b.add("Neg", {sine}), cosine, 3), 1);
  return b.reshaped(matrix, {length * parts, bins * 2});
}

std::optional<std::vector<OnnxValue>> graph_of_dft(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId x = b.input(0);
  const Indices shape = b.shape_of(x);
  std::optional<std::int64_t> length, given_axis;
  if (!read_number(source, 1, length, reason) || !read_number(source, 2, given_axis, reason)) return std::nullopt;
  const std::int64_t parts = shape.empty() ? 0 : shape.back().constant().value_or(0);
  const std::size_t axis = read_dft_axis(source, source.opset(), shape.size(), parts, given_axis);
  const DataType type = b.type_of(x).type;
  ValueId matrix = kNoGradient;
  Index bins;
  std::int64_t result_parts = 2;
  if (shape[axis].is_constant()) {
    Sizes sizes;
    for (const Index& size : shape) sizes.push_back(size.is_constant() ? size.value() : -1);
    const Transform transform = read_dft(source, source.opset(), sizes, length, given_axis).transform;
    const auto known = transform.matrix(type);
    if (!known) {
      reason = "the axis that it transforms is too long for a matrix";
      return std::nullopt;
    }
    matrix = b.constant(*known), bins = transform.bins, result_parts = transform.result_parts();
  } else {
    const bool inverse = source.integer("inverse", 0) != 0, onesided = source.integer("onesided", 0) != 0;
    if (length || (inverse && onesided)) {
      reason = "the axis that it transforms is not known";
      return std::nullopt;
    }
    bins = onesided ? floor_div(shape[axis], 2) + 1 : shape[axis];
    matrix = open_matrix(b, type, shape[axis], parts, bins, inverse);
  }
  Indices perm = axes_from(0, shape.size());  // a permutation that exchanges two axes is its own inverse
  std::swap(perm[axis], perm[shape.size() - 2]);
  const ValueId y = product_with(b, b.transposed(x, perm), matrix, bins, result_parts);
  return SourceBuilder::results({b.transposed(y, perm)});
}

struct Stft {
  std::int64_t step, frames;
  Transform transform;
};
// `window`: its length, 0 if there is none.
Stft read_stft(const OnnxAttributes& node, const Sizes& sizes, std::int64_t step, std::int64_t window,
               std::optional<std::int64_t> frame_length) {
  // Exporters omit the last axis of a real signal.
  const bool is_real_signal = sizes.size() == 2 || (sizes.size() == 3 && sizes[2] == 1);
  if (!is_real_signal && (sizes.size() != 3 || sizes[2] != 2))
    throw Error(ErrorCode::kBadInput, "the signal must have shape [batches, length], or [batches, length, 1 or 2]");
  const std::int64_t length = frame_length.value_or(window > 0 ? window : sizes[1]);
  if (step < 1 || length < 1 || length > sizes[1] || (window > 0 && window != length))
    throw Error(ErrorCode::kBadInput, "step, window and frame length do not fit the signal");
  const std::int64_t bins = node.integer("onesided", 1) != 0 ? length / 2 + 1 : length;
  return {step, (sizes[1] - length) / step + 1, {length, is_real_signal ? 1 : 2, length, bins}};
}

void run_stft(Call& call) {
  const Tensor& x = call.tensor(0);
  const std::vector<double> window = call.has_input(2) ? call.reals(2) : std::vector<double>();
  const Stft stft = read_stft(call, x.sizes(), call.integer_input(1), static_cast<std::int64_t>(window.size()),
                              call.has_input(3) ? std::optional(call.integer_input(3)) : std::nullopt);
  const Transform& transform = stft.transform;
  const std::int64_t parts = transform.parts, frames = stft.frames;
  const Sizes sizes{x.sizes()[0], frames, transform.bins, 2};
  require_few(element_count(sizes));
  const std::vector<double> values = x.reals();
  std::vector<double> result = zeros(sizes);
  const auto at = [&](std::int64_t s, std::int64_t n, std::int64_t p) {
    const std::int64_t first = s / frames * x.sizes()[1] + s % frames * stft.step;
    return values[static_cast<std::size_t>((first + n) * parts + p)] *
           (window.empty() ? 1 : window[static_cast<std::size_t>(n)]);
  };
  transform.each(
      x.sizes()[0] * frames, [&] { call.checkpoint(); }, at,
      [&](std::int64_t s, std::int64_t k, std::int64_t p, double v) {
        result[static_cast<std::size_t>((s * transform.bins + k) * 2 + p)] = v;
      });
  call.give(Tensor::from_reals(x.type(), sizes, result));
}

std::optional<std::vector<OnnxValue>> graph_of_stft(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId x = b.input(0), window = b.input(2);
  std::optional<std::int64_t> step, length;
  if (!read_number(source, 1, step, reason) || !read_number(source, 3, length, reason)) return std::nullopt;
  const Indices shape = b.shape_of(x);
  const bool known = shape.size() > 1 && shape[1].is_constant() && (window == kNoGradient || all_constant(b.shape_of(window)));
  if (!known) {
    reason = "the length of its signals or of its window is not known";
    return std::nullopt;
  }
  Sizes sizes;
  for (const Index& size : shape) sizes.push_back(size.is_constant() ? size.value() : -1);
  const std::int64_t taken = window == kNoGradient ? 0 : product(b.shape_of(window)).value();
  const Stft stft = read_stft(source, sizes, step.value_or(0), taken, length);
  const Transform& transform = stft.transform;
  const auto matrix = transform.matrix(b.type_of(x).type);
  if (!matrix) {
    reason = "its frames are too long for a matrix";
    return std::nullopt;
  }
  std::vector<std::int64_t> places;
  for (std::int64_t f = 0; f < stft.frames; ++f)
    for (std::int64_t n = 0; n < transform.length; ++n) places.push_back(f * stft.step + n);
  const ValueId signals = b.reshaped(x, {shape[0], shape[1], transform.parts});
  ValueId frames =
      b.add("Gather", {signals, b.constant(Tensor::from_integers(DataType::kInt64, {stft.frames, transform.length}, places))},
            {{"axis", Index(1)}});
  if (window != kNoGradient) frames = b.add("Mul", {frames, b.reshaped(window, {transform.length, 1})});
  return SourceBuilder::results({product_with(b, frames, b.constant(*matrix), transform.bins, transform.result_parts())});
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
  p.add_graph("DFT", graph_of_dft);
  p.add("STFT", run_stft);
  p.add_graph("STFT", graph_of_stft);
  p.add("MelWeightMatrix", run_mel_weights);
}

}  // namespace rewright::operators
