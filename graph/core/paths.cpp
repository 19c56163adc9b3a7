#include "graph/core/paths.hpp"

#include <algorithm>
#include <cstddef>
#include <system_error>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

bool path_exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) {
    throw UserError({.file = excerpt(path.string())}, {},
                    fmt::format("the working directory that this path starts from cannot be "
                                "found: {}; give a path from the root",
                                error.message()));
  }
  return absolute.lexically_normal();
}

std::filesystem::path identity_of_path(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path identity = std::filesystem::weakly_canonical(path, error);
  return error ? path : identity;
}

std::vector<std::string> names_in_folder(const std::filesystem::path& folder, std::size_t most) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end && names.size() < most; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tidemark
