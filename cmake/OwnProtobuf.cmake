# cmake -DPATCHELF=... -DPROTOBUF=FILE -DMODULE=FILE -P OwnProtobuf.cmake
# Gives a module a copy of Protobuf's library beside it, under a name of its own, instead of the system's.
get_filename_component(folder ${MODULE} DIRECTORY)
set(name librewright_protobuf.so)
function(patchelf)
  execute_process(COMMAND ${PATCHELF} ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(said "${said}" PARENT_SCOPE)
endfunction()
file(REAL_PATH ${PROTOBUF} protobuf)
patchelf(--print-soname ${protobuf})
set(soname ${said})
file(COPY_FILE ${protobuf} ${folder}/${name})
patchelf(--set-soname ${name} ${folder}/${name})
patchelf(--replace-needed ${soname} ${name} ${MODULE})
