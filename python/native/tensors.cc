#include "python/native/tensors.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <nanobind/stl/string.h>
#include <numpy/arrayobject.h>

#include <array>
#include <cstring>
#include <utility>

#include "api/placed_run.h"
#include "python/native/dlpack.h"
#include "python/native/errors.h"

namespace nb = nanobind;

namespace rewright::python {

namespace {

// Loads NumPy when it is first needed. The GIL is always held here.
void need_numpy() {
  if (PyArray_API == nullptr && _import_array() < 0) throw nb::python_error();
}

constexpr std::size_t kTypes = 27;

struct DtypeName {
  DataType type;
  int number;        // NumPy's own, or NPY_NOTYPE
  const char* name;  // of NPY_NOTYPE: found by this name in ml_dtypes
};
constexpr std::array<DtypeName, 25> kDtypes = {{{DataType::kFloat, NPY_FLOAT32, ""},
                                                {DataType::kUint8, NPY_UINT8, ""},
                                                {DataType::kInt8, NPY_INT8, ""},
                                                {DataType::kUint16, NPY_UINT16, ""},
                                                {DataType::kInt16, NPY_INT16, ""},
                                                {DataType::kInt32, NPY_INT32, ""},
                                                {DataType::kInt64, NPY_INT64, ""},
                                                {DataType::kString, NPY_OBJECT, ""},
                                                {DataType::kBool, NPY_BOOL, ""},
                                                {DataType::kHalf, NPY_HALF, ""},
                                                {DataType::kDouble, NPY_FLOAT64, ""},
                                                {DataType::kUint32, NPY_UINT32, ""},
                                                {DataType::kUint64, NPY_UINT64, ""},
                                                {DataType::kComplex64, NPY_COMPLEX64, ""},
                                                {DataType::kComplex128, NPY_COMPLEX128, ""},
                                                {DataType::kBfloat16, NPY_NOTYPE, "bfloat16"},
                                                {DataType::kFloat8e4m3fn, NPY_NOTYPE, "float8_e4m3fn"},
                                                {DataType::kFloat8e4m3fnuz, NPY_NOTYPE, "float8_e4m3fnuz"},
                                                {DataType::kFloat8e5m2, NPY_NOTYPE, "float8_e5m2"},
                                                {DataType::kFloat8e5m2fnuz, NPY_NOTYPE, "float8_e5m2fnuz"},
                                                {DataType::kUint4, NPY_NOTYPE, "uint4"},
                                                {DataType::kInt4, NPY_NOTYPE, "int4"},
                                                {DataType::kFloat4e2m1, NPY_NOTYPE, "float4_e2m1fn"},
                                                {DataType::kUint2, NPY_NOTYPE, "uint2"},
                                                {DataType::kInt2, NPY_NOTYPE, "int2"}}};
constexpr DtypeName kFloat8e8m0{DataType::kFloat8e8m0, NPY_NOTYPE, "float8_e8m0fnu"};

// Found once. Never freed: an interpreter that ends frees them before us.
std::array<PyArray_Descr*, kTypes> descriptors{};

PyArray_Descr* make_descriptor(const DtypeName& entry) {
  if (entry.number != NPY_NOTYPE) return PyArray_DescrFromType(entry.number);
  nb::object type;
  try {
    type = nb::module_::import_("ml_dtypes").attr(entry.name);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("ml_dtypes");
    throw Error(ErrorCode::kMissing, "NumPy has no elements of type " + std::string(name(entry.type)), {},
                "pip install ml_dtypes");
  }
  PyArray_Descr* made = nullptr;
  if (!PyArray_DescrConverter(type.ptr(), &made)) throw nb::python_error();
  return made;
}

// A borrowed reference.
PyArray_Descr* descriptor_of(DataType type) {
  need_numpy();
  const auto number = static_cast<std::size_t>(type);
  if (number >= kTypes)  // the program may pass any number
    throw Error(ErrorCode::kUsage, "ONNX has no element type " + std::to_string(static_cast<int>(type)));
  PyArray_Descr*& known = descriptors[number];
  if (known == nullptr) {
    for (const DtypeName& entry : kDtypes)
      if (entry.type == type) known = make_descriptor(entry);
    if (type == DataType::kFloat8e8m0) known = make_descriptor(kFloat8e8m0);
    if (known == nullptr) throw Error(ErrorCode::kUnsupported, "NumPy has no elements of type " + std::string(name(type)));
  }
  return known;
}

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

DataType type_of(PyArray_Descr* descriptor) {
  const int number = descriptor->type_num;
  switch (number) {  // types for which NumPy has two numbers, and kinds of text
    case NPY_LONGLONG:
      return DataType::kInt64;
    case NPY_ULONGLONG:
      return DataType::kUint64;
    case NPY_STRING:
    case NPY_UNICODE:
    case NPY_VSTRING:
      return DataType::kString;
    case NPY_VOID:  // bytes of a fixed length
      if (!PyDataType_HASFIELDS(descriptor) && !PyDataType_HASSUBARRAY(descriptor)) return DataType::kString;
      break;
    default:
      break;
  }
  for (const DtypeName& entry : kDtypes)
    if (entry.number != NPY_NOTYPE && entry.number == number) return entry.type;
  if (PyTypeNum_ISUSERDEF(number)) {
    for (const DtypeName& entry : kDtypes)
      if (entry.number == NPY_NOTYPE && descriptor_of(entry.type)->type_num == number) return entry.type;
    if (descriptor_of(DataType::kFloat8e8m0)->type_num == number) return DataType::kFloat8e8m0;
  }
  throw Error(ErrorCode::kUnsupported,
              "elements of NumPy's type " + text_of(nb::borrow(reinterpret_cast<PyObject*>(descriptor))) + " are no tensor's");
}

// Keeps a Python object for as long as a tensor reads its memory.
std::shared_ptr<const void> keep(nb::object object) {
  PyObject* const held = object.release().ptr();
  return {static_cast<const void*>(held), [held](const void*) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire gil;
            Py_DECREF(held);
          }};
}

// A text or bytes as a string; any other object by str(), as in ONNX Runtime.
std::string utf8(PyObject* element) {
  if (PyBytes_Check(element)) return {PyBytes_AS_STRING(element), static_cast<std::size_t>(PyBytes_GET_SIZE(element))};
  if (PyUnicode_CheckExact(element) && PyUnicode_IS_COMPACT_ASCII(element))
    return {reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(element)),
            static_cast<std::size_t>(PyUnicode_GET_LENGTH(element))};
  const nb::object text = nb::steal(PyObject_Str(element));
  if (!text.is_valid()) throw nb::python_error();
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

Sizes sizes_of(PyArrayObject* array) { return {PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array)}; }

// Elements of NumPy's type void: bytes of fixed length, including trailing zeros.
Tensor strings_of_bytes(PyArrayObject* array) {
  const nb::object plain = nb::steal(PyArray_FromArray(array, nullptr, NPY_ARRAY_CARRAY_RO));
  if (!plain.is_valid()) throw nb::python_error();
  auto* const list = reinterpret_cast<PyArrayObject*>(plain.ptr());
  const char* const data = static_cast<const char*>(PyArray_DATA(list));
  const auto length = static_cast<std::size_t>(PyArray_ITEMSIZE(list));
  std::vector<std::string> texts;
  for (npy_intp i = 0; i < PyArray_SIZE(list); ++i) texts.emplace_back(data + static_cast<std::size_t>(i) * length, length);
  return Tensor::from_strings(sizes_of(list), std::move(texts));
}

Tensor strings_of(PyArrayObject* array) {
  if (PyArray_DESCR(array)->type_num == NPY_VOID) return strings_of_bytes(array);
  // All kinds of text are converted to objects.
  PyArray_Descr* const objects = PyArray_DescrFromType(NPY_OBJECT);
  const nb::object plain = nb::steal(PyArray_FromArray(array, objects, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST));
  if (!plain.is_valid()) throw nb::python_error();
  auto* const list = reinterpret_cast<PyArrayObject*>(plain.ptr());
  PyObject** const elements = static_cast<PyObject**>(PyArray_DATA(list));
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(PyArray_SIZE(list)));
  for (npy_intp i = 0; i < PyArray_SIZE(list); ++i) texts.push_back(utf8(elements[i]));
  return Tensor::from_strings(sizes_of(list), std::move(texts));
}

bool is_signed(DataType type) { return type == DataType::kInt4 || type == DataType::kInt2; }

// Elements of less than 8 bits: tensors store the value in a whole byte, NumPy's types in its lowest bits.
void spread(DataType type, const std::byte* from, std::byte* to, std::size_t count) {
  const int bits = packed_bits(type);
  const unsigned mask = (1u << bits) - 1, sign = 1u << (bits - 1);
  for (std::size_t i = 0; i < count; ++i) {
    unsigned value = static_cast<unsigned>(from[i]) & mask;
    if (is_signed(type) && (value & sign) != 0) value |= ~mask;
    to[i] = static_cast<std::byte>(value & 0xffu);
  }
}

void gather_bits(DataType type, const std::byte* from, std::byte* to, std::size_t count) {
  const unsigned mask = (1u << packed_bits(type)) - 1;
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(static_cast<unsigned>(from[i]) & mask);
}

Tensor tensor_of(nb::object object) {
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  const DataType type = type_of(PyArray_DESCR(array));
  if (type == DataType::kString) return strings_of(array);
  if (!PyArray_ISCARRAY_RO(array)) {  // make it contiguous, aligned and in native byte order
    PyArray_Descr* const descriptor = descriptor_of(type);
    Py_INCREF(descriptor);
    object = nb::steal(PyArray_FromArray(array, descriptor, NPY_ARRAY_CARRAY_RO));
    if (!object.is_valid()) throw nb::python_error();
    array = reinterpret_cast<PyArrayObject*>(object.ptr());
  }
  const auto* const data = static_cast<const std::byte*>(PyArray_DATA(array));
  if (packed_bits(type) < 8) {
    Tensor tensor(type, sizes_of(array));
    spread(type, data, tensor.mutable_bytes().data(), tensor.byte_count());
    return tensor;
  }
  Sizes sizes = sizes_of(array);
  return {type, std::move(sizes), keep(std::move(object)), data};
}

std::string where_of(const Declaration& declared) {
  return declared.name.empty() ? std::string() : "input \"" + declared.name + "\"";
}

Tensor tensor_of_other(nb::handle value, const Declaration& declared);

// The element type in a text like "seq(tensor(float))"; kUndefined if there is none.
DataType elements_in(const std::string& type) {
  const std::size_t at = type.find("tensor(");
  if (at == std::string::npos) return DataType::kUndefined;
  const std::string text = type.substr(at, type.find(')', at) + 1 - at);
  for (const DtypeName& entry : kDtypes)
    if (tensor_type_text(entry.type) == text) return entry.type;
  return DataType::kUndefined;
}

// A dict for "map(int64,tensor(float))", say.
Datum map_of(nb::handle dict, const Declaration& declared) {
  Declaration keys = declared, values = declared;
  keys.elements = declared.type.find("map(string") == std::string::npos ? DataType::kInt64 : DataType::kString;
  values.elements = elements_in(declared.type);
  const auto column = [&](const char* name, const Declaration& of) {
    return tensor_of_other(nb::list(nb::borrow(dict).attr(name)()), of);
  };
  return Datum::map(std::make_shared<const Tensor>(column("keys", keys)), column("values", values));
}

Datum sequence_of(nb::handle list, const Declaration& declared) {
  std::vector<Datum> elements;
  const DataType type = elements_in(declared.type);
  for (const nb::handle element : list) {
    elements.push_back(to_datum(element, declared));
    const Datum& datum = elements.back();
    if (type == DataType::kUndefined || !datum.is_tensor()) continue;
    if (datum.tensor().type() != type)
      throw SituatedError(
          {ErrorCode::kBadInput,
           "has an element that is a " + tensor_type_text(datum.tensor().type()) + ", the model asks for " + declared.type,
           where_of(declared)},
          "conversion");
  }
  return Datum::sequence(std::move(elements));
}

// Converts a number or a list of numbers.
Tensor tensor_of_other(nb::handle value, const Declaration& declared) {
  PyArray_Descr* descriptor = nullptr;
  if (declared.elements != DataType::kUndefined) {
    descriptor = descriptor_of(declared.elements);
    Py_INCREF(descriptor);
  }
  nb::object array = nb::steal(PyArray_FromAny(value.ptr(), descriptor, 0, 0, NPY_ARRAY_CARRAY_RO, nullptr));
  if (!array.is_valid()) {
    nb::python_error error;
    throw SituatedError({ErrorCode::kBadInput, std::string("is no array: ") + error.what(), where_of(declared),
                         "give a NumPy array, or anything with __dlpack__"},
                        "conversion");
  }
  return tensor_of(std::move(array));
}

// Frees the tensor that owns an array's memory.
void free_tensor(PyObject* capsule) { delete static_cast<Tensor*>(PyCapsule_GetPointer(capsule, nullptr)); }

nb::object array_of_strings(const Tensor& tensor) {
  nb::object array = nb::steal(
      PyArray_SimpleNew(static_cast<int>(tensor.sizes().size()), const_cast<npy_intp*>(tensor.sizes().data()), NPY_OBJECT));
  if (!array.is_valid()) throw nb::python_error();
  auto** const elements = static_cast<PyObject**>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
  const auto texts = tensor.strings();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    PyObject* const text = PyUnicode_DecodeUTF8(texts[i].data(), static_cast<Py_ssize_t>(texts[i].size()), "surrogateescape");
    if (text == nullptr) throw nb::python_error();
    Py_XDECREF(std::exchange(elements[i], text));
  }
  return array;
}

}  // namespace

nb::object dtype_of(DataType type) { return nb::borrow(reinterpret_cast<PyObject*>(descriptor_of(type))); }

DataType type_of_dtype(nb::handle dtype) {
  need_numpy();
  PyArray_Descr* descriptor = nullptr;
  if (!PyArray_DescrConverter(dtype.ptr(), &descriptor)) throw nb::python_error();
  const nb::object owner = nb::steal(reinterpret_cast<PyObject*>(descriptor));
  return type_of(descriptor);
}

HeldValue to_value(nb::handle value, const Declaration& declared) {
  need_numpy();
  if (PyArray_Check(value.ptr())) return {tensor_of(nb::borrow(value))};
  if (value.is_none()) return {};
  if (nb::isinstance<HeldValue>(value)) return nb::cast<const HeldValue&>(value);
  const bool is_list = PyList_Check(value.ptr()) || PyTuple_Check(value.ptr());
  if (is_list && !declared.is_tensor) return {sequence_of(value, declared)};
  if (PyDict_Check(value.ptr()) && !declared.is_tensor) return {map_of(value, declared)};
  if (!is_list && !PyArray_CheckAnyScalar(value.ptr()) &&
      (PyCapsule_CheckExact(value.ptr()) || nb::hasattr(value, "__dlpack__")))
    return value_of_dlpack(value, where_of(declared));
  return {tensor_of_other(value, declared)};
}

Datum to_datum(nb::handle value, const Declaration& declared) { return on_host(to_value(value, declared)); }

Datum on_host(const HeldValue& value) {
  if (!value.placed) return value.datum;
  const nb::gil_scoped_release release;
  return memory_of_gpu(value.placed->device).copy_out(*value.placed);
}

nb::object to_array(const Tensor& tensor, bool may_share) {
  need_numpy();
  if (tensor.type() == DataType::kString) return array_of_strings(tensor);
  PyArray_Descr* const descriptor = descriptor_of(tensor.type());
  const int rank = static_cast<int>(tensor.sizes().size());
  if (rank > NPY_MAXDIMS) throw Error(ErrorCode::kUnsupported, "NumPy has no arrays of " + std::to_string(rank) + " axes");
  auto* const sizes = const_cast<npy_intp*>(tensor.sizes().data());
  const bool narrow = packed_bits(tensor.type()) < 8;
  Py_INCREF(descriptor);
  if (!may_share || narrow) {
    nb::object array = nb::steal(PyArray_NewFromDescr(&PyArray_Type, descriptor, rank, sizes, nullptr, nullptr, 0, nullptr));
    if (!array.is_valid()) throw nb::python_error();
    auto* const to = static_cast<std::byte*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
    if (narrow)
      gather_bits(tensor.type(), tensor.bytes().data(), to, tensor.byte_count());
    else if (tensor.byte_count() > 0)
      std::memcpy(to, tensor.bytes().data(), tensor.byte_count());
    return array;
  }
  auto held = std::make_unique<Tensor>(tensor);
  void* const data = const_cast<std::byte*>(held->bytes().data());
  nb::object array =
      nb::steal(PyArray_NewFromDescr(&PyArray_Type, descriptor, rank, sizes, nullptr, data, NPY_ARRAY_CARRAY, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  PyObject* const owner = PyCapsule_New(held.release(), nullptr, free_tensor);
  if (owner == nullptr || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.ptr()), owner) < 0)
    throw nb::python_error();
  return array;
}

namespace {

// The elements as Python's own numbers and texts.
nb::list list_of(const Tensor& tensor) { return nb::cast<nb::list>(to_array(tensor, true).attr("tolist")()); }

nb::object dict_of(const nb::list& keys, const Tensor& values) {
  nb::object dict = nb::steal(PyDict_New());
  const nb::list of_keys = list_of(values);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (PyDict_SetItem(dict.ptr(), nb::object(keys[i]).ptr(), nb::object(of_keys[i]).ptr()) < 0) throw nb::python_error();
  return dict;
}

}  // namespace

nb::object to_python(const Datum& datum, bool may_share) {
  if (datum.empty()) return nb::none();
  if (datum.is_map()) return dict_of(list_of(*datum.keys()), datum.values());
  if (!datum.is_sequence()) return to_array(datum.tensor(), may_share);
  nb::list list;
  const Tensor* known = nullptr;  // keys that many maps share
  nb::list keys;
  for (const Datum& element : datum.elements()) {
    if (!element.is_map()) {
      list.append(to_python(element, false));
      continue;
    }
    if (element.keys().get() != known) known = element.keys().get(), keys = list_of(*known);
    list.append(dict_of(keys, element.values()));
  }
  return list;
}

void copy_to_array(const Tensor& tensor, nb::handle array) {
  need_numpy();
  if (!PyArray_Check(array.ptr())) throw Error(ErrorCode::kUsage, "outputs are bound to NumPy arrays");
  auto* const buffer = reinterpret_cast<PyArrayObject*>(array.ptr());
  require_fits({type_of(PyArray_DESCR(buffer)), sizes_of(buffer)}, {tensor.type(), to_indices(tensor.sizes())}, "value");
  const nb::object source = to_array(tensor, true);
  if (PyArray_CopyInto(buffer, reinterpret_cast<PyArrayObject*>(source.ptr())) < 0) throw nb::python_error();
}

}  // namespace rewright::python
