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

option(TTRACE_HARDENING "Compile and link with checks of memory" ON)

# ttrace_hardening(TARGET): what stops a mistake in our code before it is used against its user. Stacks have
# canaries, copies and accesses of the libraries are checked, indirect jumps land where functions begin,
# and what the loader has written is read-only. It takes less than 1 % (scripts/BENCHMARKS.md), because the
# loops over elements (property TTRACE_LOOPS) do not check each access, which would take 3 %. Sanitizers
# check more, and some refuse these. A target that compiles with -O0 has the property TTRACE_UNOPTIMIZED:
# the C library can check copies only in optimised code. nvcc's code has none of it.
function(ttrace_hardening target)
  if(NOT TTRACE_HARDENING OR TTRACE_SANITIZE)
    return()
  endif()
  foreach(flag -fstack-protector-strong -fcf-protection)  # the second one is of x86
    string(MAKE_C_IDENTIFIER "TTRACE_HAS${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      target_compile_options(${target} INTERFACE ${flag})
    endif()
  endforeach()
  # A compiler or a distribution may have defined these otherwise, so they are undefined first.
  set(unoptimized $<BOOL:$<TARGET_PROPERTY:TTRACE_UNOPTIMIZED>>)
  set(copies $<AND:$<CONFIG:Release,RelWithDebInfo,MinSizeRel>,$<NOT:${unoptimized}>>)
  set(accesses $<NOT:$<BOOL:$<TARGET_PROPERTY:TTRACE_LOOPS>>>)
  set(clang_library _LIBCPP_HARDENING_MODE)
  target_compile_options(${target} INTERFACE
    "$<${copies}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>"
    "$<${accesses}:-D_GLIBCXX_ASSERTIONS;-U${clang_library};-D${clang_library}=${clang_library}_FAST>")
  check_linker_flag(CXX -Wl,-z,relro,-z,now TTRACE_HAS_RELRO)
  if(TTRACE_HAS_RELRO)
    target_link_options(${target} INTERFACE -Wl,-z,relro,-z,now)
  endif()
endfunction()
include(CheckCXXCompilerFlag)
include(CheckLinkerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)  # CMAKE_POSITION_INDEPENDENT_CODE compiles for it, this links so
ttrace_hardening(ttrace_options)
