#include "cli/text/difference_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/point_summary.hpp"
#include "cli/text/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace difference_text_detail {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kReasons = 3;  // reasons named in the first sentence

// The words for the quantities of one table: to a few digits, and exactly in a unit.
template <class Quantity>
struct Wording {
  std::function<std::string(Quantity)> rounded;
  std::function<std::string(Quantity)> exact;
  std::string unit;
};

template <class Quantity, class Words>
std::string with_sign(Quantity value, const Words& words) {
  if (value == Quantity{}) return "=";
  return value > Quantity{} ? "+" + words(value) : "-" + words(-value);
}

class Difference {
 public:
  Difference(const DetailedPoint& a, const DetailedPoint& b, const DiffView& view)
      : a_(a),
        b_(b),
        top_(view.top),
        colour_(view.colour),
        width_(view.width),
        terms_(peak_difference(a, b)) {}
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::string heading() const;
  [[nodiscard]] std::string comparison() const;
  // Returns a table of the terms, with their sum where there is one.
  template <class Quantity>
  [[nodiscard]] std::string table(const std::string& title,
                                  const std::vector<TermPair<Quantity>>& terms,
                                  const Wording<Quantity>& words,
                                  const TermPair<Quantity>* sum) const;
  [[nodiscard]] std::string tensors(const BytesColumn& unit) const;

  const DetailedPoint& a_;
  const DetailedPoint& b_;
  std::size_t top_;
  bool colour_;
  std::size_t width_;
  PeakDifference terms_;
};

// Compares the live bytes at both peaks, and names the roles that differ most.
std::string Difference::comparison() const {
  const Bytes more = terms_.live.difference();
  if (more == Bytes(0)) {
    return fmt::format("At their peaks both have {} live.\n", format_bytes(terms_.live.a));
  }
  std::string sentence =
      fmt::format("At its peak B has {} {} live than A",
                  format_bytes(more > Bytes(0) ? more : -more), more > Bytes(0) ? "more" : "less");
  std::vector<TermPair<Bytes>> roles = terms_.roles;
  std::stable_sort(roles.begin(), roles.end(),
                   [](const TermPair<Bytes>& x, const TermPair<Bytes>& y) {
                     return std::abs(x.difference().count) > std::abs(y.difference().count);
                   });
  for (std::size_t i = 0; i < std::min(kReasons, roles.size()); ++i) {
    if (roles[i].difference() == Bytes(0)) break;
    sentence += fmt::format("{} {} {}", i == 0 ? ":" : ",",
                            with_sign(roles[i].difference(), format_bytes), roles[i].name);
  }
  sentence += '.';
  std::string text;
  for (const std::string& line : wrap(sentence, width_ > 0 ? width_ : sentence.size()))
    text += line + '\n';
  return text;
}

std::string Difference::heading() const {
  const auto side = [&](const char* name, const DetailedPoint& point) {
    const std::string setting =
        setting_line(point.result, point.scenario, *point.detail.model) +
        (point.result.status == PointStatus::kFits
             ? ""
             : paint(" (does not fit; as if there were enough)", kBad, colour_));
    std::string lines;
    for (const std::string& words : wrap(setting, width_ > 3 ? width_ - 3 : setting.size()))
      lines += (lines.empty() ? bold(name, colour_) + "  " : "   ") + words + '\n';
    return lines;
  };
  std::string text = side("A", a_) + side("B", b_) + '\n' + comparison();
  const auto peak = [](const PointResult& point) {
    return fmt::format("step {}, {}", point.peak.step,
                       place(point.peak.phase, point.peak.layer, point.peak.op));
  };
  text += fmt::format("A peaks in {}\nB peaks in {}\n", peak(a_.result), peak(b_.result));
  return text;
}

template <class Quantity>
std::string Difference::table(const std::string& title,
                              const std::vector<TermPair<Quantity>>& terms,
                              const Wording<Quantity>& words, const TermPair<Quantity>* sum) const {
  Table table({{""},
               {"A", Align::kRight},
               {"B", Align::kRight},
               {"B - A", Align::kRight},
               {words.unit, Align::kRight, 1}},
              kIndent);
  constexpr Quantity kNone{};
  const auto row = [&](const TermPair<Quantity>& term, bool strong) {
    const Quantity d = term.difference();
    table.add_row({{term.name, -1, strong},
                   {words.rounded(term.a), -1, strong},
                   {words.rounded(term.b), -1, strong},
                   {with_sign(d, words.rounded),
                    d > kNone   ? kNote
                    : d < kNone ? kGood
                                : -1,
                    strong},
                   {d == kNone ? "" : with_sign(d, words.exact), -1, strong}});
  };
  TermPair<Quantity> rest;
  std::size_t others = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (i < top_) {
      row(terms[i], false);
      continue;
    }
    rest.a += terms[i].a;
    rest.b += terms[i].b;
    ++others;
  }
  if (others > 0) {
    rest.name = fmt::format("{} others", others);
    row(rest, false);
  }
  if (sum != nullptr) row(*sum, true);
  return '\n' + bold(title, colour_) + '\n' + table.text(colour_, width_);
}

std::string Difference::tensors(const BytesColumn& unit) const {
  Table table({{"B - A", Align::kRight},
               {"A", Align::kRight},
               {"B", Align::kRight},
               {"role", Align::kLeft, 1},
               {"tensor"},
               {"layer"},
               {"made by", Align::kLeft, 2}},
              kIndent);
  const auto words = [&](Bytes bytes) { return unit.text(bytes); };
  const auto amount = [](std::int64_t count, Bytes bytes) -> std::string {
    if (count == 0) return "-";
    const std::string size = format_bytes(bytes / count);
    return count == 1 ? size : fmt::format("{} x {}", count, size);
  };
  Bytes rest = terms_.live.difference();
  std::size_t shown = 0;
  for (const TensorPair& pair : terms_.tensors) {
    const Bytes d = pair.difference();
    if (shown == top_ || d == Bytes(0)) break;
    ++shown;
    rest -= d;
    table.add_row(
        {{with_sign(d, words), d > Bytes(0) ? kNote : kGood},
         {amount(pair.count_a, pair.a)},
         {amount(pair.count_b, pair.b)},
         {std::string(style_of(pair.tensor.role).label), style_of(pair.tensor.role).colour},
         {pair.tensor.tensor},
         {pair.tensor.layer},
         {pair.tensor.op.empty() ? "there from the start" : pair.tensor.op}});
  }
  if (shown == 0) return {};
  if (rest != Bytes(0)) table.add_row({{with_sign(rest, words)}, {""}, {""}, {"all others"}});
  table.add_row({{with_sign(terms_.live.difference(), words), -1, true},
                 {words(terms_.live.a), -1, true},
                 {words(terms_.live.b), -1, true},
                 {"sum", -1, true}});
  return '\n' + bold("Tensors that differ, those alike together", colour_) + '\n' +
         table.text(colour_, width_);
}

std::string Difference::text() const {
  const BytesColumn unit(std::max(terms_.device_used.a, terms_.device_used.b));
  const Wording<Bytes> bytes{.rounded = [&](Bytes n) { return unit.text(n); },
                             .exact = [](Bytes n) { return grouped(n.count); },
                             .unit = "bytes"};
  const Duration longest = std::max(terms_.step.a, terms_.step.b);
  const Wording<Duration> time{.rounded = [&](Duration d) { return in_seconds(d, longest); },
                               .exact = [](Duration d) { return grouped(d.count()); },
                               .unit = "ns"};
  std::string text = heading();
  text += table("At the peak, by role", terms_.roles, bytes, &terms_.live);
  text += table("At the peak, by layer", terms_.layers, bytes, &terms_.live);
  text += tensors(unit);
  text += table<Bytes>("Peak of each phase, live bytes", terms_.phase_peaks, bytes, nullptr);
  text += table("On the device", terms_.device, bytes, &terms_.device_used);
  text += table("Time of a step", terms_.phase_times, time, &terms_.step);
  const auto parts = [&](const std::string& title, const std::vector<TermPair<Duration>>& terms) {
    if (terms.empty()) return std::string();
    Table table({{""}, {"A", Align::kRight}, {"B", Align::kRight}, {"B - A", Align::kRight}},
                kIndent);
    for (const TermPair<Duration>& term : terms) {
      table.add_row({{term.name},
                     {time.rounded(term.a)},
                     {time.rounded(term.b)},
                     {with_sign(term.difference(), time.rounded)}});
    }
    return '\n' + bold(title, colour_) + '\n' + table.text(colour_, width_);
  };
  text += parts("Of that", terms_.waits);
  text += parts("Busy time of the streams", terms_.streams);
  return text;
}

Json terms_json(const std::vector<TermPair<Bytes>>& terms) {
  Json list = Json::array();
  for (const TermPair<Bytes>& term : terms) {
    list.push_back({{"name", term.name},
                    {"a", term.a.count},
                    {"b", term.b.count},
                    {"difference", term.difference().count}});
  }
  return list;
}

// Returns times in seconds, as everywhere in result documents.
Json times_json(const std::vector<TermPair<Duration>>& terms) {
  Json list = Json::array();
  const auto seconds = [](Duration time) { return static_cast<double>(time.count()) * 1e-9; };
  for (const TermPair<Duration>& term : terms) {
    list.push_back({{"name", term.name},
                    {"a", seconds(term.a)},
                    {"b", seconds(term.b)},
                    {"difference", seconds(term.difference())}});
  }
  return list;
}

}  // namespace
}  // namespace difference_text_detail

std::string difference_text(const DetailedPoint& a, const DetailedPoint& b, const DiffView& view) {
  return difference_text_detail::Difference(a, b, view).text();
}

difference_text_detail::Json difference_json(const DetailedPoint& a, const DetailedPoint& b) {
  const PeakDifference d = peak_difference(a, b);
  difference_text_detail::Json document{{"tidemark", kVersion}};
  const auto side = [](const DetailedPoint& point) {
    return difference_text_detail::Json{
        {"name", point.result.name},
        {"setting", setting_line(point.result, point.scenario, *point.detail.model)},
        {"status", name_of(point.result.status)}};
  };
  document["a"] = side(a);
  document["b"] = side(b);
  document["peak"] = difference_text_detail::terms_json({d.live}).front();
  document["by_role"] = difference_text_detail::terms_json(d.roles);
  document["by_layer"] = difference_text_detail::terms_json(d.layers);
  difference_text_detail::Json tensors = difference_text_detail::Json::array();
  for (const TensorPair& pair : d.tensors) {
    tensors.push_back({{"tensor", pair.tensor.tensor},
                       {"layer", pair.tensor.layer},
                       {"role", name_of(pair.tensor.role)},
                       {"operator", pair.tensor.op},
                       {"count_a", pair.count_a},
                       {"count_b", pair.count_b},
                       {"a", pair.a.count},
                       {"b", pair.b.count},
                       {"difference", pair.difference().count}});
  }
  document["by_tensor"] = std::move(tensors);
  document["phase_peaks"] = difference_text_detail::terms_json(d.phase_peaks);
  document["device"] = difference_text_detail::terms_json(d.device);
  document["device_used"] = difference_text_detail::terms_json({d.device_used}).front();
  document["step"] = difference_text_detail::times_json({d.step}).front();
  document["phases"] = difference_text_detail::times_json(d.phase_times);
  document["waits"] = difference_text_detail::times_json(d.waits);
  document["streams"] = difference_text_detail::times_json(d.streams);
  return document;
}

}  // namespace tidemark
