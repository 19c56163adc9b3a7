#include "cli/output/swept_plot.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

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

// Splits the request into its parts; by is optional.
std::map<std::string, std::string> parts_of(const std::string& text) {
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

std::optional<double> figure_of(const PointResult& point, const Expression& figure) {
  if (point.status == PointStatus::kError) return std::nullopt;
  const bool fits = point.status == PointStatus::kFits;
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

PlotRequest parse_plot(const std::string& text, std::span<const Value> documents) {
  const std::map<std::string, std::string> parts = swept_plot_detail::parts_of(text);
  PlotRequest request{.x = parts.at("x"),
                      .by = parts.contains("by") ? parts.at("by") : "",
                      .y = swept_plot_detail::read_figure(parts.at("y"))};
  std::map<std::string, std::set<std::string>> keys;  // values of each that is swept, as words
  for (const Value& document : documents) {
    for (const std::vector<Override>& overrides : sweep_points(document)) {
      for (const Override& change : overrides)
        keys[change.key].insert(short_setting(change.value));
      const Value* value = value_of(overrides, request.x);
      if (value == nullptr || swept_plot_detail::number_of(*value)) continue;
      swept_plot_detail::fail(fmt::format(
          "x={}: its values are no numbers; give it as by and another key as x", request.x));
    }
  }
  for (const std::string& key : {request.x, request.by}) {
    if (key.empty() || keys.contains(key)) continue;
    std::vector<std::string> swept;
    swept.reserve(keys.size());
    for (const auto& [name, values] : keys)
      swept.push_back(name);
    swept_plot_detail::fail(
        fmt::format("no sweep changes {}{}", tidemark::quoted_excerpt(key),
                    swept.empty() ? "" : fmt::format("; swept are {}", fmt::join(swept, ", "))));
  }
  for (const auto& [key, values] : keys) {
    const bool drawn = key == request.x || key == request.by || key == "name";
    if (request.by.empty() || drawn || values.size() < 2) continue;
    swept_plot_detail::fail(
        fmt::format("a line for each {} would have several points at one {}, which differ in {}; "
                    "leave by out, and each combination has a line",
                    request.by, request.x, key));
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
  std::vector<SweptValue> values;
  for (const PointResult& point : points) {
    const Value* x = value_of(point.overrides, request.x);
    const std::optional<double> number = x ? swept_plot_detail::number_of(*x) : std::nullopt;
    if (!number) continue;
    if (x->scalar.ends_with('B')) axes.x_unit = AxisUnit::kBytes;
    values.push_back({.line = swept_plot_detail::line_of(point, request),
                      .x = *number,
                      .y = swept_plot_detail::figure_of(point, request.y),
                      .fits = point.status == PointStatus::kFits});
  }
  const bool known = std::any_of(values.begin(), values.end(),
                                 [](const SweptValue& value) { return value.y.has_value(); });
  if (!known) return false;
  SvgChart chart = swept_chart(axes, values);
  chart.reproduce = reproduce;
  add_chart(output, stem, chart);
  write_swept_csv(output.add(stem + ".svg.csv"), axes, values);
  return true;
}

}  // namespace tidemark
