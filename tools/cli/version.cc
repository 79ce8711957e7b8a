#include "tools/cli/version.h"

#include <CLI/Version.hpp>

#include "api/versions.h"
#include "base/namespaces.h"

namespace rewright::cli {

std::string version_text() { return "rewright " REWRIGHT_VERSION "\n" + library_versions() + "\nCLI11 " CLI11_VERSION; }

}  // namespace rewright::cli
