#include "graph/core/errors.hpp"

#include <cstddef>

#include <fmt/format.h>

namespace tidemark {
namespace errors_detail {
namespace {

constexpr std::size_t kExcerptBytes = 60;

std::string compose(const Location& location, const std::string& path, const std::string& problem) {
  std::string text = location.file;
  if (location.line > 0) {
    if (!text.empty()) text += ':';
    text += std::to_string(location.line);
    if (location.column > 0) text += ':' + std::to_string(location.column);
  }
  if (!text.empty()) text += ": ";
  if (!path.empty()) text += path + ": ";
  return text + problem;
}

}  // namespace
}  // namespace errors_detail

UserError::UserError(Location location, std::string path, std::string problem)
    : std::runtime_error(errors_detail::compose(location, path, problem)),
      location_(std::move(location)),
      path_(std::move(path)),
      problem_(std::move(problem)) {}

std::string excerpt(std::string_view text) {
  const bool cut = text.size() > errors_detail::kExcerptBytes;
  if (cut) {
    std::size_t end = errors_detail::kExcerptBytes;
    // A character of several bytes is not cut in two: its later bytes read 10xxxxxx.
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
      --end;
    text = text.substr(0, end);
  }
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return cut ? shown + "..." : shown;
}

std::string quoted_excerpt(std::string_view text) {
  return "'" + excerpt(text) + "'";
}

}  // namespace tidemark
