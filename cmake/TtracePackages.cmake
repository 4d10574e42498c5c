# Everything that is not ours, found once. Names of packages elsewhere: README.md.

find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json 3.9 REQUIRED)
find_package(spdlog REQUIRED)

# CMake's own module: HDF5's config file is not installed by every distribution.
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
if(NOT TARGET ttrace_hdf5_library)
  add_library(ttrace_hdf5_library INTERFACE)
  target_include_directories(ttrace_hdf5_library SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(ttrace_hdf5_library INTERFACE ${HDF5_C_LIBRARIES})
  target_compile_definitions(ttrace_hdf5_library INTERFACE ${HDF5_C_DEFINITIONS})
endif()

# Looked for, never required: the CUDA backend is a module of its own that later joins the build.
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  set(TTRACE_CUDA_TOOLKIT "toolkit ${CUDAToolkit_VERSION} found, no CUDA backend in this version")
else()
  set(TTRACE_CUDA_TOOLKIT "no toolkit found")
endif()
message(STATUS "CUDA: ${TTRACE_CUDA_TOOLKIT}")
