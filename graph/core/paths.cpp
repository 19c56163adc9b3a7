#include "graph/core/paths.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/core/words.hpp"

namespace tidemark {
namespace paths_detail {
namespace {

// "; did you mean 'scenario.yaml'?" if the folder has a file of nearly this name. A link that leads
// nowhere is not suggested in its own place.
std::string similar_file(const std::filesystem::path& path) {
  constexpr std::size_t kMaxListed = 1000;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string name = path.filename().string();
  std::vector<std::string> names = names_in_folder(folder, kMaxListed);
  std::error_code error;
  if (std::erase(names, name) > 0 && std::filesystem::is_symlink(path, error))
    return ": it is a link to a file that does not exist";
  return did_you_mean(name, names);
}

}  // namespace
}  // namespace paths_detail

std::string why_not_opened(const std::filesystem::path& path) {
  const int reason = errno;
  if (reason == ENOENT) return "no such file" + paths_detail::similar_file(path);
  return "cannot be opened: " + std::generic_category().message(reason);
}

bool is_yaml_name(std::string_view text) {
  return text.ends_with(".yaml") || text.ends_with(".yml");
}

std::string title_of_file(const std::filesystem::path& path) {
  if (is_open_file_of_process(path)) return "input";
  const std::string stem = path.stem().string();
  const std::string folder = path.parent_path().filename().string();
  return stem == "config" && !folder.empty() ? folder : stem;
}

bool path_exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) || is_piped(path);
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
  // Links to files in memory lead to no path, and all to the same one.
  return error || (path_exists(path) && !path_exists(identity)) ? path : identity;
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
