// The goal of a search: a figure to minimise or maximise, or several, and constraints on others.
//
//   goal: {minimize: time.step, subject_to: ["memory.device_used <= 0.95 * hardware.hbm.capacity"]}
//   goal: {minimize: [time.per_token, memory.device_used]}
//
// An expression has + - * / and parentheses over numbers, quantities with a unit (72GiB, 60s,
// 1.5TB/s; times are seconds, as in results) and names of figures:
//   memory.peak_live, time.step ...   those of a point in the result document
//   policies.NAME.gap                 of the listed policy of that name
//   hardware.hbm.capacity ...         those of the device's profile, with the scenario's overrides
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/core/decoder.hpp"
#include "hwprofiles/figures.hpp"

namespace tidemark {

// Returns a figure by its name. Throws UserError where there is none of that name, or it is no
// number.
using FigureLookup = std::function<double(std::string_view name)>;

// Whether an entry of the result document has a figure of that name, even if it is null.
[[nodiscard]] bool has_figure(const nlohmann::ordered_json& entry, std::string_view name);
// Returns the look-up in an entry of the result document, and in a device. It gives not-a-number
// for figures that are null, and for `policies.` of a point that does not have that policy.
[[nodiscard]] FigureLookup figures_of(const nlohmann::ordered_json& entry,
                                      const std::vector<Figure>& device);

class Expression {
 public:
  // `comparison` asks for two sums with <=, >=, < or > between; else the text is one sum. Throws
  // std::invalid_argument saying what is wrong and where in the text.
  Expression(std::string text, bool comparison);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] double value(const FigureLookup& figures) const;  // for a sum
  [[nodiscard]] bool holds(const FigureLookup& figures) const;    // for a comparison
  // Returns how much the sides of a comparison would have to move for it to hold, in its own unit:
  // at most 0 where it holds, not a number where a figure is missing.
  [[nodiscard]] double excess(const FigureLookup& figures) const;

 private:
  friend class ExpressionParser;
  struct Term {
    char kind = 'n';  // number, name, or the operator
    double number = 0;
    std::size_t name = 0;
    std::size_t left = 0;  // indices of terms
    std::size_t right = 0;
  };
  [[nodiscard]] double at(std::size_t index, const FigureLookup& figures) const;

  std::string text_;
  std::vector<Term> terms_;
  std::vector<std::string> names_;
  std::size_t left_ = 0;
  std::size_t right_ = 0;
  bool at_least_ = false;  // the relation is >= or >
  bool strict_ = false;
};

struct Goal {
  bool maximize = true;  // every objective, or minimise every one
  std::vector<Expression> objectives{Expression("throughput.samples_per_second", false)};
  std::vector<Expression> subject_to;
};

// Decodes a scenario's `goal`; without one it is the fastest: the most samples per second. Throws
// UserError: neither or both of minimize and maximize, expressions that cannot be read, names that
// no figure has, a list without any.
[[nodiscard]] Goal decode_goal(const Value& scenario, const std::vector<Figure>& device);

}  // namespace tidemark
