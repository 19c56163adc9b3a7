# cmake --install: the program with its data and pages (component runtime), and headers and libraries
# for programs and plug-ins of others (component development). cpack -G DEB makes a package of each.
include(CMakePackageConfigHelpers)

set(layers graph hwprofiles policies sim plots scenarios)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tidemark)

list(TRANSFORM layers PREPEND tidemark_ OUTPUT_VARIABLE libraries)
install(TARGETS ${libraries} EXPORT tidemark-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(TARGET tidemark_cli)
  install(TARGETS tidemark_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  # The program writes its manual page and its completions itself, from its commands.
  set(pages ${PROJECT_BINARY_DIR}/pages)
  add_custom_command(
    OUTPUT ${pages}/tidemark.1 ${pages}/tidemark ${pages}/_tidemark ${pages}/tidemark.fish
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
    COMMAND tidemark_cli manual > ${pages}/tidemark.1
    COMMAND tidemark_cli completion bash > ${pages}/tidemark
    COMMAND tidemark_cli completion zsh > ${pages}/_tidemark
    COMMAND tidemark_cli completion fish > ${pages}/tidemark.fish
    DEPENDS tidemark_cli
    VERBATIM)
  add_custom_target(tidemark_pages ALL DEPENDS ${pages}/tidemark.1)
  install(FILES ${pages}/tidemark.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
  install(FILES ${pages}/tidemark DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          COMPONENT runtime)
  install(FILES ${pages}/_tidemark DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
          COMPONENT runtime)
  install(FILES ${pages}/tidemark.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT runtime)
endif()
install(FILES README.md CHANGELOG.md SECURITY.md NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT runtime)

# The tree is kept under include/tidemark, so `#include "graph/ir/tensor.hpp"` reads as in here.
install(DIRECTORY ${layers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tidemark COMPONENT development
        FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tidemark COMPONENT development)

set(TIDEMARK_INSTALL_DATA ${CMAKE_INSTALL_DATADIR}/tidemark)
install(DIRECTORY hwprofiles scenarios DESTINATION ${TIDEMARK_INSTALL_DATA} COMPONENT runtime
        FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json" PATTERN "*.onnx" PATTERN "*.sbatch")

# A plug-in takes headers only: it resolves everything else in the program that loads it.
add_library(tidemark_plugin INTERFACE)
set_target_properties(tidemark_plugin PROPERTIES EXPORT_NAME plugin)
target_compile_features(tidemark_plugin INTERFACE cxx_std_20)
target_include_directories(tidemark_plugin
                           INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tidemark>)
install(TARGETS tidemark_plugin EXPORT tidemark-plugin)

install(EXPORT tidemark-targets NAMESPACE tidemark:: DESTINATION ${package_folder}
        COMPONENT development)
install(EXPORT tidemark-plugin NAMESPACE tidemark:: DESTINATION ${package_folder}
        COMPONENT development)
configure_package_config_file(
  cmake/tidemark-config.cmake.in ${PROJECT_BINARY_DIR}/tidemark-config.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS TIDEMARK_INSTALL_DATA)
# Before 1.0 a minor version may change any header.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/tidemark-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tidemark-config.cmake
              ${PROJECT_BINARY_DIR}/tidemark-config-version.cmake
        DESTINATION ${package_folder} COMPONENT development)

# Debian packages: tidemark and libtidemark-dev. Their version is that of project().
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tidemark)
set(CPACK_PACKAGE_VENDOR "Tidemark")
set(CPACK_PACKAGE_CONTACT "The Tidemark developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
    "Simulator of GPU memory over a deep-learning training step")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME tidemark)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtidemark-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libboost-dev, libeigen3-dev, libfmt-dev, libyaml-cpp-dev, nlohmann-json3-dev, zlib1g-dev")
if(TIDEMARK_ONNX)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libprotobuf-dev")
endif()
include(CPack)
