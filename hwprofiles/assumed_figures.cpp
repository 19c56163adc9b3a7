#include "hwprofiles/assumed_figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace tidemark {
namespace assumed_figures_detail {
namespace {

constexpr auto kWords = std::to_array<std::string_view>(
    {"assum", "taken over", "recalled", "not measured", "not verified"});

// Counts and settings that have no range: a value next to theirs is another machine.
constexpr auto kSettings = std::to_array<std::string_view>(
    {"roofline_only", "host.gpus", "host.memory", "nvme.capacity", "nvme.queue", "nvme.request",
     "links.collective.in_switch_ranks", "links.hbm_tax", "links.peer_to_peer"});

// Values lie within value * low and value * high.
struct Spread {
  double low = 1;
  double high = 1;
};

bool is_time(std::string_view unit) {
  return unit == "ns" || unit == "us" || unit == "ms" || unit == "s";
}

Spread spread_of(const Figure& figure, std::string_view unit) {
  if (figure.path == "hbm.capacity") return {.low = 0.98, .high = 1.02};
  if (is_time(unit)) return {.low = 0.5, .high = 2};
  if (figure.path.starts_with("framework.")) return {.low = 0.5, .high = 2};
  const bool recalled = figure.source.starts_with("recalled");
  const double off = recalled ? 0.1 : 0.2;
  const double value = std::strtod(figure.value.c_str(), nullptr);
  // No kernel moves its bytes faster than the memory does.
  const bool of_bandwidth = figure.path.starts_with("efficiency.bandwidth.") && value > 0;
  const double most = of_bandwidth ? std::max(1.0, 1 / value) : 1 + off;
  return {.low = 1 - off, .high = std::min(1 + off, most)};
}

// Writes the number of "2.6us" times `factor`; counts stay whole.
std::string scaled(const std::string& value, double factor) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  const std::string unit(end);
  const bool whole = unit.empty() && value.find('.') == std::string::npos;
  const double result = number * factor;
  if (whole || unit == "B" || result >= 1000)
    return fmt::format("{}{}", std::llround(result), unit);
  return fmt::format("{:.4g}{}", result, unit);
}

std::string unit_of(const std::string& value) {
  char* end = nullptr;
  static_cast<void>(std::strtod(value.c_str(), &end));
  return end;
}

// Returns the range that a figure states.
std::optional<std::pair<std::string, std::string>> stated_range(const Figure& figure) {
  if (!figure.note.starts_with(kRangeNote)) return std::nullopt;
  const std::string range =
      figure.note.substr(kRangeNote.size(), figure.note.find(';') - kRangeNote.size());
  constexpr std::string_view kTo = " to ";
  const std::size_t to = range.find(kTo);
  if (to == std::string::npos) return std::nullopt;
  return std::pair(range.substr(0, to), range.substr(to + kTo.size()));
}

Value text_value(const std::string& text) {
  Value value;
  value.kind = Value::Kind::kScalar;
  value.scalar = text;
  return value;
}

Value& mapping_at(Value& root, const std::string& path, std::string& key) {
  Value* at = &root;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    const std::string group = path.substr(begin, dot - begin);
    begin = dot + 1;
    Value* next = at->find(group);
    if (next == nullptr) {
      Value mapping;
      mapping.kind = Value::Kind::kMapping;
      at->entries.push_back({.key = group, .location = {}, .value = std::move(mapping)});
      next = &at->entries.back().value;
    }
    at = next;
  }
  key = path.substr(begin);
  return *at;
}

}  // namespace
}  // namespace assumed_figures_detail

bool is_assumed(const Figure& figure) {
  if (figure.source.starts_with(kTakenOver)) return true;
  return std::any_of(
      assumed_figures_detail::kWords.begin(), assumed_figures_detail::kWords.end(),
      [&](std::string_view word) { return figure.source.find(word) != std::string::npos; });
}

std::vector<AssumedFigure> assumed_figures(const DeviceProfile& profile) {
  std::vector<AssumedFigure> found;
  for (const Figure& figure : profile.figures) {
    const auto range = assumed_figures_detail::stated_range(figure);
    const bool setting = std::find(assumed_figures_detail::kSettings.begin(),
                                   assumed_figures_detail::kSettings.end(),
                                   figure.path) != assumed_figures_detail::kSettings.end();
    if (setting || (!range && !is_assumed(figure))) continue;
    const assumed_figures_detail::Spread spread =
        assumed_figures_detail::spread_of(figure, assumed_figures_detail::unit_of(figure.value));
    AssumedFigure assumed{
        .path = figure.path,
        .value = figure.value,
        .low = range ? range->first : assumed_figures_detail::scaled(figure.value, spread.low),
        .high = range ? range->second : assumed_figures_detail::scaled(figure.value, spread.high),
        .source = figure.source};
    if (assumed.low != assumed.high) found.push_back(std::move(assumed));  // 0us has no range
  }
  return found;
}

DeviceProfile with_figure(const DeviceProfile& profile, const std::string& path,
                          const std::string& value) {
  Value root;
  root.kind = Value::Kind::kMapping;
  root.entries.push_back(
      {.key = "name", .location = {}, .value = assumed_figures_detail::text_value(profile.name)});
  root.entries.push_back({.key = "description",
                          .location = {},
                          .value = assumed_figures_detail::text_value(profile.description)});
  for (const Figure& figure : profile.figures) {
    std::string key;
    Value& group = assumed_figures_detail::mapping_at(root, figure.path, key);
    const std::string& number = figure.path == path ? value : figure.value;
    group.entries.push_back(
        {.key = key,
         .location = {},
         .value = figure_value(assumed_figures_detail::text_value(number), figure.source)});
  }
  // A link is not faster while the other direction is busy, so both rates change together.
  for (const std::string direction : {"h2d", "d2h"}) {
    std::string key;
    Value& link = assumed_figures_detail::mapping_at(root, "links." + direction + ".alone", key);
    const std::string& alone = link.find("alone")->find("value")->scalar;
    std::string& duplex = link.find("duplex")->find("value")->scalar;
    if (parse_bandwidth(duplex) > parse_bandwidth(alone)) duplex = alone;
  }
  DeviceProfile changed = decode_device_profile(Decoder(root));
  changed.figures = profile.figures;
  return changed;
}

bool is_roofline_only(const DeviceProfile& profile) {
  return std::any_of(profile.figures.begin(), profile.figures.end(),
                     [](const Figure& figure) { return figure.path == "roofline_only"; });
}

}  // namespace tidemark
