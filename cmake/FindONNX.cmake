# ONNX::onnx: the static library, and what must be defined to read its headers as it was compiled.
find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h PATHS ${ONNX_ROOT}/include NO_DEFAULT_PATH NO_CACHE)
find_library(ONNX_LIBRARY NAMES libonnx.a PATHS ${ONNX_ROOT}/lib NO_DEFAULT_PATH NO_CACHE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ONNX REQUIRED_VARS ONNX_LIBRARY ONNX_INCLUDE_DIR)
if(ONNX_FOUND AND NOT TARGET ONNX::onnx)
  add_library(ONNX::onnx STATIC IMPORTED)
  set_target_properties(
    ONNX::onnx
    PROPERTIES IMPORTED_LOCATION ${ONNX_LIBRARY}
               INTERFACE_INCLUDE_DIRECTORIES ${ONNX_INCLUDE_DIR}
               INTERFACE_COMPILE_DEFINITIONS "ONNX_NAMESPACE=onnx;ONNX_ML=1"
               INTERFACE_LINK_LIBRARIES protobuf::libprotobuf)
endif()
