// The lines of an eviction log: flat JSON objects of texts, whole numbers and lists of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

class LogLines;

// The members of one line. Whole numbers may be written as numbers or as texts ("173").
class LogLine {
 public:
  // The readers fail with the line's place when the member is missing or of another kind.
  [[nodiscard]] std::string_view text(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] std::int64_t whole(std::string_view key) const;  // 0 or more
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const;

 private:
  friend class LogLines;
  enum class Kind { kText, kNumber, kList, kOther };
  struct Member {
    std::string key;
    Kind kind = Kind::kOther;
    std::vector<std::string> items;  // one item, or those of the list
  };
  [[nodiscard]] const Member& member(std::string_view key) const;
  [[nodiscard]] std::int64_t number(std::string_view key, const std::string& digits) const;

  const LogLines* lines_ = nullptr;
  std::vector<Member> members_;  // the first `used_` count; the others keep their memory
  std::size_t used_ = 0;
};

class LogLines {
 public:
  LogLines(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
    line_.lines_ = this;
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  bool next();  // goes to the next line that is not blank; false at the end
  // Goes to the next line, which must be the instruction `kind` for `name`.
  void next_for(std::string_view name, std::string_view kind);
  [[nodiscard]] const LogLine& line() const { return line_; }
  [[noreturn]] void fail(const std::string& problem, std::size_t column = 0) const;

 private:
  void parse(std::string_view line);
  void read_text(std::string& into);
  void read_scalar(LogLine::Member& member);
  void skip_blanks();
  [[nodiscard]] char peek() const { return at_ < current_.size() ? current_[at_] : '\0'; }
  void expect(char c);

  std::string_view text_;
  std::string file_;
  std::string_view current_;
  std::size_t at_ = 0;  // position in current_
  int number_ = 0;      // number of the current line, from 1
  LogLine line_;
};

}  // namespace tidemark
