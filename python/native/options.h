// Tables of options (api/request_options.h) for Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/request_options.h"

namespace rewright::python {

// Given options: names and texts.
using GivenOptions = std::vector<std::pair<std::string, std::string>>;

template <class Request>
Request request_with(std::span<const RequestOption<Request>> all, const GivenOptions& options) {
  Request request;
  for (const auto& [name, value] : options) set_option(all, request, name, value);
  return request;
}

// A list of dicts: name, kind (text, flag or list), type, initial, description.
template <class Request>
nanobind::list described(std::span<const RequestOption<Request>> all) {
  nanobind::list options;
  for (const RequestOption<Request>& option : all) {
    nanobind::dict facts;
    facts["name"] = std::string(option.name);
    facts["kind"] = std::string(name(option.kind));
    facts["type"] = option.type;
    facts["initial"] = option.initial;
    facts["description"] = std::string(option.description);
    options.append(facts);
  }
  return options;
}

}  // namespace rewright::python
