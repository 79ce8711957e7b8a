// Options of a request by name, with texts as values. The command line, the C interface and the Python package derive their
// options, descriptions and errors from one table.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rewright::api {

enum class OptionKind { kText, kFlag, kList };  // a flag is "true" or "false"; a list is added to
std::string_view name(OptionKind kind);         // "text", "flag", "list"

// An option of a command, named without the dashes.
template <class Request>
struct RequestOption {
  std::string_view name;
  OptionKind kind;
  std::string type;     // of its values, for people: "FILE", or the choices with | between them
  std::string initial;  // the default: the value in a new Request
  std::string_view description;
  std::function<void(Request&, const std::string&)> set;  // throws Error(kUsage)
};

// The option of this name. Throws Error(kUsage) that names all there are.
template <class Request>
const RequestOption<Request>& option_called(std::span<const RequestOption<Request>> all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& option) { return option.name == name; });
  if (found != all.end()) return *found;
  std::string names;
  for (const auto& option : all) names += (names.empty() ? "" : ", ") + std::string(option.name);
  throw Error(ErrorCode::kUsage, "there is no option \"" + std::string(name) + "\"", {}, "there are " + names);
}

// Throws Error(kUsage) that names the option if there is none of this name, or it cannot have the value.
template <class Request>
void set_option(std::span<const RequestOption<Request>> all, Request& request, std::string_view name,
                const std::string& value) {
  const RequestOption<Request>& option = option_called(all, name);
  try {
    option.set(request, value);
  } catch (const Error& error) {
    throw error.within("option " + std::string(name));
  }
}

}  // namespace rewright::api
