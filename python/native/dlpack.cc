#include "python/native/dlpack.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "python/native/errors.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

namespace dlpack_code {  // of DLDataTypeCode, https://dmlc.github.io/dlpack/latest/c_api.html
constexpr int kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6, kE4m3fn = 10, kE4m3fnuz = 11, kE5m2 = 12,
              kE5m2fnuz = 13, kE8m0fnu = 14;
}

struct DlpackType {
  DataType type;
  int code, bits;
};
constexpr std::array<DlpackType, 20> kDlpackTypes = {{{DataType::kFloat, dlpack_code::kFloat, 32},
                                                      {DataType::kHalf, dlpack_code::kFloat, 16},
                                                      {DataType::kDouble, dlpack_code::kFloat, 64},
                                                      {DataType::kInt8, dlpack_code::kInt, 8},
                                                      {DataType::kInt16, dlpack_code::kInt, 16},
                                                      {DataType::kInt32, dlpack_code::kInt, 32},
                                                      {DataType::kInt64, dlpack_code::kInt, 64},
                                                      {DataType::kUint8, dlpack_code::kUint, 8},
                                                      {DataType::kUint16, dlpack_code::kUint, 16},
                                                      {DataType::kUint32, dlpack_code::kUint, 32},
                                                      {DataType::kUint64, dlpack_code::kUint, 64},
                                                      {DataType::kBool, dlpack_code::kBool, 8},
                                                      {DataType::kComplex64, dlpack_code::kComplex, 64},
                                                      {DataType::kComplex128, dlpack_code::kComplex, 128},
                                                      {DataType::kBfloat16, dlpack_code::kBfloat, 16},
                                                      {DataType::kFloat8e4m3fn, dlpack_code::kE4m3fn, 8},
                                                      {DataType::kFloat8e4m3fnuz, dlpack_code::kE4m3fnuz, 8},
                                                      {DataType::kFloat8e5m2, dlpack_code::kE5m2, 8},
                                                      {DataType::kFloat8e5m2fnuz, dlpack_code::kE5m2fnuz, 8},
                                                      {DataType::kFloat8e8m0, dlpack_code::kE8m0fnu, 8}}};

using Array = nb::ndarray<nb::ro>;

std::optional<DataType> type_of(nb::dlpack::dtype dtype) {
  for (const DlpackType& entry : kDlpackTypes)
    if (entry.code == dtype.code && entry.bits == dtype.bits && dtype.lanes == 1) return entry.type;
  return std::nullopt;
}

nb::dlpack::dtype dlpack_type_of(DataType type) {
  for (const DlpackType& entry : kDlpackTypes)
    if (entry.type == type) return {static_cast<std::uint8_t>(entry.code), static_cast<std::uint8_t>(entry.bits), 1};
  throw Error(ErrorCode::kUnsupported, "DLPack has no elements of type " + std::string(name(type)));
}

bool is_on_gpu(nb::handle value) {
  if (!nb::hasattr(value, "__dlpack_device__")) return false;
  const int kind = nb::cast<int>(nb::int_(nb::object(value.attr("__dlpack_device__")()[0])));
  return kind == nb::device::cuda::value || kind == nb::device::cuda_managed::value;
}

// Gets the array from its producer. For an array on a GPU, work in any stream so far comes before later work in CUDA's legacy
// default stream, which is the one that sessions wait for.
Array array_of(nb::handle value, bool on_gpu) {
  // https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html
  constexpr int kLegacyDefaultStream = 1;
  if (on_gpu) return nb::cast<Array>(value.attr("__dlpack__")(nb::arg("stream") = kLegacyDefaultStream));
  return Array(nb::cast<nb::ndarray<nb::ro, nb::c_contig>>(value));
}

bool is_row_major(const Array& array) {
  std::int64_t step = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0; step *= static_cast<std::int64_t>(array.shape(axis)))
    if (array.shape(axis) > 1 && array.stride(axis) != step) return false;
  return true;
}

// Keeps the array alive as long as the result.
std::shared_ptr<Array> kept(Array array) {
  return {new Array(std::move(array)), [](Array* held) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire gil;
            delete held;
          }};
}

}  // namespace

HeldValue value_of_dlpack(nb::handle value, const std::string& where) {
  std::shared_ptr<Array> array;
  try {
    array = kept(array_of(value, is_on_gpu(value)));
  } catch (const std::bad_cast&) {
    throw SituatedError({ErrorCode::kBadInput, "cannot be taken over by DLPack", where}, "dlpack");
  }
  const std::optional<DataType> type = type_of(array->dtype());
  if (!type)
    throw Error(ErrorCode::kUnsupported,
                "elements of DLPack's type code " + std::to_string(array->dtype().code) + " are no tensor's", where);
  Sizes sizes;
  for (std::size_t a = 0; a < array->ndim(); ++a) sizes.push_back(static_cast<std::int64_t>(array->shape(a)));
  auto* const data = static_cast<std::byte*>(const_cast<void*>(array->data()));
  switch (array->device_type()) {
    case nb::device::cpu::value:
    case nb::device::cuda_host::value:
      return {Tensor(*type, std::move(sizes), std::move(array), data)};
    case nb::device::cuda::value:
    case nb::device::cuda_managed::value: {
      if (!is_row_major(*array))
        throw Error(ErrorCode::kUnsupported, "its elements are not in order", where, "give it as .contiguous()");
      const int device = array->device_id();
      return {{}, std::make_shared<DeviceTensor>(DeviceTensor{*type, std::move(sizes), device, data, std::move(array)})};
    }
    default:
      throw Error(ErrorCode::kUnsupported, "is neither in the CPU's memory nor in that of an NVIDIA GPU", where,
                  "copy it there first");
  }
}

nb::object dlpack_of(const HeldValue& value) {
  const Sizes& sizes = value.placed ? value.placed->sizes : value.datum.tensor().sizes();
  const nb::dlpack::dtype dtype = dlpack_type_of(value.placed ? value.placed->type : value.datum.tensor().type());
  const std::vector<std::size_t> shape(sizes.begin(), sizes.end());
  auto held = std::make_unique<HeldValue>(value);
  void* const data = held->placed ? held->placed->data : const_cast<std::byte*>(held->datum.tensor().bytes().data());
  const int kind = held->placed ? nb::device::cuda::value : nb::device::cpu::value;
  const int number = held->placed ? held->placed->device : 0;
  const nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<HeldValue*>(p); });
  return nb::cast(nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner, nullptr, dtype, kind, number));
}

}  // namespace rewright::python
