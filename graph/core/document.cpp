#include "graph/core/document.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "graph/core/document_builder.hpp"
#include "graph/core/json_reader.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/core/yaml_reader.hpp"

namespace tidemark {
namespace document_detail {
namespace {

[[noreturn]] void fail_at_offset(std::string_view text, std::size_t offset, const std::string& file,
                                 const std::string& problem) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // 0 in the first line
  throw UserError({file, static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
                   static_cast<int>(offset - line_start) + 1},
                  "", problem);
}

// The length of the UTF-8 character at the front of `text`, 0 if there is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) > 0x9F;
  const bool beyond = first == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || beyond ? 0 : length;
}

// Names the kind of a file that is often given by mistake.
std::string_view binary_kind(std::string_view text) {
  if (text.starts_with("\x1F\x8B")) return "a gzip archive; unpack it first";
  if (text.starts_with("PK\x03\x04")) return "a zip archive; unpack it first";
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return "UTF-16; save it as UTF-8";
  }
  return {};
}

void check_text(std::string_view text, const std::string& file) {
  const std::string_view kind = binary_kind(text);
  if (!kind.empty()) throw UserError({file, 0, 0}, "", "this file is " + std::string(kind));
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 && byte < 0x7F) {
      ++at;
      continue;
    }
    if (byte == 0) fail_at_offset(text, at, file, "a NUL byte; this is not a text file");
    if (byte == 0x7F || (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t')) {
      fail_at_offset(
          text, at, file,
          fmt::format("a control character (byte 0x{:02x}); is this a text file?", byte));
    }
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0)
      fail_at_offset(text, at, file, fmt::format("byte 0x{:02x} is not UTF-8", byte));
    at += length;
  }
}

}  // namespace
}  // namespace document_detail

void require_text(std::string_view text, const std::string& file) {
  document_detail::check_text(text, file);
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

Value parse_document(std::string_view text, const std::string& file) {
  if (text.size() > kMaxFileBytes) {
    throw UserError({file, 0, 0}, "", fmt::format("larger than {} MiB", kMaxFileBytes >> 20));
  }
  document_detail::check_text(text, file);
  text = without_byte_order_mark(text);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  const bool must_be_json = file.ends_with(".json");
  if (start != std::string_view::npos &&
      (must_be_json || text[start] == '{' || text[start] == '[')) {
    DocumentBuilder builder(file);
    const std::optional<SyntaxProblem> problem = read_json(text, builder);
    if (!problem) return builder.take();
    if (must_be_json) builder.fail(problem->place, problem->problem);
  }
  DocumentBuilder builder(file);
  read_yaml(text, builder);
  return builder.take();
}

Value read_document(const std::string& path) {
  return parse_document(read_text_file(path), path);
}

std::string read_text_file(const std::string& path) {
  const auto fail = [&](const std::string& problem) {
    throw UserError({excerpt(path), 0, 0}, "", problem);
  };
  if (path.empty()) throw UserError("a file name is empty");
  if (path.find('\0') != std::string::npos) fail("a file name may not contain a NUL character");
  if (is_folder(path)) fail("this is a folder, not a file");
  keep_piped(path);
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(path.c_str(), "rb"),
                                                               &std::fclose);
  if (!stream) {
    fail(why_not_opened(path));
  }
  std::string text;
  std::error_code error;
  const std::uintmax_t known_size = std::filesystem::file_size(path, error);
  if (!error && known_size <= kMaxFileBytes) text.reserve(static_cast<std::size_t>(known_size));
  std::string chunk(std::size_t{1} << 16, '\0');
  while (true) {
    const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), stream.get());
    if (count == 0) break;
    text.append(chunk, 0, count);
    // A file that is no text is read no further: devices and disk images have no end to wait for.
    if (chunk.find('\0') < count) document_detail::check_text(text, path);
    if (text.size() > kMaxFileBytes) fail(fmt::format("larger than {} MiB", kMaxFileBytes >> 20));
  }
  if (std::ferror(stream.get()) != 0) {
    fail("cannot be read: " + std::generic_category().message(errno));
  }
  text.erase(0, text.size() - without_byte_order_mark(text).size());
  return text;
}

}  // namespace tidemark
