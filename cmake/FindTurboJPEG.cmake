# TurboJPEG::TurboJPEG: decodes JPEG files. TurboJPEG_VERSION is libjpeg-turbo's, as its pkg-config file says it: the library itself
# does not.
find_path(TurboJPEG_INCLUDE_DIR turbojpeg.h)
find_library(TurboJPEG_LIBRARY NAMES turbojpeg)
find_file(TurboJPEG_PC libturbojpeg.pc PATH_SUFFIXES pkgconfig PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/lib /usr/lib64)
if(TurboJPEG_PC)
  file(STRINGS ${TurboJPEG_PC} line REGEX "^Version:")
  string(REGEX REPLACE "^Version: *" "" TurboJPEG_VERSION "${line}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TurboJPEG REQUIRED_VARS TurboJPEG_LIBRARY TurboJPEG_INCLUDE_DIR TurboJPEG_VERSION
                                  VERSION_VAR TurboJPEG_VERSION)
mark_as_advanced(TurboJPEG_INCLUDE_DIR TurboJPEG_LIBRARY TurboJPEG_PC)
if(TurboJPEG_FOUND AND NOT TARGET TurboJPEG::TurboJPEG)
  add_library(TurboJPEG::TurboJPEG UNKNOWN IMPORTED)
  set_target_properties(TurboJPEG::TurboJPEG PROPERTIES IMPORTED_LOCATION ${TurboJPEG_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES
                                                                                               ${TurboJPEG_INCLUDE_DIR})
endif()
