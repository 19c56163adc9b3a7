# Generates the headers that only CMake can write: the version and the folders of the data.

function(tidemark_generate_headers folder)
  # Appended at run time to the folder of the executable, so that an installation can be moved.
  file(RELATIVE_PATH beside ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/tidemark)
  set(TIDEMARK_DATA_BESIDE_EXECUTABLE ${beside})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/version.hpp.in ${folder}/tidemark/version.hpp @ONLY)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/paths.hpp.in ${folder}/tidemark/paths.hpp @ONLY)
endfunction()
