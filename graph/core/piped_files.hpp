// Pipes that a shell hands over under the name of a file: `tidemark run <(make_scenario)`, or
// /dev/stdin behind a |. A pipe gives its bytes once; readers that look at a file's first bytes, or
// at its size, before they read it need them twice. Each function that opens a file that a user
// names keeps it first.
#pragma once

#include <filesystem>
#include <string>

namespace tidemark {

// Whether a path means /dev/stdin, /dev/fd/N or /proc/self/fd/N: after this process it means
// another file, or none.
[[nodiscard]] bool is_open_file_of_process(const std::filesystem::path& path);

// Whether that file is a pipe that is open to be read, and was not kept yet.
[[nodiscard]] bool is_piped(const std::filesystem::path& path);

// If the path is /dev/stdin, /dev/fd/N or /proc/self/fd/N, and names a pipe that is open to be
// read, reads it to its end into a file in memory, which takes the pipe's place under the same
// path. Threads may call it at once. Throws UserError, each time: more than kMaxFileBytes, or more
// than there is memory for.
void keep_piped(const std::string& path);

// Returns the folder that paths in a file are relative to: the working directory for an
// open file of this process.
[[nodiscard]] std::filesystem::path folder_of_file(const std::string& path);

}  // namespace tidemark
