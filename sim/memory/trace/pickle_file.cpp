#include "sim/memory/trace/pickle_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>
#include <zlib.h>

#include "graph/core/errors.hpp"

namespace tidemark {

std::string unpacked_file(const std::string& path, const UnpackLimits& limits) {
  std::size_t limit = limits.most;
  const std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) throw UserError({.file = path}, {}, "cannot be read");
  std::error_code unknown;
  const std::uintmax_t packed = std::filesystem::file_size(path, unknown);
  const bool is_packed = gzdirect(file.get()) == 0 && !unknown;
  if (is_packed && packed < limit / limits.for_each_packed) {
    limit = std::min(limit, limits.free + limits.for_each_packed * packed);
  }
  std::string bytes;
  std::array<char, 1U << 16U> piece;
  while (true) {
    const int count = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    int code = Z_OK;
    const char* text = gzerror(file.get(), &code);
    if (count < 0 || (count == 0 && code != Z_OK)) {
      throw UserError({.file = path}, {}, fmt::format("cannot be read: {}", text));
    }
    if (count == 0) return bytes;
    bytes.append(piece.data(), static_cast<std::size_t>(count));
    if (bytes.front() != limits.begins_with) return bytes;
    if (bytes.size() > limit) {
      const std::string hint =
          limit < limits.most
              ? fmt::format(
                    " unpacked, much for the {} that it has; if it is meant, unpack it first",
                    packed)
              : std::string();
      throw UserError({.file = path}, {}, fmt::format("is larger than {} bytes{}", limit, hint));
    }
  }
}

}  // namespace tidemark
