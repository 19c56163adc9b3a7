# The page of the HTML report: uPlot comes from npm, locked by web/package-lock.json, and is inlined
# together with our own script. Without npm the report is left out and asking for one is an error.
set(page_folder ${CMAKE_CURRENT_SOURCE_DIR}/report/web)
set(page_packages ${PROJECT_BINARY_DIR}/npm)
set(page_source ${CMAKE_CURRENT_BINARY_DIR}/report/page.cpp)

find_program(TIDEMARK_NODE NAMES node nodejs)
find_program(TIDEMARK_NPM npm)
mark_as_advanced(TIDEMARK_NODE TIDEMARK_NPM)

# Installed once, and again when the locked versions change. Tests also need playwright-core to
# drive a browser; without it they are skipped.
set(TIDEMARK_HTML OFF)
if(TIDEMARK_NODE AND TIDEMARK_NPM)
  file(SHA256 ${page_folder}/package-lock.json pinned)
  set(stamp ${page_packages}/installed)
  if(EXISTS ${stamp})
    file(READ ${stamp} installed)
  endif()
  if(NOT "${installed}" STREQUAL "${pinned}")
    file(COPY ${page_folder}/package.json ${page_folder}/package-lock.json
         DESTINATION ${page_packages})
    set(omitted --omit=dev)
    if(TIDEMARK_TESTS)
      set(omitted)
    endif()
    execute_process(
      COMMAND ${TIDEMARK_NPM} ci --ignore-scripts --no-audit --no-fund ${omitted}
      WORKING_DIRECTORY ${page_packages}
      TIMEOUT 120
      RESULT_VARIABLE status
      OUTPUT_VARIABLE output
      ERROR_VARIABLE output)
    if(status EQUAL 0)
      file(WRITE ${stamp} "${pinned}")
    else()
      message(STATUS "npm ci: ${output}")
    endif()
  endif()
  if(EXISTS ${page_packages}/node_modules/uplot/dist/uPlot.iife.min.js)
    set(TIDEMARK_HTML ON)
  else()
    message(WARNING "npm could not fetch uPlot: the HTML report is left out")
  endif()
else()
  message(WARNING "node or npm is missing: the HTML report is left out")
endif()

if(TIDEMARK_HTML)
  file(GLOB page_sources CONFIGURE_DEPENDS ${page_folder}/src/*.js)
  add_custom_command(
    OUTPUT ${page_source}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/report
    COMMAND ${TIDEMARK_NODE} ${page_folder}/build_page.mjs ${page_packages}/node_modules
            ${page_source}
    DEPENDS ${page_sources} ${page_folder}/build_page.mjs ${page_folder}/page.html
            ${page_folder}/style.css ${page_packages}/installed
    VERBATIM)
else()
  set(page_source ${CMAKE_CURRENT_BINARY_DIR}/report/page_left_out.cpp)
  file(CONFIGURE OUTPUT ${page_source} CONTENT [[
#include "plots/report/page.hpp"

namespace tidemark {
std::span<const std::string_view> page_parts() {
  return {};
}
}  // namespace tidemark
]])
endif()
target_sources(tidemark_plots PRIVATE ${page_source})
set_source_files_properties(${page_source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
