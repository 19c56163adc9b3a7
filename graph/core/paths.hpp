// Questions about paths that a user gave, which never throw std::filesystem's own errors: names may
// be too long, links may lead in circles, folders may be closed, and the working directory may have
// been deleted.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

// Files in a chain in which each extends the next: so many, then the chain is an error.
inline constexpr std::size_t kMaxExtends = 32;

// Whether something is there. What cannot be looked up is not there: the reader that opens it
// says why.
[[nodiscard]] bool path_exists(const std::filesystem::path& path);
// Whether the path is that of a regular file, or of a pipe that a shell hands over.
[[nodiscard]] bool is_file(const std::filesystem::path& path);
[[nodiscard]] bool is_folder(const std::filesystem::path& path);

// Whether a text has the ending of a YAML file.
[[nodiscard]] bool is_yaml_name(std::string_view text);

// Returns what is wrong with a file that could not be opened, by errno: "no such file; did you mean
// 'scenario.yaml'?".
[[nodiscard]] std::string why_not_opened(const std::filesystem::path& path);

// Returns a name for what a file holds: the file's without folders and ending; the folder's for
// config.json, as Hugging Face names it; "input" for an open file of this process.
[[nodiscard]] std::string title_of_file(const std::filesystem::path& path);

// Returns the path from the root, without "." and "..". Throws UserError when the working directory
// does not exist any more.
[[nodiscard]] std::filesystem::path absolute_path(const std::filesystem::path& path);

// Returns a path that is equal for two ways to write the path of one file; the path itself where
// that cannot be found out.
[[nodiscard]] std::filesystem::path identity_of_path(const std::filesystem::path& path);

// Returns the names in a folder, sorted; none if it cannot be read. At most `most` are read.
[[nodiscard]] std::vector<std::string> names_in_folder(
    const std::filesystem::path& folder,
    std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace tidemark
