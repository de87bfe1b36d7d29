# steelyard --version of a build that leaves this machine: its commit, and the day of the newest of its data.
# Such a program is one file that needs nothing: linked to nothing at run time, where the C library allows it.

find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} log -1 --format=%h --abbrev=10
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} log -1 --format=%cs -- data
                  OUTPUT_VARIABLE day OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(commit AND day)
  target_compile_definitions(steelyard PRIVATE "STEELYARD_BUILT_FROM=\" (commit ${commit}, data of ${day})\"")
endif()
option(STEELYARD_STATIC_PROGRAM "Link the program to no shared library at all" ON)
if(STEELYARD_STATIC_PROGRAM)
  target_link_options(steelyard PRIVATE -static)
endif()
