# How a folder declares its library, its tests, its programs and its Protobuf schemas.

# rewright_library(NAME [FUZZED] [BRIEF] SOURCES ... [SEPARATE ...] [PUBLIC_DEPS ...] [PRIVATE_DEPS ...])
# A static library. Sources of ours are included relative to the root: #include "expressions/index.h". FUZZED: it reads what others
# wrote, and tells the fuzzers which of its branches were taken, where there are fuzzers. (This takes a quarter of the time to
# compile and to run; the other libraries do without.) BRIEF: its code takes less time to run in tests than to compile, so that under
# sanitizers it is not optimized, which halves the latter. Eight files are compiled at a time (REWRIGHT_UNITY), so that a name in an
# unnamed namespace is a library's only one; SEPARATE: files that are compiled by themselves, as they have names that others
# have, or as a plug-in takes them without the rest.
function(rewright_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FUZZED;BRIEF" "" "SOURCES;SEPARATE;PUBLIC_DEPS;PRIVATE_DEPS")
  add_library(${name} STATIC ${arg_SOURCES} ${arg_SEPARATE})
  rewright_unity(${name} 8 ${arg_SEPARATE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage) # a class of one file that has members of types of that file
  endif()
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  rewright_warnings(${name})
  if(arg_BRIEF AND REWRIGHT_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  if(arg_FUZZED AND REWRIGHT_FUZZERS)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${name} INTERFACE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# rewright_unity(TARGET COUNT [SEPARATE ...])
# Compiles so many of the target's files at a time (REWRIGHT_UNITY), but for some.
function(rewright_unity target count)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${REWRIGHT_UNITY} UNITY_BUILD_BATCH_SIZE ${count})
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# rewright_executable(NAME SOURCES ... [DEPS ...])
# A program in build/<preset>/bin.
function(rewright_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  rewright_warnings(${name})
endfunction()

# Catch2's main, compiled once for all tests.
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/generated/test_main.cc
     CONTENT "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
add_library(rewright_test_main OBJECT ${PROJECT_BINARY_DIR}/generated/test_main.cc)
target_link_libraries(rewright_test_main PUBLIC Catch2::Catch2)
target_compile_options(rewright_test_main PRIVATE -O0) # half the time to compile

add_custom_target(unit_tests)

# Under sanitizers, tests that only do more of what shorter ones do are left out.
if(REWRIGHT_SANITIZE)
  set(rewright_test_selection "~[long]~[.]")
endif()

# rewright_test(NAME SOURCES ... [SEPARATE ...] [DEPS ...] [TIMEOUT SECONDS] [COST SECONDS])
# One Catch2 program of a folder's *_test.cc, registered with CTest under its name and built by `unit_tests`. Tests run in the
# source folder. COST: about how long a long one takes; CTest begins with the longest, so that no processor waits for the last.
# Four files are compiled at a time, as those of libraries are: most of a test's time goes into headers.
function(rewright_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;COST" "SOURCES;SEPARATE;DEPS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(REWRIGHT_SANITIZE)
    math(EXPR arg_TIMEOUT "4 * ${arg_TIMEOUT}")
  endif()
  rewright_executable(${name} SOURCES ${arg_SOURCES} ${arg_SEPARATE} DEPS ${arg_DEPS} rewright_test_main Catch2::Catch2)
  rewright_unity(${name} 4 ${arg_SEPARATE})
  if(REWRIGHT_SANITIZE)
    target_compile_definitions(${name} PRIVATE REWRIGHT_SANITIZED)
    target_compile_options(${name} PRIVATE -O0) # a third of the time to compile; what takes time to run is in the libraries
  else()
    target_compile_options(${name} PRIVATE -O1)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${rewright_test_selection} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS unit)
  if(arg_COST)
    set_tests_properties(${name} PROPERTIES COST ${arg_COST})
  endif()
  add_dependencies(unit_tests ${name})
endfunction()

# rewright_process_tests(NAME TARGET COUNTS ...)
# The [distribution] tests of a rewright_test by so many processes of mpirun at a time, as NAME_2, NAME_3 and so on.
function(rewright_process_tests name target)
  add_dependencies(${target} rewright_mpi)
  foreach(processes IN LISTS ARGN)
    add_test(NAME ${name}_${processes} COMMAND ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe -n ${processes}
                                               $<TARGET_FILE:${target}> [distribution])
    # Open MPI does not free what it allocates for as long as a process runs.
    set_tests_properties(${name}_${processes} PROPERTIES LABELS unit TIMEOUT 300 ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
  endforeach()
endfunction()

# rewright_protobuf(NAME PROTOS ...)
# A static library of the C++ classes of the schemas, which include each other and are included relative to the root:
# rules/rules.proto is #include "rules/rules.pb.h".
function(rewright_protobuf name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PROTOS")
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  set(outputs)
  foreach(proto IN LISTS arg_PROTOS)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/${proto})
    file(RELATIVE_PATH relative ${PROJECT_SOURCE_DIR} ${source})
    string(REGEX REPLACE "\\.proto$" "" stem ${generated}/${relative})
    add_custom_command(
      OUTPUT ${stem}.pb.cc ${stem}.pb.h
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated} ${source}
      DEPENDS ${source} protobuf::protoc
      COMMENT "Generating ${relative}'s C++ classes"
      VERBATIM)
    list(APPEND outputs ${stem}.pb.cc ${stem}.pb.h)
  endforeach()
  add_library(${name} STATIC ${outputs})
  target_include_directories(${name} SYSTEM PUBLIC ${generated})
  target_link_libraries(${name} PUBLIC protobuf::libprotobuf)
endfunction()

# rewright_embed(VARIABLE NAMESPACE HEADER NAME=FILE[,FILE ...] ...)
# Sets VARIABLE to a C++ source that defines for each NAME a function std::string_view NAME() in NAMESPACE, as HEADER declares it:
# the text of the files, one after the other. They are relative to the folder.
set(rewright_embed_script ${CMAKE_CURRENT_LIST_DIR}/Embed.cmake)
function(rewright_embed variable namespace header)
  set(parts)
  set(inputs)
  foreach(part IN LISTS ARGN)
    if(NOT part MATCHES "^([a-z0-9_]+)=(.+)$")
      message(FATAL_ERROR "rewright_embed: ${part} is not NAME=FILE")
    endif()
    set(name ${CMAKE_MATCH_1})
    string(REPLACE "," ";" given "${CMAKE_MATCH_2}")
    set(files)
    foreach(file IN LISTS given)
      get_filename_component(path ${file} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
      list(APPEND files ${path})
    endforeach()
    list(APPEND inputs ${files})
    list(JOIN files "," files)
    list(APPEND parts "${name}=${files}")
  endforeach()
  list(JOIN parts "|" parts)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(output ${PROJECT_BINARY_DIR}/generated/${folder}/${variable}.cc)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DNAMESPACE=${namespace} -DHEADER=${header} -DPARTS=${parts} -P ${rewright_embed_script}
    DEPENDS ${inputs} ${rewright_embed_script}
    COMMENT "Embedding ${folder}'s files"
    VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
