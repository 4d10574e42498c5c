# What lib/measure/cpu and lib/measure/cuda need of other rooms: all that is built beside them on a
# machine with a GPU. The tests link both with it alone, since few have such a machine.
file(GLOB needed_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/lib/tensor/*.cpp" "${PROJECT_SOURCE_DIR}/lib/base/functions/*.cpp")
foreach(source bytes error text)
  list(APPEND needed_sources "${PROJECT_SOURCE_DIR}/lib/base/${source}.cpp")
endforeach()
