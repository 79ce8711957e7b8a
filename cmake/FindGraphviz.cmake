# Graphviz::gvc: layouts of graphs. Its plug-ins are loaded when it runs.
find_path(Graphviz_INCLUDE_DIR graphviz/gvc.h)
find_library(Graphviz_gvc_LIBRARY NAMES gvc)
find_library(Graphviz_cgraph_LIBRARY NAMES cgraph)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Graphviz REQUIRED_VARS Graphviz_gvc_LIBRARY Graphviz_cgraph_LIBRARY Graphviz_INCLUDE_DIR)
mark_as_advanced(Graphviz_INCLUDE_DIR Graphviz_gvc_LIBRARY Graphviz_cgraph_LIBRARY)
if(Graphviz_FOUND AND NOT TARGET Graphviz::gvc)
  add_library(Graphviz::gvc UNKNOWN IMPORTED)
  # Its headers include each other without their folder's name.
  set_target_properties(Graphviz::gvc PROPERTIES IMPORTED_LOCATION ${Graphviz_gvc_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES "${Graphviz_INCLUDE_DIR};${Graphviz_INCLUDE_DIR}/graphviz"
    INTERFACE_LINK_LIBRARIES ${Graphviz_cgraph_LIBRARY})
endif()
