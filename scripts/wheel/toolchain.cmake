# Compiles with zig's clang and libc++ for the oldest glibc that a wheel runs on. The programs run on this
# machine too, so this is no cross-compilation: HDF5 tries what the machine does while it is configured.
get_filename_component(folder "${TTRACE_ZIG_WRAPPERS}" ABSOLUTE)
set(CMAKE_C_COMPILER "${folder}/cc")
set(CMAKE_CXX_COMPILER "${folder}/c++")
set(CMAKE_AR "${folder}/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "${folder}/ranlib" CACHE FILEPATH "")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TTRACE_ZIG_WRAPPERS)
# Nothing of this machine's packages.
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
