#include "cli/output/swept_plot.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/output/figures.hpp"
#include "cli/text/override_words.hpp"
#include "cli/text/wording.hpp"
#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "plots/swept_chart.hpp"
#include "scenarios/read/figure_unit.hpp"
#include "scenarios/read/goal.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace swept_plot_detail {
namespace {

constexpr std::string_view kForm = "x=KEY,y=FIGURE,by=KEY";

[[noreturn]] void fail(const std::string& problem) {
  throw UserError(fmt::format("--plot: {}", problem));
}

// Returns a swept value as a number; none for words.
std::optional<double> number_of(const Value& value) {
  if (!value.is_scalar() || value.quoted) return std::nullopt;
  try {
    return parse_quantity(value.scalar).value;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// Splits the request into its parts; by is optional, and y where a key is fitted.
std::map<std::string, std::string> parts_of(const std::string& text, const std::string& fitted) {
  std::map<std::string, std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, std::min(equals, part.size()));
    const bool known = name == "x" || name == "y" || name == "by";
    if (!known || equals == std::string::npos || equals + 1 == part.size())
      fail(fmt::format("expected {}, found {}", kForm, tidemark::quoted_excerpt(part)));
    if (!parts.emplace(name, part.substr(equals + 1)).second)
      fail(fmt::format("{} is given twice", name));
    begin = end + 1;
  }
  if (!fitted.empty()) parts.try_emplace("y", fitted);
  if (!parts.contains("x") || !parts.contains("y")) fail(fmt::format("expected {}", kForm));
  return parts;
}

Expression read_figure(const std::string& text) {
  try {
    Expression figure(text, false);
    // Some of the devices may have a price and a power.
    const std::vector<tidemark::Figure> priced{{.path = "price", .value = {}},
                                               {.path = "power.watts", .value = {}}};
    std::vector<std::string> known = figure_names(priced);
    std::erase_if(known, [](const std::string& name) { return name.starts_with("hardware."); });
    for (const std::string& name : figure.names()) {
      const bool of_policy = name.starts_with("policies.");
      if (of_policy || std::find(known.begin(), known.end(), name) != known.end()) continue;
      fail(fmt::format("there is no figure '{}'{}; `run --json` shows them", name,
                       did_you_mean(name, known)));
    }
    return figure;
  } catch (const std::invalid_argument& error) {
    fail(error.what());
  }
}

// Names the line of a point: the value of `by`, or what it changes beside x.
std::string line_of(const PointResult& point, const PlotRequest& request) {
  if (!request.by.empty()) return changed_value(point.overrides, request.by);
  std::vector<Override> others = point.overrides;
  std::erase_if(others, [&](const Override& change) { return change.key == request.x; });
  const std::string words = changes_in_words(others, {.with_name = true, .bare_hardware = true});
  return words.empty() ? point.name : words;
}

std::optional<double> figure_of(const PointResult& point, const PlotRequest& request) {
  if (point.status == PointStatus::kError) return std::nullopt;
  const Expression& figure = request.y;
  const bool fits = point.status == PointStatus::kFits;
  if (request.is_fitted) {
    const Value* value = value_of(point.overrides, figure.text());
    return fits && value != nullptr ? number_of(*value) : std::nullopt;
  }
  // A step that does not fit has no time, as in the tables.
  const auto is_time = [](const std::string& name) { return name.starts_with("time."); };
  if (!fits && std::any_of(figure.names().begin(), figure.names().end(), is_time))
    return std::nullopt;
  const auto entry = result_entry(point);
  const std::vector<Figure> device;
  const double value = figure.value(known_figures(figures_of(entry, device), fits));
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

// Returns the values of x as words, in the order of the points; none where all are numbers.
std::vector<std::string> words_of_x(const PlotRequest& request,
                                    std::span<const PointResult> points) {
  std::vector<std::string> words;
  bool numbers = true;
  for (const PointResult& point : points) {
    const Value* x = value_of(point.overrides, request.x);
    if (x == nullptr) continue;
    numbers = numbers && number_of(*x).has_value();
    const std::string word = short_setting(*x);
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return numbers ? std::vector<std::string>{} : words;
}

// Returns the number that x is, or the place of its words.
double place_of(const Value& x, const std::vector<std::string>& words) {
  if (words.empty()) return number_of(x).value();
  return static_cast<double>(std::find(words.begin(), words.end(), short_setting(x)) -
                             words.begin());
}

// Returns the swept keys that a picture does not show, without their groups.
std::set<std::string> keys_beside(const PlotRequest& request, std::span<const PointResult> points) {
  std::map<std::string, std::set<std::string>> values;
  for (const PointResult& point : points) {
    for (const Override& change : point.overrides)
      values.try_emplace(change.key);
  }
  std::set<std::string> keys;
  for (auto& [key, words] : values) {
    for (const PointResult& point : points)
      words.insert(changed_value(point.overrides, key));
    const bool drawn = key == request.x || key == request.by || key == "name";
    if (!drawn && words.size() > 1) keys.insert(last_word(key));
  }
  return keys;
}

// Leaves of the points of one line at one x the best: one with the figure, that fits, and of those
// the one with the least, or of a throughput the most. Says so in the note.
void keep_best(SweptAxes& axes, std::vector<SweptValue>& values, const PlotRequest& request,
               std::span<const PointResult> points) {
  const bool most = request.is_fitted ||
                    (request.y.names().size() == 1 && request.y.text().starts_with("throughput.") &&
                     request.y.names().front() == request.y.text());
  const auto rank = [&](const SweptValue& value) {
    const double figure = value.y.value_or(0);
    return std::tuple(!value.y.has_value(), !value.fits, most ? -figure : figure);
  };
  std::map<std::pair<std::string, double>, std::size_t> places;
  std::vector<SweptValue> kept;
  for (const SweptValue& value : values) {
    const auto [at, is_new] = places.try_emplace({value.line, value.x}, kept.size());
    if (is_new) {
      kept.push_back(value);
    } else if (rank(value) < rank(kept[at->second])) {
      kept[at->second] = value;
    }
  }
  const std::set<std::string> beside = keys_beside(request, points);
  if (kept.size() < values.size() && !beside.empty()) {
    axes.note =
        fmt::format("each: the {} over {}", most ? "most" : "least", fmt::join(beside, ", "));
  }
  values = std::move(kept);
}

AxisUnit axis_of(FigureUnit unit) {
  switch (unit) {
    case FigureUnit::kBytes:
      return AxisUnit::kBytes;
    case FigureUnit::kSeconds:
      return AxisUnit::kSeconds;
    case FigureUnit::kNone:
    case FigureUnit::kNumber:
      return AxisUnit::kNumber;
  }
  return AxisUnit::kNumber;
}

// Returns the capacity that all points share, where the figure is memory of the device.
Bytes capacity_of(const PlotRequest& request, std::span<const PointResult> points) {
  const std::string& figure = request.y.text();
  if (figure != "memory.device_used" && figure != "memory.smallest_capacity") return {};
  std::set<Bytes> capacities;
  for (const PointResult& point : points) {
    if (point.status != PointStatus::kError) capacities.insert(point.capacity);
  }
  return capacities.size() == 1 ? *capacities.begin() : Bytes(0);
}

}  // namespace
}  // namespace swept_plot_detail

PlotRequest parse_plot(const std::string& text, std::span<const Value> documents,
                       const std::string& fitted) {
  const std::map<std::string, std::string> parts = swept_plot_detail::parts_of(text, fitted);
  const std::string& y = parts.at("y");
  const bool is_fitted = !fitted.empty() && y == fitted;
  PlotRequest request{.x = parts.at("x"),
                      .by = parts.contains("by") ? parts.at("by") : "",
                      .y = is_fitted ? Expression(y, false) : swept_plot_detail::read_figure(y),
                      .is_fitted = is_fitted};
  std::set<std::string> swept;
  for (const Value& document : documents) {
    for (const std::vector<Override>& overrides : sweep_points(document)) {
      for (const Override& change : overrides)
        swept.insert(change.key);
    }
  }
  for (const std::string& key : {request.x, request.by}) {
    if (key.empty() || swept.contains(key)) continue;
    swept_plot_detail::fail(
        fmt::format("no sweep changes {}{}", tidemark::quoted_excerpt(key),
                    swept.empty() ? "" : fmt::format("; swept are {}", fmt::join(swept, ", "))));
  }
  return request;
}

bool add_swept_plot(OutputFolder& output, const std::string& stem, const PlotRequest& request,
                    std::span<const PointResult> points, const std::string& reproduce) {
  SweptAxes axes{.title = points.empty() ? "" : points.front().name,
                 .x = request.x,
                 .y = request.y.text(),
                 .y_unit = swept_plot_detail::axis_of(request.y.unit()),
                 .capacity = swept_plot_detail::capacity_of(request, points)};
  axes.x_words = swept_plot_detail::words_of_x(request, points);
  std::vector<SweptValue> values;
  for (const PointResult& point : points) {
    const Value* x = value_of(point.overrides, request.x);
    if (x == nullptr) continue;
    const bool in_bytes = axes.x_words.empty() && x->scalar.ends_with('B');
    if (in_bytes) axes.x_unit = AxisUnit::kBytes;
    values.push_back({.line = swept_plot_detail::line_of(point, request),
                      .x = swept_plot_detail::place_of(*x, axes.x_words),
                      .y = swept_plot_detail::figure_of(point, request),
                      .fits = point.status == PointStatus::kFits});
  }
  const bool known = std::any_of(values.begin(), values.end(),
                                 [](const SweptValue& value) { return value.y.has_value(); });
  if (!known) return false;
  if (!request.by.empty()) swept_plot_detail::keep_best(axes, values, request, points);
  SvgChart chart = swept_chart(axes, values);
  chart.reproduce = reproduce;
  add_chart(output, stem, chart);
  write_swept_csv(output.add(stem + ".svg.csv"), axes, values);
  return true;
}

}  // namespace tidemark
