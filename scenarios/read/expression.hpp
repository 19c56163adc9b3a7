// Sums and comparisons of figures, as goals are written.
//
//   0.95 * hardware.hbm.capacity
//   memory.device_used <= 72GiB
//
// An expression has + - * / and parentheses over numbers, quantities with a unit (72GiB, 60s,
// 1.5TB/s; times are seconds, as in results) and names of figures.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/figure_unit.hpp"

namespace tidemark {

// Returns a figure by its name. Throws UserError where there is none of that name, or it is no
// number.
using FigureLookup = std::function<double(std::string_view name)>;

// The numbers that a figure may have.
struct FigureRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};
using RangeLookup = std::function<FigureRange(std::string_view name)>;

class Expression {
 public:
  // `comparison` asks for two sums with <=, >=, < or > between; else the text is one sum. Throws
  // std::invalid_argument saying what is wrong and where in the text, also where bytes are added to
  // or compared with seconds, or with a number too small to mean bytes.
  Expression(std::string text, bool comparison);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  // Returns the unit of a sum, or of both sides of a comparison.
  [[nodiscard]] FigureUnit unit() const { return unit_; }
  [[nodiscard]] double value(const FigureLookup& figures) const;  // value of a sum
  [[nodiscard]] bool holds(const FigureLookup& figures) const;    // truth of a comparison
  // Returns how much the sides of a comparison would have to move for it to hold, in its own unit:
  // at most 0 where it holds, not a number where a figure is missing.
  [[nodiscard]] double excess(const FigureLookup& figures) const;
  // Returns what a sum may be where its figures are known to lie in ranges.
  [[nodiscard]] FigureRange range(const RangeLookup& figures) const;
  // Returns the least that excess() may be, and whether a comparison can hold.
  [[nodiscard]] double least_excess(const RangeLookup& figures) const;
  [[nodiscard]] bool can_hold(const RangeLookup& figures) const;

 private:
  friend class ExpressionParser;
  enum class TermKind : std::uint8_t { kNumber, kName, kAdd, kSubtract, kMultiply, kDivide };
  struct Term {
    TermKind kind = TermKind::kNumber;
    double number = 0;
    FigureUnit unit = FigureUnit::kNone;
    std::size_t name = 0;
    std::size_t left = 0;  // indices of terms
    std::size_t right = 0;
  };
  [[nodiscard]] double at(std::size_t index, const FigureLookup& figures) const;
  [[nodiscard]] FigureRange range_at(std::size_t index, const RangeLookup& figures) const;

  std::string text_;
  std::vector<Term> terms_;
  std::vector<std::string> names_;
  std::size_t left_ = 0;
  std::size_t right_ = 0;
  FigureUnit unit_ = FigureUnit::kNone;
  bool at_least_ = false;  // the relation is >= or >
  bool strict_ = false;
};

// A number in the unit that results have: bytes, seconds, bytes/s or FLOP/s.
struct Quantity {
  double value = 0;
  FigureUnit unit = FigureUnit::kNone;
};
// Parses 72GiB, 60s, 1.5TB/s, 312TFLOP/s or a plain number. Throws std::invalid_argument.
[[nodiscard]] Quantity parse_quantity(const std::string& text);

}  // namespace tidemark
