# Where the program and its libraries are installed: bin/ and lib/ of one folder, as the program looks for
# its modules beside itself and in ../lib. In a wheel (pip install ./lib/torch) these are bin/ and lib/ of
# the environment.
set(TTRACE_INSTALL_BIN bin)
set(TTRACE_INSTALL_LIB lib)
set(TTRACE_INSTALL_INCLUDE include)
set(TTRACE_INSTALL_SHARE share)
set(TTRACE_INSTALL_SBOM share/doc/ttrace)
if(SKBUILD)
  set(TTRACE_INSTALL_BIN "${SKBUILD_SCRIPTS_DIR}")
  set(TTRACE_INSTALL_LIB "${SKBUILD_DATA_DIR}/lib")
  set(TTRACE_INSTALL_INCLUDE "${SKBUILD_DATA_DIR}/include")
  set(TTRACE_INSTALL_SHARE "${SKBUILD_DATA_DIR}/share")
  set(TTRACE_INSTALL_SBOM "${SKBUILD_METADATA_DIR}/sboms")
endif()

# scripts/build_wheel.sh: a folder with the licences of what it links in.
set(TTRACE_LICENCES "" CACHE PATH "Licences of linked libraries, for a wheel")
if(SKBUILD AND TTRACE_LICENCES)
  install(DIRECTORY "${TTRACE_LICENCES}/" DESTINATION "${SKBUILD_METADATA_DIR}/licenses/linked")
endif()
