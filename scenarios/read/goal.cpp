#include "scenarios/read/goal.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "graph/core/units.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace goal_detail {
namespace {

using Json = nlohmann::ordered_json;

// Parses 72GiB, 60s, 1.5TB/s, 312TFLOP/s or a plain number.
double parse_quantity(const std::string& text) {
  double plain = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), plain);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return plain;
  const auto tried = [&](auto parse) -> std::optional<double> {
    try {
      return parse();
    } catch (const std::invalid_argument&) {
      return std::nullopt;
    }
  };
  if (auto v = tried([&] { return static_cast<double>(parse_bytes(text).count); })) return *v;
  if (auto v = tried([&] { return std::chrono::duration<double>(parse_duration(text)).count(); }))
    return *v;
  if (auto v = tried([&] { return parse_bandwidth(text).value; })) return *v;
  if (auto v = tried([&] { return parse_flops_rate(text).value; })) return *v;
  throw std::invalid_argument(fmt::format("{} is no quantity; write 72GiB, 60s or 1.5TB/s", text));
}

const Json* descend(const Json& entry, std::string_view name) {
  const Json* at = &entry;
  while (at != nullptr && !name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string key(name.substr(0, dot));
    name.remove_prefix(std::min(dot + 1, name.size()));
    if (at->is_array()) {  // an array of policies
      const auto found = std::find_if(at->begin(), at->end(), [&](const Json& item) {
        return item.is_object() && item.value("name", "") == key;
      });
      at = found == at->end() ? nullptr : &*found;
    } else {
      at = at->is_object() && at->contains(key) ? &at->at(key) : nullptr;
    }
  }
  return at;
}

void add_number_names(const Json& json, const std::string& prefix,
                      std::vector<std::string>& names) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) add_number_names(value, prefix + key + '.', names);
    if (value.is_number()) names.push_back(prefix + key);
  }
}

constexpr std::string_view kHardware = "hardware.";
constexpr std::string_view kPolicies = "policies.";
constexpr std::string_view kCost = "cost";  // short for the next: steps may differ in their samples
constexpr std::string_view kPrice = "cost.price_per_sample";

}  // namespace
}  // namespace goal_detail

bool has_figure(const goal_detail::Json& entry, std::string_view name) {
  const goal_detail::Json* found = goal_detail::descend(entry, name);
  return found != nullptr && (found->is_number() || found->is_null());
}

FigureLookup figures_of(const goal_detail::Json& entry, const std::vector<Figure>& device) {
  return [&entry, &device](std::string_view name) {
    if (name.starts_with(goal_detail::kHardware)) {
      const std::string_view path = name.substr(goal_detail::kHardware.size());
      for (const Figure& figure : device) {
        if (figure.path == path) return goal_detail::parse_quantity(figure.value);
      }
    } else if (has_figure(entry, name)) {
      const goal_detail::Json& found = *goal_detail::descend(entry, name);
      return found.is_number() ? found.get<double>() : std::nan("");
    } else if (name.starts_with(goal_detail::kPolicies)) {
      return std::nan("");  // no comparison holds for a missing figure
    }
    throw UserError(fmt::format("there is no figure '{}'", name));
  };
}

class ExpressionParser {
 public:
  explicit ExpressionParser(Expression& result) : out_(result), text_(result.text_) {}

  void run(bool comparison) {
    out_.left_ = sum();
    if (comparison) {
      skip_blanks();
      const char sign = peek();
      if (sign != '<' && sign != '>') fail("expected <= or >= here");
      out_.at_least_ = sign == '>';
      ++at_;
      out_.strict_ = peek() != '=';
      if (!out_.strict_) ++at_;
      out_.right_ = sum();
    }
    skip_blanks();
    if (at_ < text_.size()) fail("expected the end, or one of + - * /");
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
  // Parses operands with one of `signs` between, from the left.
  std::size_t chain(std::string_view signs, std::size_t (ExpressionParser::*operand)()) {
    std::size_t left = (this->*operand)();
    for (skip_blanks(); at_ < text_.size() && signs.find(peek()) != signs.npos; skip_blanks()) {
      const char sign = text_[at_++];
      const std::size_t right = (this->*operand)();
      left = add({.kind = sign, .left = left, .right = right});
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
      const std::size_t zero = add({.kind = 'n'});
      const std::size_t right = atom();
      term = add({.kind = '-', .left = zero, .right = right});
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
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0 || peek() == '.')
      ++at_;
    while (std::isalpha(static_cast<unsigned char>(peek())) != 0)
      ++at_;
    // 1.5TB/s is one quantity, so this is no division by a figure called s.
    const bool rate =
        text_.compare(at_, 2, "/s") == 0 &&
        (at_ + 2 == text_.size() || std::isalnum(static_cast<unsigned char>(text_[at_ + 2])) == 0);
    if (rate && std::isalpha(static_cast<unsigned char>(text_[at_ - 1])) != 0) at_ += 2;
    try {
      return add(
          {.kind = 'n', .number = goal_detail::parse_quantity(text_.substr(begin, at_ - begin))});
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
    return add({.kind = 'v', .name = out_.names_.size() - 1});
  }

  // A sum is evaluated from its last term down to its first, one call for each.
  static constexpr std::size_t kMaxTerms = 4096;
  Expression& out_;
  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Expression::Expression(std::string text, bool comparison) : text_(std::move(text)) {
  ExpressionParser(*this).run(comparison);
}

double Expression::at(std::size_t index, const FigureLookup& figures) const {
  const Term& term = terms_[index];
  if (term.kind == 'n') return term.number;
  if (term.kind == 'v') return figures(names_[term.name]);
  const double left = at(term.left, figures);
  const double right = at(term.right, figures);
  switch (term.kind) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    default:
      return left / right;
  }
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

namespace goal_detail {
namespace {

// Returns every figure of a point's entry that is a number whatever the scenario.
std::vector<std::string> known_names(const std::vector<Figure>& device) {
  PointResult point;
  point.status = PointStatus::kFits;
  point.samples = 1;  // time.per_sample and time.per_token are numbers
  point.tokens = 1;
  for (const Figure& figure : device) {
    if (figure.path == "price") point.cost.price = 0;
    if (figure.path == "power.watts") point.cost.joules = 0;
  }
  std::vector<std::string> names;
  add_number_names(result_document(std::span(&point, 1)).at("points").at(0), "", names);
  for (const Figure& figure : device)
    names.push_back(std::string(kHardware) + figure.path);
  return names;
}

Expression decode_expression(const Value& value, const std::string& path, bool comparison,
                             const std::vector<std::string>& known) {
  const auto fail = [&](const std::string& problem) {
    throw UserError(value.location, path, problem);
  };
  if (!value.is_scalar()) {
    fail(comparison ? "expected a text such as \"memory.device_used <= 72GiB\""
                    : "expected a figure such as time.step");
  }
  try {
    Expression expression(value.scalar, comparison);
    for (const std::string& name : expression.names()) {
      const bool of_policy = name.starts_with(kPolicies);
      if (!of_policy && std::find(known.begin(), known.end(), name) == known.end()) {
        fail(fmt::format("there is no figure '{}'{}; `run --json` shows them", name,
                         did_you_mean(name, known)));
      }
    }
    return expression;
  } catch (const std::invalid_argument& error) {
    fail(error.what());
    throw;
  }
}

// Decodes what is to be small or large: one figure or a list of them.
std::vector<Expression> decode_objectives(const Decoder& d, const Value& given, const char* key,
                                          const std::vector<std::string>& known) {
  const bool several = given.is_sequence();
  std::vector<Value> figures = several ? given.items : std::vector<Value>{given};
  if (figures.empty()) d.fail_at(key, "expected a figure or a list of figures");
  std::vector<Expression> objectives;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (figures[i].scalar == kCost) {
      if (std::find(known.begin(), known.end(), kPrice) == known.end())
        d.fail_at(key, "a cost needs hardware.price, what one device costs for an hour");
      figures[i].scalar = kPrice;
    }
    objectives.push_back(decode_expression(
        figures[i], several ? fmt::format("goal.{}[{}]", key, i) : fmt::format("goal.{}", key),
        false, known));
  }
  return objectives;
}

}  // namespace
}  // namespace goal_detail

Goal decode_goal(const Value& scenario, const std::vector<Figure>& device) {
  Goal goal;
  const Value* given = scenario.find("goal");
  if (given == nullptr || given->is_null()) return goal;
  const Decoder d(*given, "goal");
  if (!given->is_mapping()) d.fail("expected {minimize: FIGURE, subject_to: [...]}");
  const std::vector<std::string> known = goal_detail::known_names(device);
  const bool minimize = d.has("minimize");
  if (minimize == d.has("maximize")) {
    d.fail(
        "give one of minimize and maximize; several figures are a list, such as minimize: "
        "[time.per_sample, memory.device_used]");
  }
  goal.maximize = !minimize;
  const char* key = minimize ? "minimize" : "maximize";
  goal.objectives = goal_detail::decode_objectives(d, *given->find(key), key, known);
  if (d.has("subject_to")) {
    const Value& list = *given->find("subject_to");
    if (!list.is_sequence()) {
      d.fail_at("subject_to", "expected a list such as [\"memory.device_used <= 72GiB\"]");
    }
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      goal.subject_to.push_back(goal_detail::decode_expression(
          list.items[i], fmt::format("goal.subject_to[{}]", i), true, known));
    }
  }
  d.finish();
  return goal;
}

}  // namespace tidemark
