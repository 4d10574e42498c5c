# Makes a C++ source of text files, so that the program needs no file beside it:
#
#   ttrace_embed(assets.cpp "report/page/assets.h" ttrace::report "kStyle=page.css" "kScript=one.js,two.js")
#
# Every constant is a std::string_view of its files, one after the other, and <constant>Sha256 their
# checksum in hexadecimal digits. The header declares both. The source is made anew when a file changes.
# This file is also the script that makes it.
function(ttrace_embed output header namespace)
  set(inputs)
  foreach(constant IN LISTS ARGN)
    string(REGEX REPLACE "^[^=]*=" "" files "${constant}")
    string(REPLACE "," ";" files "${files}")
    foreach(file IN LISTS files)
      list(APPEND inputs "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
    endforeach()
  endforeach()
  list(JOIN ARGN "|" constants)
  add_custom_command(
    OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${output}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/${output}" "-DHEADER=${header}"
            "-DNAMESPACE=${namespace}" "-DFOLDER=${CMAKE_CURRENT_SOURCE_DIR}" "-DCONSTANTS=${constants}"
            -P "${PROJECT_SOURCE_DIR}/cmake/TtraceEmbed.cmake"
    DEPENDS ${inputs} "${PROJECT_SOURCE_DIR}/cmake/TtraceEmbed.cmake"
    VERBATIM)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  # In raw strings files stand as they are; the compiler joins neighbours.
  set(delimiter "embedded")
  set(source "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
  string(REPLACE "|" ";" CONSTANTS "${CONSTANTS}")
  foreach(constant IN LISTS CONSTANTS)
    string(REGEX MATCH "^[^=]*" name "${constant}")
    string(REGEX REPLACE "^[^=]*=" "" files "${constant}")
    string(REPLACE "," ";" files "${files}")
    set(all "")
    string(APPEND source "\nconst std::string_view ${name} =")
    foreach(file IN LISTS files)
      file(READ "${FOLDER}/${file}" text)
      string(FIND "${text}" ")${delimiter}\"" found)
      if(NOT found EQUAL -1)
        message(FATAL_ERROR "${FOLDER}/${file}: contains the end of a raw string, )${delimiter}\"")
      endif()
      string(APPEND all "${text}")
      string(APPEND source "\n    R\"${delimiter}(${text})${delimiter}\"")
    endforeach()
    string(SHA256 checksum "${all}")
    string(APPEND source ";\nconst std::string_view ${name}Sha256 = \"${checksum}\";\n")
  endforeach()
  string(APPEND source "\n}  // namespace ${NAMESPACE}\n")
  file(WRITE "${OUTPUT}" "${source}")
endif()
