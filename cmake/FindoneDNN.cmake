# oneDNN::oneDNN: the GNU OpenMP build out of the Python wheel; its own CMake configuration expects another layout.
find_path(oneDNN_INCLUDE_DIR dnnl.hpp PATHS ${oneDNN_ROOT}/include NO_DEFAULT_PATH NO_CACHE)
find_library(oneDNN_LIBRARY NAMES dnnl PATHS ${oneDNN_ROOT}/lib NO_DEFAULT_PATH NO_CACHE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR)
if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(oneDNN::oneDNN PROPERTIES IMPORTED_LOCATION ${oneDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${oneDNN_INCLUDE_DIR})
endif()
