#include "scenarios/read/expression.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/units.hpp"
#include "graph/core/value.hpp"

namespace tidemark {

Quantity parse_quantity(const std::string& text) {
  double plain = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), plain);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size())
    return {plain, FigureUnit::kNumber};
  const auto tried = [&](auto parse) -> std::optional<double> {
    try {
      return parse();
    } catch (const std::invalid_argument&) {
      return std::nullopt;
    }
  };
  if (auto v = tried([&] { return static_cast<double>(parse_bytes(text).count); }))
    return {*v, FigureUnit::kBytes};
  if (auto v = tried([&] { return std::chrono::duration<double>(parse_duration(text)).count(); }))
    return {*v, FigureUnit::kSeconds};
  if (auto v = tried([&] { return parse_bandwidth(text).value; })) return {.value = *v};
  if (auto v = tried([&] { return parse_flops_rate(text).value; })) return {.value = *v};
  throw std::invalid_argument(fmt::format("{} is no quantity; write 72GiB, 60s or 1.5TB/s", text));
}

class ExpressionParser {
  using TermKind = Expression::TermKind;

 public:
  explicit ExpressionParser(Expression& result) : out_(result), text_(result.text_) {}

  void run(bool comparison) {
    out_.left_ = sum();
    out_.unit_ = out_.terms_[out_.left_].unit;
    if (comparison) {
      skip_blanks();
      const char sign = peek();
      if (sign != '<' && sign != '>') fail("expected <= or >= here");
      out_.at_least_ = sign == '>';
      ++at_;
      out_.strict_ = peek() != '=';
      if (!out_.strict_) ++at_;
      out_.right_ = sum();
      out_.unit_ = common_unit(out_.left_, out_.right_);
    }
    skip_blanks();
    if (at_ < text_.size()) fail("expected the end, or one of + - * /");
    if (!problem_.empty()) throw std::invalid_argument(problem_);
  }

 private:
  using Term = Expression::Term;

  [[noreturn]] void fail(const std::string& problem) const {
    throw std::invalid_argument(
        fmt::format("character {} of {}: {}", at_ + 1, tidemark::quoted_excerpt(text_), problem));
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (peek() == ' ')
      ++at_;
  }
  std::size_t add(Term term) {
    if (out_.terms_.size() >= kMaxTerms) fail(fmt::format("more than {} terms", kMaxTerms));
    out_.terms_.push_back(term);
    return out_.terms_.size() - 1;
  }
  std::size_t sum() { return chain("+-", &ExpressionParser::product); }
  std::size_t product() { return chain("*/", &ExpressionParser::atom); }
  static TermKind kind_of(char sign) {
    return sign == '+'   ? TermKind::kAdd
           : sign == '-' ? TermKind::kSubtract
           : sign == '*' ? TermKind::kMultiply
                         : TermKind::kDivide;
  }
  // Parses operands with one of `signs` between, from the left.
  std::size_t chain(std::string_view signs, std::size_t (ExpressionParser::*operand)()) {
    std::size_t left = (this->*operand)();
    for (skip_blanks(); at_ < text_.size() && signs.find(peek()) != signs.npos; skip_blanks()) {
      const TermKind kind = kind_of(text_[at_++]);
      const std::size_t right = (this->*operand)();
      left = add({.kind = kind, .unit = unit_of(kind, left, right), .left = left, .right = right});
    }
    return left;
  }
  std::size_t atom() {
    skip_blanks();
    const auto is = [&](auto test) { return test(static_cast<unsigned char>(peek())) != 0; };
    if (++depth_ > kMaxDepth) fail("too many parentheses");
    std::size_t term = 0;
    if (peek() == '(') {
      ++at_;
      term = sum();
      skip_blanks();
      if (peek() != ')') fail("expected )");
      ++at_;
    } else if (peek() == '-') {
      ++at_;
      const std::size_t zero = add({.kind = TermKind::kNumber});
      const std::size_t right = atom();
      term = add({.kind = TermKind::kSubtract,
                  .unit = out_.terms_[right].unit,
                  .left = zero,
                  .right = right});
    } else if (is([](int c) { return std::isdigit(c); }) || peek() == '.') {
      term = number();
    } else if (is([](int c) { return std::isalpha(c); })) {
      term = name();
    } else {
      fail("expected a number, a figure such as time.step, or (");
    }
    --depth_;
    return term;
  }
  std::size_t number() {
    const std::size_t begin = at_;
    const auto digit = [&](std::size_t i) {
      return i < text_.size() && std::isdigit(static_cast<unsigned char>(text_[i])) != 0;
    };
    while (digit(at_) || peek() == '.')
      ++at_;
    if (peek() == 'e' || peek() == 'E') {  // 1e9
      const bool sign = at_ + 1 < text_.size() && (text_[at_ + 1] == '-' || text_[at_ + 1] == '+');
      if (digit(at_ + (sign ? 2 : 1))) at_ += sign ? 2 : 1;
      while (digit(at_))
        ++at_;
    }
    while (std::isalpha(static_cast<unsigned char>(peek())) != 0)
      ++at_;
    // 1.5TB/s is one quantity, so this is no division by a figure called s.
    const bool rate =
        text_.compare(at_, 2, "/s") == 0 &&
        (at_ + 2 == text_.size() || std::isalnum(static_cast<unsigned char>(text_[at_ + 2])) == 0);
    if (rate && std::isalpha(static_cast<unsigned char>(text_[at_ - 1])) != 0) at_ += 2;
    try {
      const Quantity quantity = parse_quantity(text_.substr(begin, at_ - begin));
      return add({.kind = TermKind::kNumber, .number = quantity.value, .unit = quantity.unit});
    } catch (const std::invalid_argument& error) {
      at_ = begin;
      fail(error.what());
    }
  }
  std::size_t name() {
    const std::size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_' || peek() == '.')
      ++at_;
    out_.names_.push_back(text_.substr(begin, at_ - begin));
    const FigureUnit unit = tidemark::unit_of(out_.names_.back());
    return add({.kind = TermKind::kName, .unit = unit, .name = out_.names_.size() - 1});
  }

  // Returns the unit of what is added or compared.
  FigureUnit common_unit(std::size_t left, std::size_t right) {
    const FigureUnit a = out_.terms_[left].unit;
    const FigureUnit b = out_.terms_[right].unit;
    if (a == FigureUnit::kNone || b == FigureUnit::kNone) return FigureUnit::kNone;
    if (a == b) return a;
    const auto is = [&](FigureUnit unit) { return a == unit || b == unit; };
    if (is(FigureUnit::kBytes) && is(FigureUnit::kSeconds)) {
      note_problem("bytes stand beside seconds");
      return FigureUnit::kNone;
    }
    if (is(FigureUnit::kSeconds)) return FigureUnit::kSeconds;  // as results say them
    // Nothing is nothing in every unit.
    const double number = number_of(a == FigureUnit::kNumber ? left : right);
    if (number != 0 && std::abs(number) < kLeastBytes) {
      note_problem(fmt::format(
          "the number {} beside bytes has no unit; write it with its unit, as 72GiB", number));
    }
    return FigureUnit::kBytes;
  }

  // Keeps the first mistake with units, which is said if the text can be read to its end.
  void note_problem(const std::string& problem) {
    if (!problem_.empty()) return;
    problem_ = fmt::format("{}: {}", tidemark::quoted_excerpt(text_), problem);
  }

  // Returns the value of numbers that were written without a unit, which has no figure in it.
  double number_of(std::size_t term) {
    return out_.at(term, [](std::string_view) { return std::nan(""); });
  }

  FigureUnit unit_of(TermKind kind, std::size_t left, std::size_t right) {
    if (kind == TermKind::kAdd || kind == TermKind::kSubtract) return common_unit(left, right);
    const FigureUnit a = out_.terms_[left].unit;
    const FigureUnit b = out_.terms_[right].unit;
    if (a == FigureUnit::kNumber && b == FigureUnit::kNumber) return FigureUnit::kNumber;
    if (kind != TermKind::kMultiply) return FigureUnit::kNone;
    if (b == FigureUnit::kNumber && is_share(right)) return a;
    if (a == FigureUnit::kNumber && is_share(left)) return b;
    return FigureUnit::kNone;
  }

  // Whether a factor takes a share or a multiple. Others, as quotients, are there to change the
  // unit: 1e-9 * memory.device_used, memory.device_used / 1e9.
  bool is_share(std::size_t term) {
    const double factor = std::abs(number_of(term));
    return factor >= 1 / kMostMultiple && factor <= kMostMultiple;
  }
  static constexpr double kMostMultiple = 100;

  // A number without a unit that stands beside bytes and is less was meant in another unit.
  static constexpr double kLeastBytes = 1 << 20;

  // A sum is evaluated from its last term down to its first, one call for each.
  static constexpr std::size_t kMaxTerms = 4096;
  Expression& out_;
  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string problem_;  // with units
};

Expression::Expression(std::string text, bool comparison) : text_(std::move(text)) {
  ExpressionParser(*this).run(comparison);
}

double Expression::at(std::size_t index, const FigureLookup& figures) const {
  const Term& term = terms_[index];
  if (term.kind == TermKind::kNumber) return term.number;
  if (term.kind == TermKind::kName) return figures(names_[term.name]);
  const double left = at(term.left, figures);
  const double right = at(term.right, figures);
  switch (term.kind) {
    case TermKind::kAdd:
      return left + right;
    case TermKind::kSubtract:
      return left - right;
    case TermKind::kMultiply:
      return left * right;
    default:
      return left / right;
  }
}

namespace expression_detail {
namespace {

// Returns the range of some bounds; of no number at all, everything is possible.
FigureRange range_of(std::initializer_list<double> bounds) {
  if (std::any_of(bounds.begin(), bounds.end(), [](double b) { return std::isnan(b); })) return {};
  const auto [least, most] = std::minmax(bounds);
  return {.least = least, .most = most};
}

// Returns the range of an operation that rises or falls in each of its sides: its ends are among
// those of the ends, rounded as the operation itself is. Nothing times whatever a figure may be is
// nothing, and so is the quotient of two figures without an end, beside the other ends.
template <class Operation>
FigureRange range_of_ends(FigureRange a, FigureRange b, const Operation& operation) {
  const auto end = [&](double x, double y) {
    const double value = operation(x, y);
    return std::isnan(value) && !std::isnan(x) && !std::isnan(y) ? 0 : value;
  };
  return range_of(
      {end(a.least, b.least), end(a.least, b.most), end(a.most, b.least), end(a.most, b.most)});
}

FigureRange product_of(FigureRange a, FigureRange b) {
  return range_of_ends(a, b, [](double x, double y) { return x * y; });
}

FigureRange quotient_of(FigureRange a, FigureRange b) {
  if (b.least <= 0 && b.most >= 0) return {};
  return range_of_ends(a, b, [](double x, double y) { return x / y; });
}

}  // namespace
}  // namespace expression_detail

FigureRange Expression::range_at(std::size_t index, const RangeLookup& figures) const {
  const Term& term = terms_[index];
  if (term.kind == TermKind::kNumber) return {.least = term.number, .most = term.number};
  if (term.kind == TermKind::kName) return figures(names_[term.name]);
  const FigureRange left = range_at(term.left, figures);
  const FigureRange right = range_at(term.right, figures);
  switch (term.kind) {
    case TermKind::kAdd:
      return expression_detail::range_of({left.least + right.least, left.most + right.most});
    case TermKind::kSubtract:
      return expression_detail::range_of({left.least - right.most, left.most - right.least});
    case TermKind::kMultiply:
      return expression_detail::product_of(left, right);
    default:
      return expression_detail::quotient_of(left, right);
  }
}

FigureRange Expression::range(const RangeLookup& figures) const {
  return range_at(left_, figures);
}
double Expression::least_excess(const RangeLookup& figures) const {
  const FigureRange left = range_at(left_, figures);
  const FigureRange right = range_at(right_, figures);
  const double least = at_least_ ? right.least - left.most : left.least - right.most;
  return std::isnan(least) ? -std::numeric_limits<double>::infinity() : least;
}
bool Expression::can_hold(const RangeLookup& figures) const {
  const double least = least_excess(figures);
  return strict_ ? least < 0 : least <= 0;
}

double Expression::value(const FigureLookup& figures) const {
  return at(left_, figures);
}
bool Expression::holds(const FigureLookup& figures) const {
  const double by = excess(figures);
  return strict_ ? by < 0 : by <= 0;
}
double Expression::excess(const FigureLookup& figures) const {
  const double left = at(left_, figures);
  const double right = at(right_, figures);
  if (left == right) return 0;  // also where both are infinite
  return at_least_ ? right - left : left - right;
}

}  // namespace tidemark
