# Sets ttrace_hdf5_libraries: HDF5 as an archive where its distribution has one beside the shared
# library. A shared HDF5 that can read from the cloud brings libcurl with TLS, Kerberos and LDAP,
# some 30 libraries: most of the start-up of every run. Of the archive only what is used is linked.
option(TTRACE_STATIC_HDF5 "Link HDF5 as an archive if there is one" ON)

include(CheckCSourceCompiles)
include(CMakePushCheckState)

set(ttrace_hdf5_libraries ${HDF5_C_LIBRARIES})
set(ttrace_hdf5_archived ${HDF5_C_LIBRARIES})
# Of what else it was built with, only what is used must be there at run time.
list(FILTER ttrace_hdf5_archived EXCLUDE REGEX "lib(curl|crypto|ssl)\\.")
list(TRANSFORM ttrace_hdf5_archived REPLACE "(/libhdf5[^/]*)\\.so$" "\\1.a")
list(GET ttrace_hdf5_archived 0 ttrace_hdf5_archive)
list(LENGTH ttrace_hdf5_archived count)
if(count EQUAL 1)
  # Found by itself, an archive does not say what it was built with.
  foreach(name sz aec z)
    find_library(TTRACE_HDF5_NEEDS_${name} ${name})
    mark_as_advanced(TTRACE_HDF5_NEEDS_${name})
    if(TTRACE_HDF5_NEEDS_${name})
      list(APPEND ttrace_hdf5_archived "${TTRACE_HDF5_NEEDS_${name}}")
    endif()
  endforeach()
  list(APPEND ttrace_hdf5_archived ${CMAKE_DL_LIBS} m)
endif()

if(TTRACE_STATIC_HDF5 AND ttrace_hdf5_archive MATCHES "\\.a$" AND EXISTS "${ttrace_hdf5_archive}")
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_INCLUDES ${HDF5_C_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_DEFINITIONS ${HDF5_C_DEFINITIONS})
  set(CMAKE_REQUIRED_LIBRARIES ${ttrace_hdf5_archived})
  set(CMAKE_REQUIRED_QUIET ON)
  check_c_source_compiles("
    #include <hdf5.h>
    int main(void) {
      hid_t file = H5Fcreate(\"x\", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
      hid_t set = H5Dopen2(file, \"x\", H5P_DEFAULT);
      return H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, 0) < 0;
    }" TTRACE_HDF5_ARCHIVE_LINKS)
  cmake_pop_check_state()
  if(TTRACE_HDF5_ARCHIVE_LINKS)
    set(ttrace_hdf5_libraries ${ttrace_hdf5_archived})
  endif()
endif()
list(GET ttrace_hdf5_libraries 0 ttrace_hdf5_archive)
message(STATUS "HDF5: ${HDF5_VERSION}, ${ttrace_hdf5_archive}")
