#include "api/versions.h"

#include <Highs.h>
#include <google/protobuf/stubs/common.h>
#include <graphviz/gvc.h>
#include <openjpeg.h>
#include <openssl/crypto.h>
#include <png.h>
#include <sleef.h>
#include <sqlite3.h>
#include <tiffvers.h>
#include <webp/decode.h>
#include <xxhash.h>
#include <z3.h>
#include <zlib.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "distribution/communicator.h"
#include "graph/onnx/onnx.h"
#include "report/report.h"
#include "runtime/cpu/backend/device.h"
#include "runtime/cuda/running/device.h"

namespace rewright::api {

namespace {

std::string dotted(std::initializer_list<unsigned long> numbers) {
  std::string text;
  for (const unsigned long number : numbers) text += (text.empty() ? "" : ".") + std::to_string(number);
  return text;
}

std::string z3_version() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return dotted({major, minor, build, revision});
}

std::string graphviz_version() {
  const std::unique_ptr<GVC_t, decltype(&gvFreeContext)> context(gvContext(), gvFreeContext);
  return gvcVersion(context.get());
}

std::string json_version() {
  return dotted({NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH});
}

std::string xxhash_version() {
  const unsigned number = XXH_versionNumber();
  return dotted({number / 10000, number / 100 % 100, number % 100});
}

std::string webp_version() {
  const auto number = static_cast<unsigned>(WebPGetDecoderVersion());
  return dotted({number >> 16, number >> 8 & 0xff, number & 0xff});
}

}  // namespace

std::string library_versions() {
  std::string text = "ONNX " + onnx_version();
  text += "\nProtobuf " + google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION);
  text += "\n" + cpu::cpu_library_versions();
  text += "\nSLEEF " + dotted({SLEEF_VERSION_MAJOR, SLEEF_VERSION_MINOR, SLEEF_VERSION_PATCHLEVEL});
  text += "\nHiGHS " + std::string(highsVersion());
  text += "\nZ3 " + z3_version();
  text += "\nSQLite " + std::string(sqlite3_libversion());
  text += "\nOpenSSL " + std::string(OpenSSL_version(OPENSSL_VERSION_STRING));
  text += "\nxxHash " + xxhash_version();
  text += "\nRE2 " RE2_VERSION;
  text += "\nzlib " + std::string(zlibVersion());
  text += "\nlibpng " + std::string(png_get_libpng_ver(nullptr));
  text += "\nlibjpeg-turbo " LIBJPEG_TURBO_VERSION;
  text += "\nlibwebp " + webp_version();
  text += "\nLibTIFF " + dotted({TIFFLIB_MAJOR_VERSION, TIFFLIB_MINOR_VERSION, TIFFLIB_MICRO_VERSION});
  text += "\nOpenJPEG " + std::string(opj_version());
  text += "\nD3 " + d3_version();
  text += "\nGraphviz " + graphviz_version();
  text += "\nnlohmann-json " + json_version();
  for (const std::string& found : {mpi_version(), cuda::cuda_versions()})
    if (!found.empty()) text += "\n" + found;
  return text;
}

}  // namespace rewright::api
