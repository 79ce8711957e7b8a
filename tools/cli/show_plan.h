// Prints a plan's file: which operators are cut how, what is sent, and each process's memory and time.
#pragma once

#include <string>

#include "tools/cli/command.h"

namespace rewright::cli {

// Is the file a plan, by its content?
bool is_plan(const std::string& file);
int show_plan(const std::string& file, const CommonOptions& common);

}  // namespace rewright::cli
