#include "distribution/elements.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "expressions/tensor.h"

namespace rewright::distribution {

namespace {

template <class T>
T* typed(std::span<std::byte> bytes) {
  return reinterpret_cast<T*>(bytes.data());
}
template <class T>
const T* typed(std::span<const std::byte> bytes) {
  return reinterpret_cast<const T*>(bytes.data());
}

template <class T>
void add(std::span<std::byte> into, std::span<const std::byte> from) {
  T* const sum = typed<T>(into);
  const T* const more = typed<T>(from);
  for (std::size_t n = 0; n < into.size() / sizeof(T); ++n) sum[n] += more[n];
}

template <class Widen, class Narrow>
void add_narrow(std::span<std::byte> into, std::span<const std::byte> from, const Widen& widened, const Narrow& narrowed) {
  auto* const sum = typed<std::uint16_t>(into);
  const auto* const more = typed<std::uint16_t>(from);
  for (std::size_t n = 0; n < into.size() / 2; ++n) sum[n] = narrowed(widened(sum[n]) + widened(more[n]));
}

[[noreturn]] void refuse(DataType type) {
  throw Error(ErrorCode::kUnsupported, "processes do not exchange numbers of the type " + std::string(name(type)));
}

}  // namespace

void add_elements(std::span<std::byte> into, std::span<const std::byte> from, DataType type) {
  switch (type) {
    case DataType::kFloat:
      return add<float>(into, from);
    case DataType::kDouble:
      return add<double>(into, from);
    case DataType::kHalf:
      return add_narrow(into, from, half_to_float, float_to_half);
    case DataType::kBfloat16:
      return add_narrow(into, from, bfloat16_to_float, float_to_bfloat16);
    default:
      refuse(type);
  }
}

void narrow(std::span<const float> values, std::span<std::byte> into, DataType type) {
  if (type != DataType::kHalf && type != DataType::kBfloat16) refuse(type);
  auto* const out = typed<std::uint16_t>(into);
  if (type == DataType::kHalf)
    for (std::size_t n = 0; n < values.size(); ++n) out[n] = float_to_half(values[n]);
  else
    for (std::size_t n = 0; n < values.size(); ++n) out[n] = float_to_bfloat16(values[n]);
}

void widen(std::span<const std::byte> values, std::span<float> into, DataType type) {
  if (type != DataType::kHalf && type != DataType::kBfloat16) refuse(type);
  const auto* const in = typed<std::uint16_t>(values);
  if (type == DataType::kHalf)
    for (std::size_t n = 0; n < into.size(); ++n) into[n] = half_to_float(in[n]);
  else
    for (std::size_t n = 0; n < into.size(); ++n) into[n] = bfloat16_to_float(in[n]);
}

}  // namespace rewright::distribution
