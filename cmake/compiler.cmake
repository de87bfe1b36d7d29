# The language, the warnings of our own code, and the sanitizers of the whole build.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Two checkouts share what they compiled: ccache hashes paths as seen from here, also those inside unity files, whose
# text is compared once the preprocessor has read it.
find_program(STEELYARD_CCACHE ccache)
if(STEELYARD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=include_file_ctime,include_file_mtime,time_macros ${STEELYARD_CCACHE})
endif()

# Twenty programs hold the core whole; GNU's linker takes as long for them as the compiler for a folder. What leaves this machine is
# linked by it all the same.
find_program(STEELYARD_MOLD mold)
if(STEELYARD_MOLD AND NOT STEELYARD_PORTABLE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()

# Exceptions stay on everywhere: the JSON and TOML readers report faults with them.
if(EMSCRIPTEN)
  # WebAssembly's own: Emscripten's other kind calls every function that may throw through JavaScript.
  add_compile_options(-fwasm-exceptions)
  add_link_options(-fwasm-exceptions)
endif()

add_library(steelyard_warnings INTERFACE)
target_compile_options(steelyard_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
if(STEELYARD_WARNINGS_AS_ERRORS)
  target_compile_options(steelyard_warnings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 warns inside its own std::string operator+ (GCC bug 105651).
  target_compile_options(steelyard_warnings INTERFACE -Wno-restrict)
  if(STEELYARD_SANITIZE)
    # Under the sanitizers it also warns inside its own <regex> (GCC bug 105562).
    target_compile_options(steelyard_warnings INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

if(STEELYARD_SANITIZE)
  add_compile_options(-fsanitize=${STEELYARD_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${STEELYARD_SANITIZE})
endif()

# What leaves this machine: one build of the core serves program, module and library; each holds only what it uses and
# shows only what it means to.
set(steelyard_portable_link "")
if(STEELYARD_PORTABLE)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
  add_compile_options(-ffunction-sections -fdata-sections)
  set(steelyard_portable_link -static-libstdc++ -static-libgcc -Wl,--gc-sections
                              -Wl,--exclude-libs,ALL)
endif()
