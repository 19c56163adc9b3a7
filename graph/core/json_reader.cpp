#include "graph/core/json_reader.hpp"

#include <cstdint>
#include <utility>

#include "graph/core/scalar_text.hpp"

namespace tidemark {
namespace json_reader_detail {
namespace {

// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_json_number(std::string_view word) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < word.size() && is_digit(word[at]))
      ++at;
    return at - first;
  };
  if (at < word.size() && word[at] == '-') ++at;
  const bool leading_zero = at < word.size() && word[at] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (at < word.size() && word[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == word.size();
}

bool is_word_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.' || c == '_';
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto push = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0U | (code >> 6));
    push(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    push(0xE0U | (code >> 12));
    push(0x80U | ((code >> 6) & 0x3FU));
    push(0x80U | (code & 0x3FU));
  } else {
    push(0xF0U | (code >> 18));
    push(0x80U | ((code >> 12) & 0x3FU));
    push(0x80U | ((code >> 6) & 0x3FU));
    push(0x80U | (code & 0x3FU));
  }
}

// A recursive descent; the builder bounds the depth. Functions return false once problem_ is set.
class JsonReader {
 public:
  JsonReader(std::string_view text, DocumentBuilder& builder) : text_(text), builder_(builder) {}

  std::optional<SyntaxProblem> read() {
    skip_blanks();
    if (read_value()) {
      skip_blanks();
      if (at_ < text_.size()) stop("there is more text after the end of the JSON value");
    }
    return std::move(problem_);
  }

 private:
  [[nodiscard]] Place place() const { return place_at(at_); }
  [[nodiscard]] Place place_at(std::size_t offset) const {
    return {line_, static_cast<int>(offset - line_start_) + 1};
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool stop(std::string problem) {
    problem_ = SyntaxProblem{place(), std::move(problem)};
    return false;
  }

  bool expected(std::string_view what) {
    std::string problem = "expected " + std::string(what) + ", found ";
    if (at_ >= text_.size()) return stop(problem + "the end of the file");
    if (peek() == '#' || peek() == '/') return stop(problem + "a comment; JSON has none");
    std::size_t end = at_ + 1;
    while (end < text_.size() && is_word_character(text_[at_]) && is_word_character(text_[end])) {
      ++end;
    }
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0U) == 0x80U)
      ++end;
    return stop(problem + tidemark::quoted_excerpt(text_.substr(at_, end - at_)));
  }

  void skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  bool read_value() {
    switch (peek()) {
      case '{':
        return read_object();
      case '[':
        return read_array();
      case '"': {
        const Place start = place();
        std::string text;
        if (!read_string(text)) return false;
        builder_.add_scalar(start, std::move(text), true);
        return true;
      }
      default:
        return read_word();
    }
  }

  bool read_object() {
    builder_.begin(Value::Kind::kMapping, place());
    ++at_;
    skip_blanks();
    if (peek() != '}') {
      while (true) {
        if (peek() != '"') return expected("a key in double quotes");
        const Place start = place();
        std::string key;
        if (!read_string(key)) return false;
        builder_.add_scalar(start, std::move(key), true);
        skip_blanks();
        if (peek() != ':') return expected("':' after a key");
        ++at_;
        skip_blanks();
        if (!read_value()) return false;
        skip_blanks();
        if (peek() == '}') break;
        if (peek() != ',') return expected("',' or '}'");
        ++at_;
        skip_blanks();
        if (peek() == '}') return stop("JSON has no comma before '}'");
      }
    }
    ++at_;
    builder_.end();
    return true;
  }

  bool read_array() {
    builder_.begin(Value::Kind::kSequence, place());
    ++at_;
    skip_blanks();
    if (peek() != ']') {
      while (true) {
        if (!read_value()) return false;
        skip_blanks();
        if (peek() == ']') break;
        if (peek() != ',') return expected("',' or ']'");
        ++at_;
        skip_blanks();
        if (peek() == ']') return stop("JSON has no comma before ']'");
      }
    }
    ++at_;
    builder_.end();
    return true;
  }

  bool read_word() {
    std::size_t end = at_;
    while (end < text_.size() && is_word_character(text_[end]))
      ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (word == "null") {
      builder_.add_null(place());
    } else if (word == "true" || word == "false" || word == "NaN" || word == "Infinity" ||
               word == "-Infinity" || is_json_number(word)) {
      builder_.add_scalar(place(), std::string(word), false);
    } else {
      return expected("a JSON value");
    }
    at_ = end;
    return true;
  }

  bool read_string(std::string& text) {
    const std::size_t start = at_++;
    while (true) {
      std::size_t end = at_;
      while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
             static_cast<unsigned char>(text_[end]) >= 0x20) {
        ++end;
      }
      text.append(text_, at_, end - at_);
      at_ = end;
      if (at_ >= text_.size() || text_[at_] == '\n' || text_[at_] == '\r') {
        at_ = start;
        return stop("this text has no closing '\"' on its line");
      }
      if (text_[at_] == '"') break;
      if (text_[at_] != '\\') return stop("a tab inside a text is written \\t in JSON");
      if (!read_escape(text)) return false;
    }
    ++at_;
    return true;
  }

  bool read_escape(std::string& text) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (letter == 'u') return read_unicode(text);
    const std::size_t found = kLetters.find(letter);
    if (letter == '\0' || found == std::string_view::npos) {
      return stop("unknown escape '\\" + excerpt(text_.substr(at_ + 1, 1)) + "' in a text");
    }
    text += kMeanings[found];
    at_ += 2;
    return true;
  }

  // \uXXXX, or two of them for a character beyond the 16-bit range.
  bool read_unicode(std::string& text) {
    const std::optional<std::uint32_t> first = hex_escape(at_);
    if (!first) return stop("\\u needs four hexadecimal digits");
    std::uint32_t code = *first;
    std::size_t length = 6;
    if (code >= 0xD800 && code < 0xE000) {
      const std::optional<std::uint32_t> second = hex_escape(at_ + length);
      if (code >= 0xDC00 || !second || *second < 0xDC00 || *second > 0xDFFF) {
        return stop("half of a surrogate pair in a text");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (*second - 0xDC00);
      length = 12;
    }
    append_utf8(text, code);
    at_ += length;
    return true;
  }

  [[nodiscard]] std::optional<std::uint32_t> hex_escape(std::size_t at) const {
    if (at + 6 > text_.size() || text_[at] != '\\' || text_[at + 1] != 'u') return std::nullopt;
    std::uint32_t code = 0;
    for (const char c : text_.substr(at + 2, 4)) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
      const std::size_t digit = kDigits.find(lower);
      if (digit == std::string_view::npos) return std::nullopt;
      code = code * 16 + static_cast<std::uint32_t>(digit);
    }
    return code;
  }

  std::string_view text_;
  DocumentBuilder& builder_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
  std::optional<SyntaxProblem> problem_;
};

}  // namespace
}  // namespace json_reader_detail

std::optional<SyntaxProblem> read_json(std::string_view text, DocumentBuilder& builder) {
  return json_reader_detail::JsonReader(text, builder).read();
}

}  // namespace tidemark
