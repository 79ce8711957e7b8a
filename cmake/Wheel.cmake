# The compiled part of the Python package (pip install ., docs/python.md): the extension module, the program, its plug-ins, and the
# libraries that all of these load, but for those of the C and C++ languages. Everything is in one folder, and finds the rest there:
# nothing of the build machine is needed.
set(native rewright/_native)

# Not DT_RUNPATH: libraries from elsewhere that say nothing themselves must find each other here, too.
target_link_options(rewright_python PRIVATE -Wl,--disable-new-dtags)
target_link_options(rewright PRIVATE -Wl,--disable-new-dtags)
set_target_properties(rewright_python PROPERTIES INSTALL_RPATH "$ORIGIN")

install(TARGETS rewright_python LIBRARY DESTINATION ${native} COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS rewright RUNTIME DESTINATION ${native} COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/python/rewright/_native/_core.pyi DESTINATION ${native} COMPONENT python EXCLUDE_FROM_ALL)
# Plug-ins load what is of the machine they run on: its MPI, its driver.
foreach(plugin IN ITEMS rewright_mpi rewright_cuda)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${native} COMPONENT python EXCLUDE_FROM_ALL)
  endif()
endforeach()

# Graphviz loads its layouts when it runs.
get_target_property(graphviz Graphviz::gvc IMPORTED_LOCATION)
get_filename_component(graphviz "${graphviz}" DIRECTORY)
file(GLOB graphviz_plugins ${graphviz}/graphviz/config6a ${graphviz}/graphviz/libgvplugin_core.so.6
     ${graphviz}/graphviz/libgvplugin_dot_layout.so.6)

install(CODE "
  file(GET_RUNTIME_DEPENDENCIES
    LIBRARIES \"$<TARGET_FILE:rewright_python>\" EXECUTABLES \"$<TARGET_FILE:rewright>\"
    RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES \"^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libutil|libresolv|libgcc_s|libstdc\\\\+\\\\+)\\\\.so\")
  if(missing)
    message(FATAL_ERROR \"libraries are missing: \${missing}\")
  endif()
  set(folder \"\${CMAKE_INSTALL_PREFIX}/${native}\")
  foreach(library IN LISTS found)
    get_filename_component(name \"\${library}\" NAME)  # that by which programs ask for it
    file(REAL_PATH \"\${library}\" real)
    file(INSTALL \"\${real}\" DESTINATION \"\${folder}\" RENAME \"\${name}\")
  endforeach()
  foreach(plugin IN ITEMS ${graphviz_plugins})
    get_filename_component(name \"\${plugin}\" NAME)
    file(REAL_PATH \"\${plugin}\" real)
    file(INSTALL \"\${real}\" DESTINATION \"\${folder}/graphviz\" RENAME \"\${name}\")
  endforeach()" COMPONENT python EXCLUDE_FROM_ALL)
