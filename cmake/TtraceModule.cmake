# One library per module. The link list is the module's list of what it may include:
# tests/architecture reads it.
#
#   ttrace_module(layout SOURCES shard.cpp ... DEPENDS base trace [PACKAGES HDF5::HDF5])
function(ttrace_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PACKAGES" ${ARGN})
  add_library(ttrace_${name} STATIC ${ARG_SOURCES})
  add_library(ttrace::${name} ALIAS ttrace_${name})
  target_include_directories(ttrace_${name} PUBLIC "${PROJECT_SOURCE_DIR}/lib")
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(ttrace_${name} PUBLIC ttrace::${dependency})
  endforeach()
  target_link_libraries(ttrace_${name} PRIVATE ${ARG_PACKAGES} ttrace_options)
endfunction()
