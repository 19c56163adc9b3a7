// A whole file in memory, gzip or not.
#pragma once

#include <cstddef>
#include <string>

namespace tidemark {

// Bytes that a file may come to, so that a small one cannot cost much.
struct UnpackLimits {
  std::size_t most = 0;
  std::size_t free = 0;             // allowed for whatever the packed file has
  std::size_t for_each_packed = 0;  // beyond these, for each byte of the packed file
};

// Throws UserError: unreadable, damaged, larger than the limits.
[[nodiscard]] std::string unpacked_file(const std::string& path, const UnpackLimits& limits);

}  // namespace tidemark
