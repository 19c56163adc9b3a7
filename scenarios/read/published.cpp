#include "scenarios/read/published.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/read/goal.hpp"

namespace tidemark {
namespace published_detail {
namespace {

constexpr const char* kKey = "published";

// Returns the values of an entry as they are written.
const std::vector<Value>& written_values(const Value& entry, std::vector<Value>& single) {
  const Value* values = entry.find("values");
  if (values != nullptr) return values->items;
  if (const Value* value = entry.find("value")) single.push_back(*value);
  return single;
}

std::string_view unit_name(FigureUnit unit) {
  if (unit == FigureUnit::kBytes) return "bytes with a unit, such as 60.0GiB";
  if (unit == FigureUnit::kSeconds) return "a time, such as 1.5s";
  return "a number without a unit";
}

std::optional<double> decode_value(const Value& value, const std::string& path, FigureUnit unit) {
  const auto fail = [&] {
    throw UserError(value.location, path,
                    fmt::format("expected {}, found {}", unit_name(unit),
                                value.is_scalar() ? quoted_excerpt(value.scalar) : "a list"));
  };
  if (value.is_null()) return std::nullopt;
  if (!value.is_scalar()) fail();
  Quantity quantity;
  try {
    quantity = parse_quantity(value.scalar);
  } catch (const std::invalid_argument&) {
    fail();
  }
  const bool bare = quantity.unit == FigureUnit::kNone || quantity.unit == FigureUnit::kNumber;
  const bool wants_bare = unit == FigureUnit::kNone || unit == FigureUnit::kNumber;
  if (wants_bare ? !bare : quantity.unit != unit) fail();
  if (!(quantity.value > 0)) {
    throw UserError(value.location, path,
                    "expected more than 0: errors are shares of what was published");
  }
  return quantity.value;
}

PublishedFigure decode_entry(const Decoder& d, const std::vector<Figure>& device) {
  const Value* figure = d.value().find("figure");
  const auto source = d.required<std::string>("source");
  if (!d.has("figure")) d.fail_at("figure", "required key is missing; expected a figure");
  const bool several = d.has("values");
  if (several == d.has("value")) d.fail("expected one of value and values");
  if (several && !d.value().find("values")->is_sequence())
    d.fail_at("values", "expected a list with one value for each point");
  PublishedFigure published{
      .location = d.location(),
      .source = source,
      .figure = decode_figures(*figure, d.path() + ".figure", device),
      .values = {},
  };
  std::vector<Value> single;
  const std::vector<Value>& values = written_values(d.value(), single);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string path =
        several ? fmt::format("{}.values[{}]", d.path(), i) : d.path() + ".value";
    published.values.push_back(decode_value(values[i], path, published.figure.unit()));
  }
  d.finish();
  return published;
}

}  // namespace
}  // namespace published_detail

std::vector<PublishedFigure> decode_published(const Value& scenario,
                                              const std::vector<Figure>& device) {
  std::vector<PublishedFigure> figures;
  const Value* published = scenario.find(published_detail::kKey);
  if (published == nullptr || published->is_null()) return figures;
  require_published_list(scenario);
  for (const Decoder& entry : Decoder(*published, published_detail::kKey).items()) {
    if (entry.value().is_mapping())
      figures.push_back(published_detail::decode_entry(entry, device));
  }
  return figures;
}

void require_published_list(const Value& scenario) {
  const Value* published = scenario.find(published_detail::kKey);
  if (published == nullptr || published->is_null()) return;
  for (std::size_t i = 0; i < published->items.size(); ++i) {
    const Value& entry = published->items[i];
    if (entry.is_scalar() || entry.is_mapping()) continue;
    throw UserError(entry.location, fmt::format("{}[{}]", published_detail::kKey, i),
                    "expected a text, or {source: TEXT, figure: memory.peak_live, value: 1GiB}");
  }
  if (!published->is_sequence())
    throw UserError(published->location, published_detail::kKey, "expected a list");
}

bool has_published_figures(const Value& scenario) {
  const Value* published = scenario.find(published_detail::kKey);
  return published != nullptr && std::any_of(published->items.begin(), published->items.end(),
                                             [](const Value& entry) { return entry.is_mapping(); });
}

void check_published(const std::vector<PublishedFigure>& figures, std::size_t points) {
  for (const PublishedFigure& figure : figures) {
    if (figure.values.size() == points) continue;
    throw UserError(
        figure.location, published_detail::kKey,
        fmt::format("{} has {} values, and the scenario {} points; write ~ for a point without one",
                    figure.figure.text(), figure.values.size(), points));
  }
}

std::vector<std::string> published_lines(const Value& scenario) {
  std::vector<std::string> lines;
  const Value* published = scenario.find(published_detail::kKey);
  if (published == nullptr) return lines;
  for (const Value& entry : published->items) {
    if (!entry.is_mapping()) {
      lines.push_back(entry.scalar);
      continue;
    }
    const auto text_of = [&](const char* key) {
      const Value* text = entry.find(key);
      return text == nullptr ? std::string() : text->scalar;
    };
    std::string line = fmt::format("{}: {} ", text_of("source"), text_of("figure"));
    std::vector<Value> single;
    const std::vector<Value>& values = published_detail::written_values(entry, single);
    for (std::size_t i = 0; i < values.size(); ++i)
      line += fmt::format("{}{}", i == 0 ? "" : ", ", values[i].is_null() ? "-" : values[i].scalar);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tidemark
