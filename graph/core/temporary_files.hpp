// Files that are written under a hidden name beside the one that they become, so that a reader
// never finds half of one.
//
//   out/.tidemark-HOST-PID-results.json  ->  out/results.json
#pragma once

#include <filesystem>
#include <string>

namespace tidemark {

// The words for a file whose bytes could not be written.
inline constexpr const char* kNotWritten =
    "cannot be written (is the disk full? is a file's size limited, ulimit -f?)";

// Creates the hidden file for `file` anew and returns its path; empty where that fails. What lies
// there already is removed: no link that somebody has placed there is followed.
[[nodiscard]] std::filesystem::path new_temporary(const std::filesystem::path& file);

// Removes from a folder the hidden files of processes of this machine that do not run any more.
void remove_abandoned(const std::filesystem::path& folder);

// Returns "host, process 12", for messages about files that a process holds.
[[nodiscard]] std::string this_process();

}  // namespace tidemark
