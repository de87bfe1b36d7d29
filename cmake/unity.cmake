# Sources of one folder compiled as one: headers of JSON and of the test framework are then read once a folder, not once a
# file. For builds from nothing; the daily loop compiles file by file, so that a change costs one file.
#
# Names in anonymous namespaces must then be unique within a folder. Where they are not, the folder stands in
# STEELYARD_APART and is compiled file by file in any case.

option(STEELYARD_UNITY "Compile the sources of a folder as one" OFF)

# engine, operators: each file of these states its own parts under the same names.
set(STEELYARD_APART "src/(engine|operators|recipe|quantity|document|formats|formats/launch)$"
                    "src/(engine|document|job|formats/launch)/tests$")

function(steelyard_unity target)
  if(NOT STEELYARD_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(NOT source MATCHES "^${PROJECT_SOURCE_DIR}/src/.*\\.cc$")
      continue()
    endif()
    cmake_path(GET source PARENT_PATH folder)
    if(source MATCHES "_test\\.cc$")
      string(APPEND folder /tests)
    endif()
    set(apart FALSE)
    foreach(pattern ${STEELYARD_APART})
      if(folder MATCHES "${pattern}")
        set(apart TRUE)
      endif()
    endforeach()
    if(NOT apart)
      string(REPLACE "${PROJECT_SOURCE_DIR}/" "" group ${folder})
      string(REPLACE "/" "_" group ${group})
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()
