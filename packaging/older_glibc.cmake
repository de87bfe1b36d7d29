# Shared objects that run with an older C library than this system's: STEELYARD_GLIBC=2.28, as the preset `package` says.
# Linked against stand-ins for that version (older_glibc.py), and with what it lacked (older_glibc.cc).

set(STEELYARD_GLIBC "" CACHE STRING "The oldest glibc that the module and the library must run with (empty: this system's)")
if(STEELYARD_GLIBC)
  set(steelyard_stand_ins ${PROJECT_BINARY_DIR}/glibc-${STEELYARD_GLIBC})
  if(NOT EXISTS ${steelyard_stand_ins}/libc.so)
    execute_process(COMMAND ${STEELYARD_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/older_glibc.py --glibc ${STEELYARD_GLIBC}
                            --out ${steelyard_stand_ins} --compiler ${CMAKE_CXX_COMPILER}
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
  add_library(steelyard_older_glibc OBJECT ${CMAKE_CURRENT_LIST_DIR}/older_glibc.cc)
endif()

function(steelyard_on_older_systems target)
  if(NOT STEELYARD_GLIBC)
    return()
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:steelyard_older_glibc>)
  # Threads were a library of their own until glibc 2.34, and newer systems still have an empty one of its name. What the
  # stand-ins lack must fail here: a module's own Python is all that may be missing (-z defs is for the library alone).
  target_link_options(${target} PRIVATE -L${steelyard_stand_ins} -Wl,--push-state,--no-as-needed -lpthread -Wl,--pop-state)
endfunction()
