#include "sim/memory/trace/pickle_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <zlib.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "sim/memory/trace/text_file.hpp"

namespace tidemark {
namespace pickle_file_detail {
namespace {

// Whether a file begins so. Before the bracket of a text may be a byte order mark and blanks.
bool begins_with(std::string_view bytes, char first) {
  if (first == '{') {
    bytes = without_byte_order_mark(bytes);
    bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
    if (bytes.empty()) return true;
  }
  return bytes.front() == first;
}

}  // namespace
}  // namespace pickle_file_detail

std::string unpacked_file(const std::string& path, const UnpackLimits& limits) {
  std::size_t limit = limits.most;
  const CompressedFile file = open_compressed(path);
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
    static_cast<void>(gzerror(file.get(), &code));
    if (count < 0 || (count == 0 && code != Z_OK)) {
      throw UserError({.file = path}, {},
                      fmt::format("cannot be read: {}", gzip_problem(file.get())));
    }
    if (count == 0) return bytes;
    bytes.append(piece.data(), static_cast<std::size_t>(count));
    if (!pickle_file_detail::begins_with(bytes, limits.begins_with)) return bytes;
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
