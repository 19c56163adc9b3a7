#include "tests/support/paths.hpp"

namespace tidemark::test {

namespace {

std::string join(std::string folder, std::string_view below) {
  return below.empty() ? folder : folder.append("/").append(below);
}

}  // namespace

std::string source_path(std::string_view below) {
  return join(TIDEMARK_SOURCE_DIR, below);
}

std::string data_path(std::string_view below) {
  return join(source_path("tests/data"), below);
}

std::string build_path() {
  return TIDEMARK_BUILD_DIR;
}

std::string program_path() {
  return TIDEMARK_BINARY;
}

std::string example_plugin_path() {
  return TIDEMARK_EXAMPLE_PLUGIN;
}

std::string example_rewrite_path() {
  return TIDEMARK_EXAMPLE_REWRITE;
}

std::string npm_packages_path() {
  return TIDEMARK_NPM_PACKAGES;
}

}  // namespace tidemark::test
