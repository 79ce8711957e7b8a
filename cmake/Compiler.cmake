# The language, warnings and sanitizers of every target, and where binaries go.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Assertions stay on in release: they guard our own invariants, never the user's input, and cost next to nothing.
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
# -g1: -g gives the same lines in reports at twice the size.
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")

# __FILE__, in assertions of ours and of headers of others, is a path within this folder, whatever the machine.
macro(rewright_hide_folder folder)
  add_compile_options(-fmacro-prefix-map=${folder}/=)
endmacro()
rewright_hide_folder(${PROJECT_SOURCE_DIR})

find_program(REWRIGHT_CCACHE ccache)
mark_as_advanced(REWRIGHT_CCACHE)
if(REWRIGHT_CCACHE)
  # Paths are hashed relative to this folder, so that checkouts in several folders share compilations.
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${REWRIGHT_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

# The checks left out take a quarter of the time to compile, and see what the address sanitizer sees as well (null pointers, accesses
# beyond an object) or what nothing here does (casts to a wrong class).
if(REWRIGHT_SANITIZE)
  add_compile_options(-fsanitize=${REWRIGHT_SANITIZE} -fno-sanitize=null,object-size,vptr -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${REWRIGHT_SANITIZE})
  # With lld, the tests' programs take a third of the time to link: they have 100 MB each.
  find_program(REWRIGHT_LLD ld.lld)
  mark_as_advanced(REWRIGHT_LLD)
  if(REWRIGHT_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# Applied to our own targets by rewright_library and its like, not to generated code.
function(rewright_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(REWRIGHT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
