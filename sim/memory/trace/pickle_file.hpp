// Reads a whole file into memory, gzip or not.
#pragma once

#include <cstddef>
#include <string>

namespace tidemark {

// Limits on the size of an unpacked file, so that a small file cannot cost much.
struct UnpackLimits {
  // A file that begins otherwise is read no further than its first piece; a byte order mark and
  // blanks may stand before a bracket.
  char begins_with = '\0';
  std::size_t most = 0;
  std::size_t free = 0;             // bytes allowed for any packed file
  std::size_t for_each_packed = 0;  // further bytes for each byte of the packed file
};

// Throws UserError: a folder, unreadable, damaged, larger than the limits.
[[nodiscard]] std::string unpacked_file(const std::string& path, const UnpackLimits& limits);

}  // namespace tidemark
