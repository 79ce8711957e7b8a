#include "python/native/values.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "api/placed_run.h"
#include "python/native/dlpack.h"
#include "python/native/tensors.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

const Sizes& sizes_of_held(const HeldValue& value) { return value.placed ? value.placed->sizes : value.datum.tensor().sizes(); }
DataType type_of(const HeldValue& value) { return value.placed ? value.placed->type : value.datum.tensor().type(); }

std::size_t stored_bytes(const HeldValue& value) {
  const DataType type = type_of(value);
  if (byte_size(type) == 0) throw Error(ErrorCode::kUnsupported, "texts have no size in bytes");
  const auto count = static_cast<std::size_t>(element_count(sizes_of_held(value)));
  return (count * static_cast<std::size_t>(packed_bits(type)) + 7) / 8;
}

HeldValue zeros(const std::vector<std::int64_t>& sizes, nb::handle dtype) {
  Tensor tensor(type_of_dtype(dtype), sizes);
  if (tensor.byte_count() > 0) std::memset(tensor.mutable_bytes().data(), 0, tensor.byte_count());
  return {std::move(tensor)};
}

HeldValue reshaped(const HeldValue& value, const std::vector<std::int64_t>& sizes) {
  if (value.placed || value.datum.tensor().size() != element_count(sizes)) return value;  // copy_into reports the mismatch
  return {value.datum.tensor().reshaped(sizes)};
}

HeldValue on_gpu(const HeldValue& value, int gpu) {
  if (value.placed && value.placed->device == gpu) return value;
  const Datum datum = on_host(value);
  if (!datum.is_tensor() || byte_size(datum.tensor().type()) == 0)
    throw Error(ErrorCode::kUnsupported, "only tensors of numbers can be in a GPU's memory");
  const nb::gil_scoped_release release;
  const Tensor& tensor = datum.tensor();
  DeviceTensor placed = memory_of_gpu(gpu).allocate(tensor.type(), tensor.sizes());
  memory_of_gpu(gpu).copy_in(placed, tensor);
  return {{}, std::make_shared<DeviceTensor>(std::move(placed))};
}

HeldValue at(int gpu, nb::handle dtype, const std::vector<std::int64_t>& sizes, std::uintptr_t address) {
  const DataType type = type_of_dtype(dtype);
  return {{}, std::make_shared<DeviceTensor>(DeviceTensor{type, sizes, gpu, reinterpret_cast<std::byte*>(address)})};
}

// Copies into memory of another owner, to which io_binding binds outputs: that of an array or of a value.
void copy_into(const HeldValue& from, nb::handle target) {
  const Datum datum = on_host(from);
  const Tensor& tensor = datum.tensor();
  if (!nb::isinstance<HeldValue>(target)) return copy_to_array(tensor, target);
  const auto& buffer = nb::cast<const HeldValue&>(target);
  require_fits({type_of(buffer), sizes_of_held(buffer)}, {tensor.type(), to_indices(tensor.sizes())}, "value");
  if (tensor.type() == DataType::kString) throw Error(ErrorCode::kUnsupported, "texts cannot be changed in place");
  const nb::gil_scoped_release release;
  if (!buffer.placed) {
    if (tensor.byte_count() > 0)
      std::memmove(const_cast<std::byte*>(buffer.datum.tensor().bytes().data()), tensor.bytes().data(), tensor.byte_count());
    return;
  }
  memory_of_gpu(buffer.placed->device).copy_in(*buffer.placed, tensor);
}

}  // namespace

void bind_values(nb::module_& m) {
  nb::class_<HeldValue>(m, "Value", "A tensor in the CPU's memory or a GPU's; a sequence of values; or nothing.")
      .def_static(
          "of",
          [](nb::handle value, bool is_sequence) {
            Declaration declared;
            declared.is_tensor = !is_sequence;
            return to_value(value, declared);
          },
          nb::arg("value").none(), nb::arg("is_sequence") = false,
          "The value of an array, of anything with __dlpack__ (neither is copied), of a list, or of None.")
      .def_static("zeros", &zeros, nb::arg("shape"), nb::arg("dtype"), "A tensor of zeros.")
      .def_static("at", &at, nb::arg("gpu"), nb::arg("dtype"), nb::arg("shape"), nb::arg("address"),
                  "A tensor in memory of a GPU that the caller keeps.")
      .def("on_gpu", &on_gpu, nb::arg("gpu"), "The same in the memory of this GPU: itself if it is there, or else a copy.")
      .def(
          "numpy", [](const HeldValue& value) { return to_python(on_host(value), true); },
          "The array, in the value's own memory where NumPy can have it there; a list for a sequence; a dict for a map; or "
          "None.")
      .def("reshaped", &reshaped, nb::arg("shape"),
           "The same elements with other sizes, if there are as many in the CPU's memory; else the value as it is.")
      .def("dlpack", &dlpack_of, "An object with __dlpack__ and __dlpack_device__, in the value's own memory.")
      .def("copy_into", &copy_into, nb::arg("target"), "Copies the elements into an array, or a Value, of this type and shape.")
      .def_prop_ro(
          "gpu", [](const HeldValue& value) { return value.placed ? std::optional(value.placed->device) : std::nullopt; },
          "The number of the GPU whose memory it is in, or None.")
      .def_prop_ro("is_sequence", [](const HeldValue& value) { return !value.placed && value.datum.is_sequence(); })
      .def_prop_ro("is_map", [](const HeldValue& value) { return !value.placed && value.datum.is_map(); })
      .def_prop_ro("is_empty", [](const HeldValue& value) { return !value.placed && value.datum.empty(); })
      .def_prop_ro("shape", &sizes_of_held)
      .def_prop_ro("nbytes", &stored_bytes, "Of the elements, as ONNX stores them: those of less than 8 bits side by side.")
      .def_prop_ro("dtype", [](const HeldValue& value) { return dtype_of(type_of(value)); })
      .def_prop_ro(
          "element_type", [](const HeldValue& value) { return static_cast<int>(type_of(value)); },
          "As ONNX's TensorProto numbers them.")
      .def_prop_ro("address", [](const HeldValue& value) {
        return reinterpret_cast<std::uintptr_t>(value.placed ? value.placed->data : value.datum.tensor().bytes().data());
      });
  m.def("gpu_of_memory", &gpu_of_memory, nb::arg("name"), "Which GPU \"cuda\" or \"cuda:N\" is; None for \"cpu\".");
  m.def(
      "dtype_of", [](int type) { return dtype_of(static_cast<DataType>(type)); }, nb::arg("element_type"),
      "The numpy.dtype of elements as ONNX's TensorProto numbers them.");
  m.def(
      "is_narrow", [](int type) { return packed_bits(static_cast<DataType>(type)) < 8; }, nb::arg("element_type"),
      "Do such elements take less than 8 bits?");
  m.def(
      "type_text", [](int type) { return tensor_type_text(static_cast<DataType>(type)); }, nb::arg("element_type"),
      "\"tensor(float)\", of elements as ONNX's TensorProto numbers them.");
}

}  // namespace rewright::python
