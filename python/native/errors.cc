#include "python/native/errors.h"

#include <string>

namespace nb = nanobind;

namespace rewright::python {

namespace {

const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kBadInput:
      return "bad_input";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kMissing:
      return "missing";
    case ErrorCode::kCancelled:
      return "cancelled";
  }
  return "missing";
}

// Error texts may quote invalid UTF-8 from a broken file.
nb::object text_of(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

void raise(const Error& error, const std::string& situation) {
  const nb::object made = nb::module_::import_("rewright.errors")
                              .attr("error_of")(code_name(error.code()), text_of(error.text()), text_of(error.where()),
                                                text_of(error.hint()), situation.c_str());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

}  // namespace

void register_errors(nb::module_&) {
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const SituatedError& error) {
          raise(error, error.situation());
        } catch (const Error& error) {
          raise(error, {});
        }
      },
      nullptr);
}

}  // namespace rewright::python
