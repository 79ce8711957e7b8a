// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "base/namespaces.h"

namespace rewright {

enum class ErrorCode {
  kUsage,        // the caller named something that does not exist (a device, a rule, an option)
  kBadInput,     // a model, rule file, profile or tensor is broken or contradicts itself
  kUnsupported,  // the input is sound, but part of it cannot be handled
  kMissing,      // a library, a device, memory or space is missing on this machine
  kCancelled,    // the caller stopped the work
};

// A failure: what went wrong, where (file, node, tensor; may be empty) and what to do about it (may be empty).
// what() is "where: what (hint)" on one line.
//
//   throw Error(ErrorCode::kBadInput, "has 3 axes, must have 4", "model.onnx: node Conv_7", "check its weight");
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string what, std::string where = {}, std::string hint = {})
      : std::runtime_error(join(what, where, hint)),
        code_(code),
        text_(std::move(what)),
        where_(std::move(where)),
        hint_(std::move(hint)) {}

  ErrorCode code() const { return code_; }
  const std::string& text() const { return text_; }
  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }

  // This failure with `where` put before the place that is already known: callers add the node, the file.
  Error within(const std::string& where) const {
    return Error(code_, text_, where_.empty() ? where : where + ": " + where_, hint_);
  }

 private:
  static std::string join(const std::string& what, const std::string& where, const std::string& hint) {
    std::string line = where.empty() ? what : where + ": " + what;
    if (!hint.empty()) line += " (" + hint + ")";
    for (char& c : line)
      if (c == '\n' || c == '\r') c = ' ';
    return line;
  }

  ErrorCode code_;
  std::string text_, where_, hint_;
};

}  // namespace rewright
