// Adds tables of options (api/request_options.h) to the command line.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "api/request_options.h"
#include "tools/cli/command.h"

namespace rewright::cli {

// Adds all options of a table, except those that every command has. They set `request`, which must outlive the command.
template <class Request>
void add_options(CLI::App& command, Request& request, std::span<const RequestOption<Request>> all) {
  for (const RequestOption<Request>& option : all) {
    if (option.name == "seed" || option.name == "threads") continue;
    const std::string name = "--" + std::string(option.name), description(option.description);
    const auto set = [&request, all, &option](const std::string& value) { set_option(all, request, option.name, value); };
    if (option.kind == OptionKind::kFlag) {
      command.add_flag_callback(
          name, [set] { set("true"); }, description);
      continue;
    }
    CLI::Option* added =
        option.kind == OptionKind::kText
            ? command.add_option_function<std::string>(name, set, description)
            : command.add_option_function<std::vector<std::string>>(
                  name, [set](const std::vector<std::string>& values) { std::for_each(values.begin(), values.end(), set); },
                  description + " (repeatable)");
    added->type_name(option.type);
    if (!option.initial.empty()) added->default_str(option.initial);
  }
}

}  // namespace rewright::cli
