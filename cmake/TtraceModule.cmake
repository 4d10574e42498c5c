# One library per module. The link list is the module's list of what it may include:
# tests/architecture reads it.
#
#   ttrace_module(layout SOURCES shard.cpp ... [LOOPS sums.cpp ...] DEPENDS base trace [PACKAGES HDF5::HDF5])
#
# LOOPS are sources whose work is loops over elements or cells: see ttrace_hardening.
# OPTIMIZATION -O1 is for rooms whose work is mostly texts and tables: two thirds of what a
# batch takes to compile is -O3, and the loops over elements are elsewhere.
function(ttrace_module name)
  cmake_parse_arguments(ARG "" "OPTIMIZATION" "SOURCES;LOOPS;DEPENDS;PACKAGES" ${ARGN})
  add_library(ttrace_${name} STATIC ${ARG_SOURCES})
  add_library(ttrace::${name} ALIAS ttrace_${name})
  target_include_directories(ttrace_${name} PUBLIC "${PROJECT_SOURCE_DIR}/lib")
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(ttrace_${name} PUBLIC ttrace::${dependency})
  endforeach()
  target_link_libraries(ttrace_${name} PRIVATE ${ARG_PACKAGES} ttrace_options)
  if(ARG_LOOPS)
    add_library(ttrace_${name}_loops OBJECT ${ARG_LOOPS})
    set_target_properties(ttrace_${name}_loops PROPERTIES TTRACE_LOOPS ON)
    target_include_directories(ttrace_${name}_loops PRIVATE "${PROJECT_SOURCE_DIR}/lib")
    target_link_libraries(ttrace_${name}_loops PRIVATE ttrace_options)
    target_sources(ttrace_${name} PRIVATE $<TARGET_OBJECTS:ttrace_${name}_loops>)
  endif()
  if(ARG_OPTIMIZATION AND NOT TTRACE_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(ttrace_${name} PRIVATE ${ARG_OPTIMIZATION})
  endif()
endfunction()
