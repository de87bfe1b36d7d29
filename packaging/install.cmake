# cmake --install: the program with its manual pages and completions, the library with its headers, and the schemas.
#
#   cmake --install build/package --prefix ~/.local                           everything
#   cmake --install build/package --prefix ~/.local --component program       program, library or development

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The library shows its API alone.
add_library(libsteelyard SHARED $<TARGET_OBJECTS:steelyard_api> $<TARGET_OBJECTS:steelyard_cli>)
set_target_properties(libsteelyard PROPERTIES
  OUTPUT_NAME steelyard EXPORT_NAME steelyard VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE CXX)
target_include_directories(libsteelyard INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(libsteelyard PRIVATE steelyard_core Threads::Threads ZLIB::ZLIB)
target_link_options(libsteelyard PRIVATE ${steelyard_portable_link} -Wl,-z,defs
                    -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map)
steelyard_on_older_systems(libsteelyard)
set_target_properties(libsteelyard PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)

# Manual pages and completions, by the program itself.
set(share ${PROJECT_BINARY_DIR}/share)
add_custom_command(
  OUTPUT ${share}/done
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:steelyard> -DSHARE=${share} -P ${CMAKE_CURRENT_LIST_DIR}/share.cmake
  DEPENDS steelyard ${CMAKE_CURRENT_LIST_DIR}/share.cmake
  COMMENT "Manual pages and completions"
  VERBATIM)
add_custom_target(steelyard_share ALL DEPENDS ${share}/done)

install(TARGETS steelyard RUNTIME COMPONENT program)
install(DIRECTORY ${share}/man ${share}/bash-completion ${share}/zsh ${share}/fish
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/schemas DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/steelyard
        COMPONENT program FILES_MATCHING PATTERN "*.json")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${CMAKE_CURRENT_LIST_DIR}/NOTICE
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/steelyard COMPONENT program)

install(TARGETS libsteelyard EXPORT steelyard
        LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/steelyard DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/steelyard)
install(EXPORT steelyard NAMESPACE steelyard:: FILE steelyard-config.cmake DESTINATION ${package_folder}
        COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/steelyard-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/steelyard-config-version.cmake DESTINATION ${package_folder}
        COMPONENT development)
# Found from where it lies, so that the folder may be moved.
file(RELATIVE_PATH up /root/${CMAKE_INSTALL_LIBDIR}/pkgconfig /root)
configure_file(${CMAKE_CURRENT_LIST_DIR}/steelyard.pc.in ${PROJECT_BINARY_DIR}/steelyard.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/steelyard.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development)

include(${CMAKE_CURRENT_LIST_DIR}/cpack.cmake)
