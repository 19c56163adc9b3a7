#include "policies/eviction/online/log_line.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace log_line_detail {
namespace {

void append_utf8(std::string& into, unsigned code) {
  const auto byte = [&](unsigned value) { into += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

}  // namespace
}  // namespace log_line_detail

void LogLines::fail(const std::string& problem, std::size_t column) const {
  throw UserError({.file = file_, .line = number_, .column = static_cast<int>(column)}, {},
                  problem);
}

bool LogLines::next() {
  while (!text_.empty()) {
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    ++number_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    parse(line);
    return true;
  }
  return false;
}

void LogLines::next_for(std::string_view name, std::string_view kind) {
  const bool there = next();
  if (!there || line_.text("INSTRUCTION") != kind || line_.text("NAME") != name) {
    fail(fmt::format("expected the instruction {} for {} {}", kind, tidemark::quoted_excerpt(name),
                     there ? "here" : "after the last line; the log is cut off"));
  }
}

void LogLines::skip_blanks() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\r')
    ++at_;
}

void LogLines::expect(char c) {
  skip_blanks();
  if (peek() != c) {
    fail(fmt::format("expected '{}': every line is one JSON object such as "
                     R"({{"INSTRUCTION":"RELEASE","NAME":"x"}})",
                     c),
         at_ + 1);
  }
  ++at_;
}

void LogLines::read_text(std::string& into) {
  expect('"');
  into.clear();
  for (;;) {
    const std::size_t end = std::min(current_.find_first_of("\"\\", at_), current_.size());
    into.append(current_.substr(at_, end - at_));
    at_ = end;
    if (peek() == '"') break;
    if (at_ + 1 >= current_.size()) fail("this text does not end; a '\"' is missing", at_ + 1);
    const char escape = current_[at_ + 1];
    at_ += 2;
    constexpr std::string_view kFrom = "nrtbf";
    constexpr std::string_view kTo = "\n\r\t\b\f";
    if (escape == 'u') {
      unsigned code = 0;
      const char* begin = current_.data() + at_;
      const char* end_of_code = begin + std::min<std::size_t>(4, current_.size() - at_);
      if (std::from_chars(begin, end_of_code, code, 16).ptr != begin + 4) {
        fail("expected four hexadecimal digits after \\u", at_ + 1);
      }
      log_line_detail::append_utf8(into, code);
      at_ += 4;
    } else {
      const std::size_t known = kFrom.find(escape);
      into += known == std::string_view::npos ? escape : kTo[known];
    }
  }
  ++at_;
}

// Reads a text, a number or a word such as null.
void LogLines::read_scalar(LogLine::Member& member) {
  skip_blanks();
  std::string& item = member.items.emplace_back();
  if (peek() == '"') {
    read_text(item);
    member.kind = LogLine::Kind::kText;
    return;
  }
  const std::size_t end = std::min(current_.find_first_of(",]} \t\r", at_), current_.size());
  item = current_.substr(at_, end - at_);
  at_ = end;
  const bool numeric = !item.empty() && item.find_first_not_of("+-.eE0123456789") == item.npos;
  const bool word = item == "null" || item == "true" || item == "false";
  if (!numeric && !word) fail("expected a text, a number or a list", at_ + 1);
  member.kind = numeric ? LogLine::Kind::kNumber : LogLine::Kind::kOther;
}

void LogLines::parse(std::string_view line) {
  current_ = line;
  at_ = 0;
  line_.used_ = 0;
  expect('{');
  skip_blanks();
  for (bool more = peek() != '}'; more;) {
    if (line_.used_ == line_.members_.size()) line_.members_.emplace_back();
    LogLine::Member& member = line_.members_[line_.used_++];
    member.items.clear();
    read_text(member.key);
    expect(':');
    skip_blanks();
    if (peek() == '[') {
      ++at_;
      skip_blanks();
      for (bool items = peek() != ']'; items;) {
        read_scalar(member);
        skip_blanks();
        items = peek() == ',';
        if (items) ++at_;
      }
      expect(']');
      member.kind = LogLine::Kind::kList;
    } else {
      read_scalar(member);
    }
    skip_blanks();
    more = peek() == ',';
    if (more) ++at_;
  }
  expect('}');
  skip_blanks();
  if (at_ < current_.size()) fail("one JSON object per line, but more follows here", at_ + 1);
}

const LogLine::Member& LogLine::member(std::string_view key) const {
  for (std::size_t i = 0; i < used_; ++i) {
    if (members_[i].key == key) return members_[i];
  }
  lines_->fail(fmt::format("{} is missing in this line", key));
}

std::string_view LogLine::text(std::string_view key) const {
  const Member& found = member(key);
  if (found.kind != Kind::kText) lines_->fail(fmt::format("{} must be a text", key));
  return found.items.front();
}

std::vector<std::string> LogLine::texts(std::string_view key) const {
  const Member& found = member(key);
  if (found.kind != Kind::kList) lines_->fail(fmt::format("{} must be a list of names", key));
  return found.items;
}

std::int64_t LogLine::number(std::string_view key, const std::string& digits) const {
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error == std::errc() && stop == end) return value;
  lines_->fail(
      fmt::format("{} must be a whole number, found {}", key, tidemark::quoted_excerpt(digits)));
}

std::int64_t LogLine::integer(std::string_view key) const {
  const Member& found = member(key);
  if (found.kind != Kind::kText && found.kind != Kind::kNumber) {
    lines_->fail(fmt::format("{} must be a whole number", key));
  }
  return number(key, found.items.front());
}

std::int64_t LogLine::whole(std::string_view key) const {
  constexpr std::int64_t kLargest = std::int64_t{1} << 56;
  const std::int64_t value = integer(key);
  if (value < 0 || value > kLargest) {
    lines_->fail(fmt::format("{} must be from 0 to 2^56, found {}", key, value));
  }
  return value;
}

std::vector<std::int64_t> LogLine::integers(std::string_view key) const {
  const Member& found = member(key);
  if (found.kind != Kind::kList) lines_->fail(fmt::format("{} must be a list of positions", key));
  std::vector<std::int64_t> values;
  for (const std::string& item : found.items)
    values.push_back(number(key, item));
  return values;
}

}  // namespace tidemark
