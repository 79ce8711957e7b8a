# The files that `cmake --install` installs: the program, librewright with its headers, and the libraries that Debian does not have beside it,
# so that nothing of the build machine is needed.
include(CMakePackageConfigHelpers)

set(own_libraries ${CMAKE_INSTALL_LIBDIR}/rewright)
get_target_property(openblas OpenBLAS::OpenBLAS IMPORTED_LOCATION)
get_filename_component(system_openblas "${openblas}" DIRECTORY)
set_target_properties(rewright_shared PROPERTIES INSTALL_RPATH "$ORIGIN/rewright:${system_openblas}" EXPORT_NAME rewright)
# In a wheel all libraries are in the program's own folder.
set_target_properties(rewright PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/../${own_libraries}:${system_openblas}")

install(TARGETS rewright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS rewright_shared EXPORT rewrightTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES api/rewright.h api/rewright_c.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(library IN ITEMS oneDNN::oneDNN highs::highs Z3::Z3)
  # The file that a program loads has the name that the library calls itself; CMake knows the one it links.
  install(CODE "
    include(\"${PROJECT_SOURCE_DIR}/cmake/Soname.cmake\")
    rewright_soname(soname \"$<TARGET_FILE:${library}>\")
    file(REAL_PATH \"$<TARGET_FILE:${library}>\" real)
    file(INSTALL \"\${real}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${own_libraries}\" RENAME \"\${soname}\")")
endforeach()

# Plug-ins, which find_plugin looks for there.
foreach(plugin IN ITEMS rewright_mpi rewright_cuda rewright_nccl)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${own_libraries} OPTIONAL) # unless it was not built
  endif()
endforeach()

install(EXPORT rewrightTargets NAMESPACE rewright:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rewright)
configure_package_config_file(cmake/rewrightConfig.cmake.in ${PROJECT_BINARY_DIR}/rewrightConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rewright)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rewrightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/rewright.pc.in ${PROJECT_BINARY_DIR}/rewright.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rewrightConfig.cmake ${PROJECT_BINARY_DIR}/rewrightConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rewright)
install(FILES ${PROJECT_BINARY_DIR}/rewright.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
