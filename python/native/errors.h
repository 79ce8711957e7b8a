// C++ errors as exceptions of Python.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace rewright::python {

// An Error with its situation in the life of a session: "file", "bytes" or "model" (while it is read and prepared),
// "argument" or "conversion" (of a value into a tensor), "run". rewright.errors has the exceptions for each.
class SituatedError : public Error {
 public:
  SituatedError(const Error& error, std::string situation) : Error(error), situation_(std::move(situation)) {}
  const std::string& situation() const { return situation_; }

 private:
  std::string situation_;
};

// Returns the result of `work`. Errors that it throws get this situation if they have none.
template <class Work>
auto in_situation(const char* situation, const Work& work) {
  try {
    return work();
  } catch (const SituatedError&) {
    throw;
  } catch (const Error& error) {
    throw SituatedError(error, situation);
  }
}

// Error becomes rewright.Error, or the subclass for its code and its situation.
void register_errors(nanobind::module_& m);

}  // namespace rewright::python
