#include "tools/cli/version.h"

#include <sqlite3.h>
#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#include "graph/onnx.h"
#include "runtime/cpu/device.h"

namespace rewright::cli {

std::string version_text() {
  return "rewright " REWRIGHT_VERSION "\nONNX " + onnx_version() + "\n" + cpu_library_versions() + "\nSQLite " +
         sqlite3_libversion() + "\nCLI11 " CLI11_VERSION "\nnlohmann-json " + std::to_string(NLOHMANN_JSON_VERSION_MAJOR) +
         "." + std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." + std::to_string(NLOHMANN_JSON_VERSION_PATCH);
}

}  // namespace rewright::cli
