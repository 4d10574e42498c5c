# Everything that is not ours, found once. Names of packages elsewhere: README.md.

find_package(Threads REQUIRED)
find_package(CLI11 QUIET)
find_package(nlohmann_json 3.9 QUIET)
find_package(spdlog QUIET)
# CMake's own module: HDF5's config file is not installed by every distribution.
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 1.10 QUIET COMPONENTS C)

# All at once, with the line that installs them: pip shows this to people who never saw CMake.
set(missing)
set(missing_in_debian)
foreach(package "CLI11 libcli11-dev" "nlohmann_json nlohmann-json3-dev" "spdlog libspdlog-dev" "HDF5 libhdf5-dev")
  separate_arguments(package)
  list(GET package 0 name)
  if(NOT ${name}_FOUND)
    list(APPEND missing ${name})
    list(GET package 1 debian)
    list(APPEND missing_in_debian ${debian})
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  list(JOIN missing_in_debian " " missing_in_debian)
  message(FATAL_ERROR "These packages are not installed, or too old: ${missing}. Debian and Ubuntu: "
    "apt-get install ${missing_in_debian}. Elsewhere: the table in .github/CONTRIBUTING.md. To install "
    "only the collector for PyTorch, without the program: TTRACE_WITHOUT_CLI=1 pip install ./lib/torch")
endif()

include(TtraceStaticHdf5)
if(NOT TARGET ttrace_hdf5_library)
  add_library(ttrace_hdf5_library INTERFACE)
  target_include_directories(ttrace_hdf5_library SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(ttrace_hdf5_library INTERFACE ${ttrace_hdf5_libraries})
  target_compile_definitions(ttrace_hdf5_library INTERFACE ${HDF5_C_DEFINITIONS})
endif()

# Inflates chunks outside HDF5's lock: libdeflate, or zlib, which HDF5 itself needs.
add_library(ttrace_inflate_library INTERFACE)
find_path(TTRACE_LIBDEFLATE_INCLUDE libdeflate.h)
find_library(TTRACE_LIBDEFLATE_LIBRARY deflate)
mark_as_advanced(TTRACE_LIBDEFLATE_INCLUDE TTRACE_LIBDEFLATE_LIBRARY)
if(TTRACE_LIBDEFLATE_INCLUDE AND TTRACE_LIBDEFLATE_LIBRARY)
  target_include_directories(ttrace_inflate_library SYSTEM INTERFACE ${TTRACE_LIBDEFLATE_INCLUDE})
  target_link_libraries(ttrace_inflate_library INTERFACE ${TTRACE_LIBDEFLATE_LIBRARY})
  target_compile_definitions(ttrace_inflate_library INTERFACE TTRACE_HAS_LIBDEFLATE)
  message(STATUS "Inflate: libdeflate")
else()
  find_package(ZLIB REQUIRED)
  target_link_libraries(ttrace_inflate_library INTERFACE ZLIB::ZLIB)
  message(STATUS "Inflate: zlib (libdeflate is about twice as fast: libdeflate-dev)")
endif()
