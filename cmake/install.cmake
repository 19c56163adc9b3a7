# cmake --install: the binary, its data, and the libraries with headers for out-of-tree policies.
include(CMakePackageConfigHelpers)

set(layers graph hwprofiles policies sim plots scenarios)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tidemark)

list(TRANSFORM layers PREPEND tidemark_ OUTPUT_VARIABLE libraries)
install(TARGETS ${libraries} EXPORT tidemark-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tidemark_cli)
  install(TARGETS tidemark_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The tree is kept under include/tidemark, so `#include "graph/ir/tensor.hpp"` reads as in here.
install(DIRECTORY ${layers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tidemark
        FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tidemark)

set(TIDEMARK_INSTALL_DATA ${CMAKE_INSTALL_DATADIR}/tidemark)
install(DIRECTORY hwprofiles scenarios DESTINATION ${TIDEMARK_INSTALL_DATA}
        FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json" PATTERN "*.onnx")

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
