# What the core is built on: text, documents, results. All are Debian packages; cmake/install.sh names them.

#
# A portable build is one that leaves this machine (wheels, archives): it takes the libraries' headers alone, so that no
# library of this system is needed where it runs.

add_library(steelyard_libraries INTERFACE)

if(EMSCRIPTEN OR STEELYARD_PORTABLE)
  # The page's compiler must not see the rest of /usr/include, nor may one for older systems, so the header-only libraries
  # get a folder of their own. fmt is header-only here: its compiled half is a host library.
  set(headers ${PROJECT_BINARY_DIR}/libraries)
  file(MAKE_DIRECTORY ${headers})
  foreach(library fmt nlohmann toml++ tl CLI)
    find_path(STEELYARD_HEADERS_OF_${library} ${library} PATHS /usr/include /usr/local/include
              NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
    file(CREATE_LINK ${STEELYARD_HEADERS_OF_${library}}/${library} ${headers}/${library} SYMBOLIC)
  endforeach()
  target_include_directories(steelyard_libraries SYSTEM INTERFACE ${headers})
  target_compile_definitions(steelyard_libraries INTERFACE FMT_HEADER_ONLY)
else()
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(tomlplusplus REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(tl-expected REQUIRED)
  target_link_libraries(steelyard_libraries INTERFACE
    fmt::fmt nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus CLI11::CLI11 tl::expected)
endif()
