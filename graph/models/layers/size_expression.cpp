#include "graph/models/layers/size_expression.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/scalar_text.hpp"
#include "graph/core/scalars.hpp"
#include "graph/core/units.hpp"

namespace tidemark {
namespace size_expression_detail {
namespace {

constexpr std::size_t kMaxLength = 200;
constexpr int kMaxParentheses = 32;

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// sum = product {(+|-) product}; product = factor {(*|/) factor}; factor = [-] integer | name |
// (sum)
class Evaluation {
 public:
  Evaluation(const Value& value, const SizeNames& names, const std::string& path)
      : value_(value), names_(names), path_(path), text_(value.scalar) {}

  std::int64_t run() {
    if (text_.size() > kMaxLength) fail(fmt::format("longer than {} characters", kMaxLength));
    const std::int64_t result = sum();
    if (next() != '\0') fail(fmt::format("'{}' was not expected", excerpt(text_.substr(at_))));
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw UserError(value_.location, path_,
                    fmt::format("{} is no size: {}", found(value_), problem));
  }

  // The next character that is no blank; the terminating zero at the end.
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::int64_t sum() {
    std::int64_t result = product();
    for (char c = next(); c == '+' || c == '-'; c = next()) {
      ++at_;
      std::int64_t other = product();
      if (c == '-') other = -other;
      if (!checked_add(result, other, result)) fail("it does not fit into 63 bits");
    }
    return result;
  }

  std::int64_t product() {
    std::int64_t result = factor();
    for (char c = next(); c == '*' || c == '/'; c = next()) {
      ++at_;
      const std::int64_t other = factor();
      if (c == '*') {
        if (!checked_multiply(result, other, result)) fail("it does not fit into 63 bits");
        continue;
      }
      if (other == 0) fail("it divides by 0");
      if (result % other != 0) fail(fmt::format("{} does not divide {}", other, result));
      result /= other;
    }
    return result;
  }

  std::int64_t factor() {
    const char c = next();
    if (c == '-') {
      ++at_;
      return -atom();
    }
    return atom();
  }

  std::int64_t atom() {
    const char c = next();
    if (c == '(') {
      if (++depth_ > kMaxParentheses) fail("too many parentheses");
      ++at_;
      const std::int64_t result = sum();
      if (next() != ')') fail("a ')' is missing");
      ++at_;
      --depth_;
      return result;
    }
    if (is_digit(c)) return number();
    if (is_letter(c)) return name();
    fail(c == '\0' ? std::string("it ends too early")
                   : fmt::format("'{}' was not expected", excerpt(text_.substr(at_))));
  }

  std::int64_t number() {
    std::int64_t result = 0;
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), result);
    if (error != std::errc()) fail("it does not fit into 63 bits");
    at_ += static_cast<std::size_t>(end - first);
    if (at_ < text_.size() && (is_letter(text_[at_]) || text_[at_] == '.')) {
      fail("sizes are whole numbers");
    }
    return result;
  }

  std::int64_t name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_])))
      ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (const std::int64_t* found = names_.find(word)) return *found;
    const std::vector<std::string> known = names_.names();
    std::string hint = did_you_mean(word, known);
    if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(known, ", "));
    fail(fmt::format("there is no size named '{}'{}", excerpt(word), hint));
  }

  const Value& value_;
  const SizeNames& names_;
  const std::string& path_;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace
}  // namespace size_expression_detail

const std::int64_t* SizeNames::find(std::string_view name) const {
  const auto found = std::find_if(values_.rbegin(), values_.rend(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == values_.rend() ? nullptr : &found->second;
}

std::vector<std::string> SizeNames::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::int64_t evaluate_size(const Value& value, const SizeNames& names, const std::string& path,
                           std::int64_t lowest, std::int64_t highest) {
  if (!value.is_scalar()) {
    throw UserError(value.location, path,
                    fmt::format("expected an integer or a size, found {}", found(value)));
  }
  const std::int64_t result = size_expression_detail::Evaluation(value, names, path).run();
  if (result >= lowest && result <= highest) return result;
  const std::string shown = std::to_string(result);
  const std::string meaning =
      value.scalar == shown ? "" : fmt::format("{} which is ", found(value) + ",");
  throw UserError(value.location, path,
                  fmt::format("expected an integer from {} to {}, found {}{}", lowest, highest,
                              meaning, shown));
}

bool is_size_name(std::string_view text) {
  return !text.empty() && size_expression_detail::is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return size_expression_detail::is_letter(c) || is_digit(c); });
}

}  // namespace tidemark
