#include "scenarios/studies/journal/journal_lines.hpp"

#include <fstream>
#include <optional>
#include <streambuf>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/sha1.hpp"
#include "graph/core/value.hpp"

namespace tidemark {
namespace journal_lines_detail {
namespace {

constexpr std::string_view kPrefix = R"({"checksum":")";
constexpr std::string_view kAfterChecksum = R"(",)";
constexpr std::size_t kDigits = 16;  // 64 of SHA-1's 160 bits
constexpr std::size_t kBody = kPrefix.size() + kDigits + kAfterChecksum.size();

// `body`: the JSON object without its opening brace.
std::string checksum_of(std::string_view body) {
  Sha1 sha1;
  sha1.update("{");
  sha1.update(body);
  return sha1.hex().substr(0, kDigits);
}

// Returns the JSON object of a line whose checksum is right.
std::optional<std::string> checked_json(std::string_view line) {
  if (line.size() <= kBody || !line.starts_with(kPrefix)) return std::nullopt;
  const std::string_view body = line.substr(kBody);
  const std::string_view checksum = line.substr(kPrefix.size(), kDigits);
  const std::string_view after = line.substr(kPrefix.size() + kDigits, kAfterChecksum.size());
  if (after != kAfterChecksum || checksum != checksum_of(body)) return std::nullopt;
  return '{' + std::string(body);
}

// Lines began so before they had checksums.
bool is_unchecked(std::string_view line) {
  return line.starts_with(R"({"tidemark":)") || line.starts_with(R"({"point":)");
}

void add_line(JournalLines& lines, std::size_t number, std::string_view line) {
  if (std::optional<std::string> json = checked_json(line)) {
    lines.whole.push_back({number, *std::move(json)});
  } else {
    std::vector<std::size_t>& list = is_unchecked(line) ? lines.unchecked : lines.damaged;
    if (list.empty() || list.back() != number) list.push_back(number);
  }
}

// A line holds one point's result, which takes some kilobytes.
constexpr std::size_t kMaxLineBytes = kMaxFileBytes / 8;

// Reads up to a line break, which is not part of the line. Returns false at the end of the file,
// even within a line.
bool read_line(std::streambuf& file, std::string& line, const std::string& path) {
  using Traits = std::streambuf::traits_type;
  line.clear();
  for (auto next = file.sbumpc(); next != Traits::eof(); next = file.sbumpc()) {
    const char c = Traits::to_char_type(next);
    if (c == '\n') return true;
    line += c;
    if (line.size() > kMaxLineBytes) {
      throw UserError({.file = path}, {},
                      fmt::format("a line is longer than {} MiB", kMaxLineBytes >> 20));
    }
  }
  return false;
}

std::string count_text(const std::vector<std::size_t>& numbers, const std::string& path,
                       std::string_view one, std::string_view many) {
  if (numbers.size() == 1) return fmt::format("line {} of {} {}", numbers.front(), path, one);
  return fmt::format("{} lines of {} {} (the first is line {})", numbers.size(), path, many,
                     numbers.front());
}

}  // namespace
}  // namespace journal_lines_detail

std::string checked_line(std::string_view json) {
  const std::string_view body = json.substr(1);
  return fmt::format("{}{}{}{}\n", journal_lines_detail::kPrefix,
                     journal_lines_detail::checksum_of(body), journal_lines_detail::kAfterChecksum,
                     body);
}

JournalLines read_journal_lines(const std::string& path) {
  // A pipe would be waited for, and a device has no end.
  if (path_exists(path) && !is_file(path)) throw UserError({.file = path}, {}, "is no file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError({.file = path}, {}, "cannot be read");
  JournalLines lines{.path = path};
  std::string text;
  for (std::size_t number = 1; journal_lines_detail::read_line(*file.rdbuf(), text, path);
       ++number) {
    if (number == 1) lines.first = text;
    // Quotation marks in JSON are escaped, so a prefix within a line begins the next line: the end
    // of the one before it is damaged.
    std::string_view rest = text;
    for (std::size_t next = 0;
         (next = rest.find(journal_lines_detail::kPrefix, 1)) != std::string_view::npos;) {
      journal_lines_detail::add_line(lines, number, rest.substr(0, next));
      rest.remove_prefix(next);
    }
    journal_lines_detail::add_line(lines, number, rest);
  }
  return lines;
}

std::string damage_text(const JournalLines& lines) {
  std::string text;
  if (!lines.damaged.empty())
    text = journal_lines_detail::count_text(lines.damaged, lines.path, "is damaged", "are damaged");
  if (!lines.unchecked.empty()) {
    text += text.empty() ? "" : "; ";
    text += journal_lines_detail::count_text(
        lines.unchecked, lines.path, "has no checksum: an older version of Tidemark wrote it",
        "have no checksum: an older version of Tidemark wrote them");
  }
  return text;
}

}  // namespace tidemark
