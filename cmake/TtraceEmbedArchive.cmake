# Makes a C++ source of files of any kind, packed and compressed, so that the program needs no file beside it:
#
#   ttrace_embed_archive(demo.cpp "demo/archive.h" ttrace::app kDemoArchive <folder> ref.h5 run/rank_00000.h5 ...)
#
# The constant is a std::string_view of a gzip file of a tar archive, and the header declares it. The source is made
# anew when a file changes. This file is also the script that makes it.
function(ttrace_embed_archive output header namespace constant folder)
  list(JOIN ARGN "|" files)
  list(TRANSFORM ARGN PREPEND "${folder}/" OUTPUT_VARIABLE inputs)
  add_custom_command(
    OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${output}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/${output}" "-DHEADER=${header}"
            "-DNAMESPACE=${namespace}" "-DCONSTANT=${constant}" "-DFILES=${files}"
            -P "${PROJECT_SOURCE_DIR}/cmake/TtraceEmbedArchive.cmake"
    WORKING_DIRECTORY "${folder}"
    DEPENDS ${inputs} "${PROJECT_SOURCE_DIR}/cmake/TtraceEmbedArchive.cmake"
    VERBATIM)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "|" ";" FILES "${FILES}")
  set(archive "${OUTPUT}.tar.gz")
  file(ARCHIVE_CREATE OUTPUT "${archive}" PATHS ${FILES} FORMAT gnutar COMPRESSION GZip COMPRESSION_LEVEL 9
       MTIME "2026-01-01 00:00:00")
  file(READ "${archive}" bytes HEX)
  file(REMOVE "${archive}")
  # Digits 8 to 15 are the time of packing, which would make every build another program.
  string(SUBSTRING "${bytes}" 0 8 begin)
  string(SUBSTRING "${bytes}" 16 -1 rest)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${begin}00000000${rest}")
  file(WRITE "${OUTPUT}" "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\nnamespace {\n\n"
       "constexpr unsigned char kBytesOf${CONSTANT}[] = {${bytes}};\n\n}  // namespace\n\n"
       "const std::string_view ${CONSTANT}(reinterpret_cast<const char*>(kBytesOf${CONSTANT}),\n"
       "                                   sizeof kBytesOf${CONSTANT});\n\n}  // namespace ${NAMESPACE}\n")
endif()
