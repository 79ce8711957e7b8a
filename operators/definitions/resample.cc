#include "operators/definitions/resample.h"

#include <cmath>

#include "base/error.h"

namespace rewright::operators {

namespace {

Element ratio(const Index& numerator, const Index& denominator) {
  return convert(from_index(numerator), Scalar::kReal) / convert(from_index(denominator), Scalar::kReal);
}

// 1 if the number, at least 0, is not 0.
Index one_if_positive(const Index& number) { return min(max(number, 0), 1); }

Index rounded(const std::string& rounding, const Fraction& at) {
  if (rounding == "floor") return floor_div(at.numerator, at.denominator);
  if (rounding == "ceil") return ceil_div(at.numerator, at.denominator);
  if (rounding == "round_prefer_ceil") return floor_div(2 * at.numerator + at.denominator, 2 * at.denominator);
  return ceil_div(2 * at.numerator - at.denominator, 2 * at.denominator);
}

// The weight of an element at this distance: linear, or Keys' cubic kernel. Zero from distance 1 or 2 on.
Element weight_at(const Resampling& how, const Fraction& distance) {
  const Element t = ratio(distance.numerator, distance.denominator);
  const auto within = [&](int limit) { return std::vector{less_equal(distance.numerator, limit * distance.denominator)}; };
  if (how.mode == "linear") return choose(within(1), real(1) - t, real(0));
  const Element a = real(how.cubic_coefficient);
  const Element near = ((a + real(2)) * t - (a + real(3))) * t * t + real(1);
  const Element far = ((a * t - real(5) * a) * t + real(8) * a) * t - real(4) * a;
  return choose(within(1), near, choose(within(2), far, real(0)));
}

}  // namespace

Fraction to_fraction(double value) {
  if (!(std::abs(value) < 1 << 20)) throw Error(ErrorCode::kBadInput, "scale " + std::to_string(value));
  std::int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;  // continued fraction
  double rest = std::abs(value);
  for (int k = 0; k < 40; ++k) {
    const auto whole = static_cast<std::int64_t>(std::floor(rest));
    const std::int64_t p = whole * p1 + p0, q = whole * q1 + q0;
    p0 = p1, q0 = q1, p1 = p, q1 = q;
    if (static_cast<float>(static_cast<double>(p) / static_cast<double>(q)) == static_cast<float>(std::abs(value))) break;
    const double part = rest - static_cast<double>(whole);
    if (part <= 0 || q > 1 << 20) break;
    rest = 1 / part;
  }
  return {value < 0 ? -p1 : p1, q1};
}

Fraction source_position(const Resampling& how, const ResampledAxis& axis, const Index& p) {
  const auto& [n, d] = axis.scale;
  const Index &size = axis.size, &target = axis.target;
  const std::string& kind = how.coordinates;
  if (kind == "asymmetric") return {p * d, n};
  if (kind == "tf_half_pixel_for_nn") return {(2 * p + 1) * d, 2 * n};
  // Uses the number of elements, so that the last ones align. ONNX's reference uses size * scale, which need not be whole;
  // ONNX's text, PyTorch and ONNX Runtime do not.
  if (kind == "align_corners") return {p * (size - 1) * one_if_positive(target - 1), max(target - 1, 1)};
  if (kind == "tf_crop_and_resize") {
    const auto& [begin, end] = std::pair(axis.crop_begin, axis.crop_end);
    const Index first = begin.numerator * end.denominator, last = end.numerator * begin.denominator;
    const Index whole = begin.denominator * end.denominator;
    const Index several = one_if_positive(target - 1);  // a single element is in the middle
    return {((first * (target - 1) + p * (last - first)) * several * 2 + (first + last) * (1 - several)) * (size - 1),
            2 * whole * max(target - 1, 1)};
  }
  Index half_pixel = (2 * p + 1) * d - n;
  if (kind == "pytorch_half_pixel") half_pixel *= one_if_positive(target - 1);
  if (kind == "half_pixel_symmetric") return {half_pixel + size * n - target * d, 2 * n};
  return {half_pixel, 2 * n};
}

std::vector<Tap> taps(const Resampling& how, const ResampledAxis& axis, const Index& p) {
  const Fraction at = source_position(how, axis, p);
  const auto inside = [&](const Index& position) { return max(min(position, axis.size - 1), 0); };
  if (how.mode == "nearest") return {{inside(rounded(how.rounding, at)), nullptr}};
  const Index whole = floor_div(at.numerator, at.denominator);
  const Index rest = at.numerator - whole * at.denominator;
  if (how.mode == "linear" && !how.antialias) {
    const Element fraction = ratio(rest, at.denominator);
    return {{inside(whole), real(1) - fraction}, {inside(whole + 1), fraction}};
  }
  // For a smaller result the kernel is widened to a step of the result, and its weights are normalized.
  Fraction shrink;
  shrink.numerator = 1;
  if (how.antialias && less(axis.scale.numerator, axis.scale.denominator).decided() != false) shrink = axis.scale;
  const int reach = how.mode == "linear" ? 1 : 2;
  const Index begin = 1 - ceil_div(reach * shrink.denominator, shrink.numerator);
  std::vector<Tap> result;
  Element total;
  for (std::int64_t k = begin.value(); k <= 1 - begin.value(); ++k) {
    Index distance = k * at.denominator - rest;
    if (k <= 0) distance = -distance;
    Element weight = weight_at(how, {distance * shrink.numerator, at.denominator * shrink.denominator});
    if (how.exclude_outside) weight = choose({less_equal(0, whole + k), less(whole + k, axis.size)}, weight, real(0));
    total = total ? total + weight : weight;
    result.push_back({inside(whole + k), weight});
  }
  if (how.exclude_outside || how.antialias)
    for (Tap& tap : result) tap.weight = tap.weight / total;
  return result;
}

}  // namespace rewright::operators
