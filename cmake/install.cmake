# cmake --install: the binary, its data, and the libraries with headers for out-of-tree policies.
include(CMakePackageConfigHelpers)

set(layers graph hwprofiles policies sim plots scenarios)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tidemark)

list(TRANSFORM layers PREPEND tidemark_ OUTPUT_VARIABLE libraries)
install(TARGETS ${libraries} EXPORT tidemark-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tidemark_cli)
  install(TARGETS tidemark_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
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
  install(FILES ${pages}/tidemark.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/tidemark DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/_tidemark DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${pages}/tidemark.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

# The tree is kept under include/tidemark, so `#include "graph/ir/tensor.hpp"` reads as in here.
install(DIRECTORY ${layers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tidemark
        FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tidemark)

set(TIDEMARK_INSTALL_DATA ${CMAKE_INSTALL_DATADIR}/tidemark)
install(DIRECTORY hwprofiles scenarios DESTINATION ${TIDEMARK_INSTALL_DATA}
        FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json" PATTERN "*.onnx" PATTERN "*.sbatch")

install(EXPORT tidemark-targets NAMESPACE tidemark:: DESTINATION ${package_folder})
configure_package_config_file(
  cmake/tidemark-config.cmake.in ${PROJECT_BINARY_DIR}/tidemark-config.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS TIDEMARK_INSTALL_DATA)
# Before 1.0 a minor version may change any header.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/tidemark-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tidemark-config.cmake
              ${PROJECT_BINARY_DIR}/tidemark-config-version.cmake
        DESTINATION ${package_folder})
