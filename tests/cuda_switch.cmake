# cmake -DSOURCE=... -DBINARY=... -P cuda_switch.cmake: with REWRIGHT_CUDA off, a build has nothing of CUDA's but the plug-in of the
# tests' device; with it on and no toolkit, the configuration ends with a message.
file(REMOVE_RECURSE ${BINARY})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G Ninja -DREWRIGHT_CUDA=OFF RESULT_VARIABLE status
                OUTPUT_QUIET ERROR_VARIABLE messages)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "REWRIGHT_CUDA=OFF does not configure: ${messages}")
endif()
file(STRINGS ${BINARY}/build.ninja plugin REGEX "bin/librewright_cuda\\.so|cudart|nvrtc|cublas|cudnn")
if(plugin)
  message(FATAL_ERROR "REWRIGHT_CUDA=OFF, and still: ${plugin}")
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -DREWRIGHT_CUDA=ON -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE messages)
if(status EQUAL 0 OR NOT messages MATCHES "there is no CUDA toolkit with cuDNN")
  message(FATAL_ERROR "REWRIGHT_CUDA=ON without a toolkit should not configure: ${status}, ${messages}")
endif()
file(REMOVE_RECURSE ${BINARY})
