#pragma once

#include <string>

namespace rewright::cli {

// The program's version and those of the libraries it uses, a line each.
std::string version_text();

}  // namespace rewright::cli
