# Sets VARIABLE to the name that a shared library calls itself, which is that of the file that a program loads.
function(rewright_soname variable file)
  execute_process(COMMAND readelf -d "${file}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  if(NOT text MATCHES "SONAME[^[]*\\[([^]]*)\\]")
    message(FATAL_ERROR "${file} is no shared library with a name of its own")
  endif()
  set(${variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()
