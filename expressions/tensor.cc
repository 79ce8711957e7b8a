#include "expressions/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "base/process_memory.h"
#include "expressions/small_float.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rewright {

namespace {

struct TypeEntry {
  DataType type;
  std::string_view name;
  int bits;
};
constexpr std::array<TypeEntry, 26> kTypes = {{{DataType::kFloat, "float", 32},
                                               {DataType::kUint8, "uint8", 8},
                                               {DataType::kInt8, "int8", 8},
                                               {DataType::kUint16, "uint16", 16},
                                               {DataType::kInt16, "int16", 16},
                                               {DataType::kInt32, "int32", 32},
                                               {DataType::kInt64, "int64", 64},
                                               {DataType::kString, "string", 0},
                                               {DataType::kBool, "bool", 8},
                                               {DataType::kHalf, "half", 16},
                                               {DataType::kDouble, "double", 64},
                                               {DataType::kUint32, "uint32", 32},
                                               {DataType::kUint64, "uint64", 64},
                                               {DataType::kComplex64, "complex64", 64},
                                               {DataType::kComplex128, "complex128", 128},
                                               {DataType::kBfloat16, "bfloat16", 16},
                                               {DataType::kFloat8e4m3fn, "float8e4m3fn", 8},
                                               {DataType::kFloat8e4m3fnuz, "float8e4m3fnuz", 8},
                                               {DataType::kFloat8e5m2, "float8e5m2", 8},
                                               {DataType::kFloat8e5m2fnuz, "float8e5m2fnuz", 8},
                                               {DataType::kUint4, "uint4", 4},
                                               {DataType::kInt4, "int4", 4},
                                               {DataType::kFloat4e2m1, "float4e2m1", 4},
                                               {DataType::kFloat8e8m0, "float8e8m0", 8},
                                               {DataType::kUint2, "uint2", 2},
                                               {DataType::kInt2, "int2", 2}}};

template <class To>
To convert_real(double v) {
  // ONNX leaves a cast beyond the type's range undefined. Here it saturates and maps NaN to 0, to give the same on every
  // machine.
  if (std::isnan(v)) return 0;
  constexpr double lowest = static_cast<double>(std::numeric_limits<To>::lowest());
  constexpr double highest = static_cast<double>(std::numeric_limits<To>::max());
  if (v <= lowest) return std::numeric_limits<To>::lowest();
  if (v >= highest) return std::numeric_limits<To>::max();
  return static_cast<To>(v);
}

// Calls f with a value of the C++ type that holds an element of `type` as a plain number.
template <class F>
void with_plain_type(DataType type, F&& f) {
  switch (type) {
    case DataType::kFloat:
      return f(float{});
    case DataType::kDouble:
      return f(double{});
    case DataType::kUint8:
    case DataType::kUint4:
    case DataType::kUint2:
      return f(std::uint8_t{});
    case DataType::kInt8:
    case DataType::kInt4:
    case DataType::kInt2:
      return f(std::int8_t{});
    case DataType::kUint16:
      return f(std::uint16_t{});
    case DataType::kInt16:
      return f(std::int16_t{});
    case DataType::kInt32:
      return f(std::int32_t{});
    case DataType::kInt64:
      return f(std::int64_t{});
    case DataType::kUint32:
      return f(std::uint32_t{});
    case DataType::kUint64:
      return f(std::uint64_t{});
    default:
      throw Error(ErrorCode::kUnsupported, "tensors of type " + std::string(name(type)) + " are not numbers");
  }
}

// The value modulo 2^bits, sign-extended where the type is signed.
std::int8_t narrow_integer(DataType type, std::int64_t value) {
  const int bits = packed_bits(type);
  const std::int64_t low = value & ((std::int64_t{1} << bits) - 1);
  const bool is_signed = type == DataType::kInt4 || type == DataType::kInt2;
  return static_cast<std::int8_t>(is_signed && (low >> (bits - 1)) != 0 ? low - (std::int64_t{1} << bits) : low);
}

std::size_t checked_count(std::int64_t count, std::size_t width) {
  if (static_cast<std::uint64_t>(count) > (std::uint64_t{1} << 40) / width)
    throw Error(ErrorCode::kMissing, "not enough memory for a tensor of " + std::to_string(count) + " elements");
  return static_cast<std::size_t>(count);
}

}  // namespace

std::string_view name(DataType type) {
  for (const TypeEntry& t : kTypes)
    if (t.type == type) return t.name;
  return "undefined";
}

std::optional<DataType> data_type_from_name(std::string_view text) {
  for (const TypeEntry& t : kTypes)
    if (t.name == text) return t.type;
  return std::nullopt;
}

int packed_bits(DataType type) {
  for (const TypeEntry& t : kTypes)
    if (t.type == type) return t.bits;
  return 0;
}

std::size_t byte_size(DataType type) { return static_cast<std::size_t>(packed_bits(type) + 7) / 8; }

bool is_real(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kHalf || type == DataType::kBfloat16 ||
         is_small_float(type);
}

bool is_integer(DataType type) {
  switch (type) {
    case DataType::kUint8:
    case DataType::kInt8:
    case DataType::kUint16:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint32:
    case DataType::kUint64:
    case DataType::kUint4:
    case DataType::kInt4:
    case DataType::kUint2:
    case DataType::kInt2:
      return true;
    default:
      return false;
  }
}

Scalar scalar(DataType type) {
  if (is_real(type)) return Scalar::kReal;
  if (is_integer(type)) return Scalar::kInteger;
  if (type == DataType::kBool) return Scalar::kBoolean;
  if (type == DataType::kString) return Scalar::kInteger;  // numbers that stand for strings: see operators/texts.h
  throw Error(ErrorCode::kUnsupported, "tensors of type " + std::string(name(type)) + " have no arithmetic");
}

std::int64_t element_count(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  bool empty = false;
  for (std::int64_t s : sizes) {
    if (s < 0) throw Error(ErrorCode::kBadInput, "a tensor has the negative size " + std::to_string(s));
    if (s == 0)
      empty = true;
    else if (__builtin_mul_overflow(count, s, &count))
      throw Error(ErrorCode::kBadInput, "the number of elements of a tensor is beyond 64 bits");
  }
  return empty ? 0 : count;
}

Tensor::Tensor(DataType type, Sizes sizes) : type_(type), sizes_(std::move(sizes)), count_(element_count(sizes_)) {
  if (type == DataType::kString) {
    *this = from_strings(sizes_, std::vector<std::string>(checked_count(count_, sizeof(std::string))));
    return;
  }
  std::size_t bytes;
  if (__builtin_mul_overflow(static_cast<std::size_t>(count_), byte_size(type), &bytes) || bytes > (std::size_t{1} << 46))
    throw Error(ErrorCode::kMissing, "not enough memory for a tensor of " + std::to_string(count_) + " elements");
  require_memory(bytes);
  // Large tensors go into huge pages where the system has them: page faults of small pages cost more than copying the contents.
  // Others are aligned by hand: glibc before 2.38 does not reuse the gap that aligned_alloc leaves in front of a block.
  constexpr std::size_t kAlignment = 64, kHugePage = std::size_t{2} << 20;
  const bool huge = bytes >= 2 * kHugePage;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  void* const memory =
      huge ? std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage) : std::malloc(bytes + kAlignment);
  if (!memory) throw Error(ErrorCode::kMissing, "not enough memory for a tensor of " + std::to_string(bytes) + " bytes");
  if (huge) ::madvise(memory, bytes, MADV_HUGEPAGE);
  owner_ = std::shared_ptr<void>(memory, std::free);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(memory) % kAlignment;
  bytes_ = static_cast<const std::byte*>(memory) + (beyond == 0 ? 0 : kAlignment - beyond);
  writable_ = true;
}

Tensor::Tensor(DataType type, Sizes sizes, std::shared_ptr<const void> owner, const std::byte* bytes)
    : type_(type), sizes_(std::move(sizes)), count_(element_count(sizes_)), owner_(std::move(owner)), bytes_(bytes) {}

std::span<std::byte> Tensor::mutable_bytes() {
  if (!writable_) throw Error(ErrorCode::kUsage, "a shared tensor cannot be written");
  return {const_cast<std::byte*>(bytes_), byte_count()};  // NOLINT: memory of our own, allocated above
}

Tensor Tensor::from_strings(Sizes sizes, std::vector<std::string> values) {
  Tensor t;
  t.type_ = DataType::kString;
  t.sizes_ = std::move(sizes);
  t.count_ = element_count(t.sizes_);
  if (static_cast<std::int64_t>(values.size()) != t.count_) throw Error(ErrorCode::kBadInput, "wrong number of elements");
  const auto owner = std::make_shared<const std::vector<std::string>>(std::move(values));
  t.bytes_ = reinterpret_cast<const std::byte*>(owner->data());
  t.owner_ = owner;
  return t;
}

std::span<const std::string> Tensor::strings() const {
  if (type_ != DataType::kString)
    throw Error(ErrorCode::kUnsupported, "elements are " + std::string(name(type_)) + ", strings are needed");
  return {reinterpret_cast<const std::string*>(bytes_), static_cast<std::size_t>(count_)};
}

Tensor Tensor::from_reals(DataType type, Sizes sizes, std::span<const double> values) {
  Tensor t(type, std::move(sizes));
  if (static_cast<std::int64_t>(values.size()) != t.size()) throw Error(ErrorCode::kBadInput, "wrong number of elements");
  if (type == DataType::kHalf || type == DataType::kBfloat16) {
    auto out = t.mutable_data<std::uint16_t>();
    for (std::size_t i = 0; i < values.size(); ++i)
      out[i] = type == DataType::kHalf ? float_to_half(static_cast<float>(values[i]))
                                       : float_to_bfloat16(static_cast<float>(values[i]));
  } else if (is_small_float(type)) {
    auto out = t.mutable_data<std::uint8_t>();
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = encode_small_float(type, values[i]);
  } else if (packed_bits(type) < 8) {
    auto out = t.mutable_data<std::int8_t>();
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = narrow_integer(type, convert_real<std::int64_t>(values[i]));
  } else if (type == DataType::kBool) {
    auto out = t.mutable_data<std::uint8_t>();
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i] != 0;
  } else {
    with_plain_type(type, [&]<class T>(T) {
      auto out = t.mutable_data<T>();
      for (std::size_t i = 0; i < values.size(); ++i)
        if constexpr (std::is_floating_point_v<T>)
          out[i] = static_cast<T>(values[i]);
        else
          out[i] = convert_real<T>(values[i]);
    });
  }
  return t;
}

Tensor Tensor::from_integers(DataType type, Sizes sizes, std::span<const std::int64_t> values) {
  if (is_real(type)) {
    const std::vector<double> reals(values.begin(), values.end());
    return from_reals(type, std::move(sizes), reals);
  }
  Tensor t(type, std::move(sizes));
  if (static_cast<std::int64_t>(values.size()) != t.size()) throw Error(ErrorCode::kBadInput, "wrong number of elements");
  if (type == DataType::kBool) {
    auto out = t.mutable_data<std::uint8_t>();
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i] != 0;
  } else if (is_integer(type) && packed_bits(type) < 8) {
    auto out = t.mutable_data<std::int8_t>();
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = narrow_integer(type, values[i]);
  } else {
    with_plain_type(type, [&]<class T>(T) {
      auto out = t.mutable_data<T>();
      for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<T>(values[i]);
    });
  }
  return t;
}

Tensor Tensor::scalar(DataType type, double value) { return from_reals(type, {}, std::span(&value, 1)); }

std::vector<double> Tensor::reals() const {
  std::vector<double> result(static_cast<std::size_t>(count_));
  if (type_ == DataType::kHalf || type_ == DataType::kBfloat16) {
    const auto in = data<std::uint16_t>();
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = type_ == DataType::kHalf ? half_to_float(in[i]) : bfloat16_to_float(in[i]);
  } else if (is_small_float(type_)) {
    const auto in = data<std::uint8_t>();
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = decode_small_float(type_, in[i]);
  } else if (type_ == DataType::kBool) {
    const auto in = data<std::uint8_t>();
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = in[i] != 0;
  } else {
    with_plain_type(type_, [&]<class T>(T) {
      const auto in = data<T>();
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<double>(in[i]);
    });
  }
  return result;
}

std::vector<std::int64_t> Tensor::integers() const {
  std::vector<std::int64_t> result(static_cast<std::size_t>(count_));
  if (is_real(type_)) {
    const std::vector<double> in = reals();
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = convert_real<std::int64_t>(in[i]);
  } else if (type_ == DataType::kBool) {
    const auto in = data<std::uint8_t>();
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = in[i] != 0;
  } else {
    with_plain_type(type_, [&]<class T>(T) {
      const auto in = data<T>();
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<std::int64_t>(in[i]);
    });
  }
  return result;
}

Tensor Tensor::reshaped(Sizes sizes) const {
  if (element_count(sizes) != count_) throw Error(ErrorCode::kBadInput, "a reshape changes the number of elements");
  Tensor t = *this;
  t.sizes_ = std::move(sizes);
  t.writable_ = false;
  return t;
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.type_ == DataType::kString && b.type_ == DataType::kString)
    return a.sizes_ == b.sizes_ && std::ranges::equal(a.strings(), b.strings());
  return a.type_ == b.type_ && a.sizes_ == b.sizes_ &&
         (a.bytes_ == b.bytes_ || a.byte_count() == 0 || std::memcmp(a.bytes_, b.bytes_, a.byte_count()) == 0);
}

// Graph hashes in certificates depend on it, so it never changes.
std::uint64_t Tensor::content_hash() const {
  std::uint64_t h = static_cast<std::uint64_t>(type_) + 1;
  for (std::int64_t s : sizes_) h = h * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(s);
  if (type_ == DataType::kString)
    for (const std::string& s : strings()) h = XXH3_64bits_withSeed(s.data(), s.size(), h);
  return XXH3_64bits_withSeed(bytes_, byte_count(), h);
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  if (magnitude < std::ldexp(1.0f, -14))  // subnormal: a multiple of 2^-24, rounded to even
    return sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  std::uint32_t m = std::bit_cast<std::uint32_t>(magnitude);
  m += 0xfffu + ((m >> 13) & 1u);
  return sign | static_cast<std::uint16_t>((m >> 13) - (112u << 10));
}

float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t float_to_bfloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(bits >> 16);
}

}  // namespace rewright
