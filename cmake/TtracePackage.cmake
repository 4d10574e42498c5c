# cpack -G DEB and cpack -G TGZ, in the build folder: a package of Debian, and a tarball that runs from
# wherever it is unpacked. Both use the libraries that the program was linked to, of this machine's
# distribution; the Debian package names them. Neither has the MPI module, which is of one MPI.
if(SKBUILD)
  return()
endif()
set(CPACK_PACKAGE_NAME ttrace)
set(CPACK_PACKAGE_VENDOR "ttrace")
set(CPACK_PACKAGE_CONTACT "the developers of ttrace <ttrace@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
# One package of what has no component of its own.
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/TtraceTarball.cmake")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/ttrace RENAME copyright)
include(CPack)
