# How every target of the project is compiled.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# For libttrace.so. Without visible symbols, calls between our own functions stay direct.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

add_library(ttrace_options INTERFACE)
# A fused multiply-add rounds once where two operations round twice: without this the sums would
# depend on the machine.
target_compile_options(ttrace_options INTERFACE -ffp-contract=off
                       -Wall -Wextra -Wconversion -Wshadow -Wpedantic)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: "x" + std::string(...) is reported as an overlapping copy.
  target_compile_options(ttrace_options INTERFACE -Wno-restrict)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A class of one source may have members of file-local types. In a batch the source is included, and
  # GCC takes it for a header that other sources include too.
  target_compile_options(ttrace_options INTERFACE -Wno-subobject-linkage)
  if(CMAKE_UNITY_BUILD_BATCH_SIZE EQUAL 0)
    # Garbage collection, which begins at 128 MB, is a tenth of what GCC takes for a whole room. The
    # objects are the same.
    target_compile_options(ttrace_options INTERFACE
                           $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>)
  endif()
endif()
if(TTRACE_WERROR)
  target_compile_options(ttrace_options INTERFACE -Werror)
endif()
if(TTRACE_SANITIZE)
  target_compile_options(ttrace_options INTERFACE -fsanitize=${TTRACE_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ttrace_options INTERFACE -fsanitize=${TTRACE_SANITIZE})
endif()
