# TTRACE_CUDA: whether to build ttrace_cuda.so, the module of `--device cuda` (lib/measure/cuda). The
# program is the same with and without it. Sets TTRACE_CUDA_MODULE.
set(TTRACE_CUDA AUTO CACHE STRING "Build the CUDA module: AUTO (if nvcc is found), ON or OFF")
set_property(CACHE TTRACE_CUDA PROPERTY STRINGS AUTO ON OFF)
# Newer devices translate the PTX of the last one when the module is first used.
set(TTRACE_CUDA_ARCHITECTURES 80 90 100 120 CACHE STRING "Compute capabilities to compile for")

# nvcc knows few compilers, and zig's is none of them; the C++ runtime is what the module is linked with.
set(TTRACE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}" CACHE FILEPATH "What nvcc compiles host code with")

set(TTRACE_CUDA_MODULE FALSE)
if(TTRACE_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off")
else()
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cudart_static)
    set(TTRACE_CUDA_MODULE TRUE)
    message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}, ${CUDAToolkit_NVCC_EXECUTABLE}")
  elseif(TTRACE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TTRACE_CUDA is ON, but there is no nvcc with cudart_static; set "
                        "CUDAToolkit_ROOT, or build without the module: -DTTRACE_CUDA=OFF")
  else()
    message(STATUS "CUDA: no toolkit with nvcc found, so no ttrace_cuda.so")
  endif()
endif()

# Options that decide the bits of results: no fused multiply-add that the source does not ask for.
set(TTRACE_NVCC_OPTIONS -std=c++20 -O3 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true)
# CMake 3.25 silently drops the language standard with nvcc 13, so nvcc is called directly.
function(ttrace_nvcc_object source object)
  set(targets)
  foreach(architecture IN LISTS TTRACE_CUDA_ARCHITECTURES)
    list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET TTRACE_CUDA_ARCHITECTURES -1 newest)
  list(APPEND targets -gencode arch=compute_${newest},code=compute_${newest})
  add_custom_command(
    OUTPUT "${object}"
    COMMAND "${CUDAToolkit_NVCC_EXECUTABLE}" ${TTRACE_NVCC_OPTIONS} ${targets} --threads 2
            -ccbin "${TTRACE_CUDA_HOST_COMPILER}" -Xcompiler -fPIC,-fvisibility=hidden
            -I "${PROJECT_SOURCE_DIR}/lib" -MD -MT "${object}" -MF "${object}.d"
            -c "${source}" -o "${object}"
    MAIN_DEPENDENCY "${source}"
    DEPFILE "${object}.d"
    COMMENT "Compiling CUDA kernels for ${TTRACE_CUDA_ARCHITECTURES}"
    VERBATIM)
endfunction()
