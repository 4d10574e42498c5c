# One library per module. The link list is the module's list of what it may include:
# tests/architecture reads it.
#
#   ttrace_module(layout SOURCES shard.cpp ... DEPENDS base trace [PACKAGES HDF5::HDF5])
#
# OPTIMIZATION -O1 is for rooms whose work is mostly texts and tables: two thirds of what a
# batch takes to compile is -O3, and the loops over elements are elsewhere.
function(ttrace_module name)
  cmake_parse_arguments(ARG "" "OPTIMIZATION" "SOURCES;DEPENDS;PACKAGES" ${ARGN})
  add_library(ttrace_${name} STATIC ${ARG_SOURCES})
  add_library(ttrace::${name} ALIAS ttrace_${name})
  target_include_directories(ttrace_${name} PUBLIC "${PROJECT_SOURCE_DIR}/lib")
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(ttrace_${name} PUBLIC ttrace::${dependency})
  endforeach()
  target_link_libraries(ttrace_${name} PRIVATE ${ARG_PACKAGES} ttrace_options)
  if(ARG_OPTIMIZATION AND NOT TTRACE_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(ttrace_${name} PRIVATE ${ARG_OPTIMIZATION})
  endif()
endfunction()
