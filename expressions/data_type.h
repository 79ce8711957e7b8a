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

// The kind of number that stands for an element in a denotation.
enum class Scalar { kReal, kInteger, kBoolean };

std::string_view name(DataType type);                           // "float", "int64", ...
std::optional<DataType> data_type_from_name(std::string_view);  // nullopt: there is no such type
std::size_t byte_size(DataType type);                           // of one element; 0 for types without a fixed size
// Bits of one element as ONNX stores it. In a Tensor, an element of less than 8 bits takes a whole byte.
int packed_bits(DataType type);
bool is_real(DataType type);     // floating-point types of all widths
bool is_integer(DataType type);  // signed and unsigned integers, not bool
Scalar scalar(DataType type);    // strings are numbered by integers; throws Error(kUnsupported) for complex types

}  // namespace rewright
