# Everything that is not ours, found once. Names of packages elsewhere: README.md.

find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json 3.9 REQUIRED)
find_package(spdlog REQUIRED)

# CMake's own module: HDF5's config file is not installed by every distribution.
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
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
