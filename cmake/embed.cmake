# data/**/*.json becomes one generated source of the core. A file that changes, appears or goes is seen
# by the next build.

find_program(STEELYARD_PYTHON python3 HINTS /usr/bin REQUIRED NO_CMAKE_FIND_ROOT_PATH)

# steelyard_embed_data(TARGET [FOLDER ...]): all of it, or without some folders.
function(steelyard_embed_data target)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/data/*.json)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated/embedded_files.cc)
  # The list itself is an input: removing a file must rewrite the table too.
  set(list ${CMAKE_CURRENT_BINARY_DIR}/generated/embedded_files.txt)
  file(CONFIGURE OUTPUT ${list} CONTENT "${files}" @ONLY)
  set(without ${ARGN})
  list(TRANSFORM without PREPEND "--without=")
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${STEELYARD_PYTHON} ${PROJECT_SOURCE_DIR}/cmake/embed_data.py
            --version ${PROJECT_VERSION} --out ${generated} ${without} ${PROJECT_SOURCE_DIR}/data
    DEPENDS ${files} ${list} ${PROJECT_SOURCE_DIR}/cmake/embed_data.py
    COMMENT "Embedding data/"
    VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
