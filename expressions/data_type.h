// Element types of tensors, numbered as in ONNX's TensorProto.DataType.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rewright {

enum class DataType : int {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kHalf = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8e4m3fn = 17,
  kFloat8e4m3fnuz = 18,
  kFloat8e5m2 = 19,
  kFloat8e5m2fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4e2m1 = 23,
  kFloat8e8m0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

// What the elements of a type are in a denotation: numbers of the reals, integers, or truth values.
enum class Scalar { kReal, kInteger, kBoolean };

std::string_view name(DataType type);  // "float", "int64", ...
std::optional<DataType> data_type_from_name(std::string_view);
std::size_t byte_size(DataType type);  // of one element; 0 for types without a fixed size
// Bits of one element in ONNX's bytes. Elements of less than 8 bits have a byte each in a Tensor, with their value's bits.
int packed_bits(DataType type);
bool is_real(DataType type);     // floating-point types of all widths
bool is_integer(DataType type);  // signed and unsigned integers, not bool
Scalar scalar(DataType type);    // strings: integers that stand for them; throws Error(kUnsupported) for complex

}  // namespace rewright
