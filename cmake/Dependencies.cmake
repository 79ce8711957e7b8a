# Debian's libraries, and those that tools/setup puts into the cache. Targets:
#   Threads::Threads OpenMP::OpenMP_CXX Protobuf (protobuf::libprotobuf, protobuf::protoc) Catch2::Catch2 CLI11::CLI11
#   nlohmann_json::nlohmann_json SQLite::SQLite3 ZLIB::ZLIB OpenSSL::Crypto OpenBLAS::OpenBLAS Sleef::Sleef xxHash::xxHash RE2::RE2
#   PNG::PNG TurboJPEG::TurboJPEG WebP::WebP TIFF::headers OpenJPEG::OpenJPEG ONNX::onnx Z3::Z3 oneDNN::oneDNN highs::highs

set(REWRIGHT_CACHE "$ENV{REWRIGHT_CACHE}")
if(NOT REWRIGHT_CACHE)
  set(REWRIGHT_CACHE "$ENV{HOME}/.cache/rewright")
endif()
rewright_hide_folder(${REWRIGHT_CACHE})

# Sets VARIABLE to the folder of a library in the cache, in the version and built in the way that tools/requirements-native.txt pins.
set(native_requirements ${PROJECT_SOURCE_DIR}/tools/requirements-native.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${native_requirements})
function(rewright_native_prefix variable name requirement)
  file(STRINGS ${native_requirements} line REGEX "^${requirement}==")
  string(REGEX REPLACE "^${requirement}==([^ ]+) .*" "\\1" version "${line}")
  if(line MATCHES "# (build[0-9]+)$")
    string(APPEND version "-${CMAKE_MATCH_1}")
  endif()
  set(prefix "${REWRIGHT_CACHE}/deps/${name}-${version}")
  if(NOT IS_DIRECTORY ${prefix})
    message(FATAL_ERROR "${prefix} is missing: run tools/setup (REWRIGHT_CACHE names another cache folder)")
  endif()
  set(${variable} ${prefix} PARENT_SCOPE)
endfunction()

rewright_native_prefix(ONNX_ROOT onnx onnx)
rewright_native_prefix(Z3_ROOT z3 z3-solver)
rewright_native_prefix(oneDNN_ROOT onednn onednn-cpu-gomp)
rewright_native_prefix(highs_ROOT highs highspy)

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Protobuf 3.21 REQUIRED)
find_package(Catch2 2.13 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(OpenBLAS MODULE REQUIRED)
find_package(Sleef MODULE REQUIRED)
find_package(xxHash MODULE REQUIRED)
find_package(RE2 MODULE REQUIRED)
find_package(PNG REQUIRED)
find_package(TurboJPEG MODULE REQUIRED)
find_package(WebP MODULE REQUIRED)
find_package(TIFF REQUIRED)
# TIFF::headers, and TIFF_SONAME, which it is loaded by when an image asks for it: linked, it would bring more libraries into every start of
# the program and every wheel, of which Debian's JBIG-KIT is under the GPL.
rewright_soname(TIFF_SONAME ${TIFF_LIBRARY_RELEASE})
add_library(TIFF::headers INTERFACE IMPORTED)
set_target_properties(TIFF::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${TIFF_INCLUDE_DIRS}")
find_package(OpenJPEG MODULE REQUIRED)
find_package(Graphviz MODULE REQUIRED)
find_file(D3_SCRIPT d3.min.js PATHS /usr/share/nodejs/d3/dist REQUIRED)  # of the Debian package node-d3
find_package(ONNX MODULE REQUIRED)
find_package(Z3 MODULE REQUIRED)
find_package(oneDNN MODULE REQUIRED)
find_package(highs CONFIG REQUIRED PATHS ${highs_ROOT} NO_DEFAULT_PATH)
