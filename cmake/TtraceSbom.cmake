# The bill of materials, in CycloneDX 1.5: what is linked into the program, in the versions that this
# build found. It is installed beside the licence, and in a wheel under sboms/.
set(TTRACE_LIBAEC_VERSION "" CACHE STRING "Version of libaec, whose headers do not say it")

# ttrace_version_in(OUT FOLDER HEADER REGEX): the first group of the expression in the header.
function(ttrace_version_in out folder header regex)
  set(${out} "" PARENT_SCOPE)
  if(EXISTS "${folder}/${header}")
    file(READ "${folder}/${header}" text)
    if(text MATCHES "${regex}")
      set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# ttrace_add_component(NAME VERSION LICENCE PACKAGE): to the list in ttrace_sbom; PACKAGE is type and name
# of a package URL, LICENCE an identifier of SPDX or words. An unknown version is left out, not guessed.
function(ttrace_add_component name version licence package)
  set(part "{\"type\": \"library\", \"bom-ref\": \"${name}\", \"name\": \"${name}\"}")
  set(at "")
  if(NOT version STREQUAL "")
    string(JSON part SET "${part}" version "\"${version}\"")
    set(at "@${version}")
  endif()
  set(how id)
  if(licence MATCHES " ")
    set(how name)
  endif()
  string(JSON part SET "${part}" licenses "[{\"license\": {\"${how}\": \"${licence}\"}}]")
  string(JSON part SET "${part}" purl "\"pkg:${package}${at}\"")
  string(JSON count LENGTH "${ttrace_sbom}" components)
  string(JSON changed SET "${ttrace_sbom}" components ${count} "${part}")
  string(JSON changed SET "${changed}" dependencies 0 dependsOn ${count} "\"${name}\"")
  set(ttrace_sbom "${changed}" PARENT_SCOPE)
endfunction()

set(ttrace_sbom "{
  \"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.5\", \"version\": 1,
  \"metadata\": {\"component\": {
    \"type\": \"application\", \"bom-ref\": \"ttrace\", \"name\": \"ttrace\",
    \"version\": \"${PROJECT_VERSION}\", \"licenses\": [{\"license\": {\"id\": \"Apache-2.0\"}}]}},
  \"components\": [], \"dependencies\": [{\"ref\": \"ttrace\", \"dependsOn\": []}]}")
ttrace_add_component(hdf5 "${HDF5_VERSION}" BSD-3-Clause github/HDFGroup/hdf5)
ttrace_add_component(cli11 "${CLI11_VERSION}" BSD-3-Clause github/CLIUtils/CLI11)
ttrace_add_component(nlohmann-json "${nlohmann_json_VERSION}" MIT github/nlohmann/json)
ttrace_add_component(spdlog "${spdlog_VERSION}" MIT github/gabime/spdlog)
if(fmt_FOUND)  # else spdlog's own copy
  ttrace_add_component(fmt "${fmt_VERSION}" MIT github/fmtlib/fmt)
endif()
if(TTRACE_LIBDEFLATE_INCLUDE AND TTRACE_LIBDEFLATE_LIBRARY)
  ttrace_version_in(found "${TTRACE_LIBDEFLATE_INCLUDE}" libdeflate.h "VERSION_STRING[ \t]+\"([0-9.]+)\"")
  ttrace_add_component(libdeflate "${found}" MIT github/ebiggers/libdeflate)
endif()
find_path(TTRACE_ZLIB_INCLUDE zlib.h)
mark_as_advanced(TTRACE_ZLIB_INCLUDE)
if(TARGET ZLIB::ZLIB OR "${ttrace_hdf5_libraries}" MATCHES "libz\\.")
  ttrace_version_in(found "${TTRACE_ZLIB_INCLUDE}" zlib.h "ZLIB_VERSION \"([0-9.]+)\"")
  ttrace_add_component(zlib "${found}" Zlib github/madler/zlib)
endif()
if("${ttrace_hdf5_libraries}" MATCHES "lib(sz|aec)\\.")
  ttrace_add_component(libaec "${TTRACE_LIBAEC_VERSION}" BSD-2-Clause github/MathisRosenhauer/libaec)
endif()
if(TARGET ttrace_cuda)
  ttrace_add_component(cudart "${CUDAToolkit_VERSION}" "NVIDIA CUDA Toolkit EULA" generic/cuda-cudart)
endif()

set(ttrace_sbom_file "${PROJECT_BINARY_DIR}/ttrace.cdx.json")
file(CONFIGURE OUTPUT "${ttrace_sbom_file}" CONTENT "${ttrace_sbom}\n" @ONLY)
install(FILES "${ttrace_sbom_file}" DESTINATION "${TTRACE_INSTALL_SBOM}")
