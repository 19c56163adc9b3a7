#include "hwprofiles/figures.hpp"

#include <algorithm>
#include <array>

#include "hwprofiles/assumed_figures.hpp"

namespace tidemark {
namespace figures_detail {
namespace {

// Keys of a profile that are texts, not figures.
constexpr std::array<std::string_view, 4> kTexts = {"name", "description", "extends", "like"};

bool is_text(std::string_view key) {
  return std::find(kTexts.begin(), kTexts.end(), key) != kTexts.end();
}

// Checks `range: LOW to HIGH` of a figure, and returns it as a note.
template <class T>
std::string range_note(const Decoder& figure, T number, Range range) {
  const auto text = figure.maybe<std::string>("range");
  if (!text) return {};
  constexpr std::string_view kTo = " to ";
  const std::size_t to = text->find(kTo);
  if (to == std::string::npos) figure.fail_at("range", "expected a range, like 5us to 25us");
  Value bounds;
  bounds.kind = Value::Kind::kMapping;
  bounds.location = figure.value().find("range")->location;
  const auto add = [&](const char* key, const std::string& bound) {
    Value value = *figure.value().find("range");
    value.quoted = false;
    value.scalar = bound;
    bounds.entries.push_back({.key = key, .location = bounds.location, .value = std::move(value)});
  };
  add("low", text->substr(0, to));
  add("high", text->substr(to + kTo.size()));
  const Decoder both(bounds, "range");
  if (number < both.required<T>("low", range) || both.required<T>("high", range) < number) {
    figure.fail_at("range", "the value of the figure lies outside of it");
  }
  return std::string(kRangeNote) + *text;
}

bool is_figure(const Value& value) {
  return value.is_scalar() || value.find("value") != nullptr;
}

// The entry `source: text` of a figure that stands at the place of `figure`.
Value::Entry source_entry(const std::string& text, const Value& figure) {
  Value source;
  source.kind = Value::Kind::kScalar;
  source.quoted = true;
  source.scalar = text;
  source.location = figure.location;
  return {.key = "source", .location = figure.location, .value = std::move(source)};
}

// Returns every number below `changes` with a source of its own, since the groups around it stay
// behind.
Value with_sources(const Value& changes, const std::string& source) {
  if (changes.is_scalar()) return figure_value(changes, source);
  if (!changes.is_mapping()) return changes;
  if (is_figure(changes)) {
    Value figure = changes;
    if (figure.find("source") == nullptr) figure.entries.push_back(source_entry(source, changes));
    return figure;
  }
  const Value* own = changes.find("source");
  const std::string& nearest = own != nullptr && own->is_scalar() ? own->scalar : source;
  Value sourced = changes;
  std::erase_if(sourced.entries, [](const Value::Entry& entry) { return entry.key == "source"; });
  for (Value::Entry& entry : sourced.entries) {
    if (!is_text(entry.key)) entry.value = with_sources(entry.value, nearest);
  }
  return sourced;
}

Value merge_sourced(const Value& base, const Value& changes) {
  if (!base.is_mapping() || !changes.is_mapping() || is_figure(base) || is_figure(changes)) {
    return changes;
  }
  Value merged = base;
  for (const Value::Entry& change : changes.entries) {
    if (Value* present = merged.find(change.key)) {
      *present = merge_sourced(*present, change.value);
    } else {
      merged.entries.push_back(change);
    }
  }
  return merged;
}

}  // namespace
}  // namespace figures_detail

FigureReader::FigureReader(const Decoder& decoder, std::string path, std::string source,
                           std::vector<Figure>& figures)
    : decoder_(decoder), path_(std::move(path)), source_(std::move(source)), figures_(&figures) {
  if (const auto own = decoder_.maybe<std::string>("source")) source_ = *own;
}

FigureReader FigureReader::group(std::string_view key) const {
  const Value* value = decoder_.value().find(key);
  if (value != nullptr && !value->is_null() &&
      (!value->is_mapping() || figures_detail::is_figure(*value))) {
    decoder_.fail_at(key, "expected a group of figures");
  }
  return {decoder_.required_child(key), path_ + std::string(key) + ".", source_, *figures_};
}

std::vector<std::pair<std::string, FigureReader>> FigureReader::groups() const {
  std::vector<std::pair<std::string, FigureReader>> found;
  for (const Value::Entry& entry : decoder_.value().entries) {
    if (entry.key != "source") found.emplace_back(entry.key, group(entry.key));
  }
  return found;
}

template <class T>
T FigureReader::required(std::string_view key, Range range) const {
  const Value* value = decoder_.value().find(key);
  if (value == nullptr || !value->is_mapping()) {
    const T number = decoder_.required<T>(key, range);
    if (value != nullptr) record(key, *value, source_, {});
    return number;
  }
  const Decoder figure = decoder_.required_child(key);
  const T number = figure.required<T>("value", range);
  const auto source = figure.maybe<std::string>("source");
  const auto note = figure.maybe<std::string>("note");
  std::string notes = figures_detail::range_note<T>(figure, number, range);
  if (note) notes += (notes.empty() ? "" : "; ") + *note;
  figure.finish();
  record(key, *value->find("value"), source.value_or(source_), std::move(notes));
  return number;
}

template <class T>
std::optional<T> FigureReader::maybe(std::string_view key, Range range) const {
  if (!decoder_.has(key)) return std::nullopt;
  return required<T>(key, range);
}

void FigureReader::record(std::string_view key, const Value& value, std::string source,
                          std::string note) const {
  if (source.empty()) {
    decoder_.fail_at(key, "a figure names its source: {value: " + value.scalar + ", source: ...}");
  }
  figures_->push_back({.path = path_ + std::string(key),
                       .value = value.scalar,
                       .source = std::move(source),
                       .note = std::move(note)});
}

Value figure_value(const Value& number, const std::string& source) {
  Value figure;
  figure.kind = Value::Kind::kMapping;
  figure.location = number.location;
  figure.entries.push_back({.key = "value", .location = number.location, .value = number});
  figure.entries.push_back(figures_detail::source_entry(source, number));
  return figure;
}

Value merge_figures(const Value& base, const Value& changes, const std::string& source) {
  return figures_detail::merge_sourced(base, figures_detail::with_sources(changes, source));
}

template bool FigureReader::required(std::string_view, Range) const;
template int FigureReader::required(std::string_view, Range) const;
template double FigureReader::required(std::string_view, Range) const;
template Bytes FigureReader::required(std::string_view, Range) const;
template Duration FigureReader::required(std::string_view, Range) const;
template BytesPerSecond FigureReader::required(std::string_view, Range) const;
template FlopsPerSecond FigureReader::required(std::string_view, Range) const;
template std::optional<bool> FigureReader::maybe(std::string_view, Range) const;
template std::optional<int> FigureReader::maybe(std::string_view, Range) const;
template std::optional<double> FigureReader::maybe(std::string_view, Range) const;
template std::optional<Bytes> FigureReader::maybe(std::string_view, Range) const;
template std::optional<Duration> FigureReader::maybe(std::string_view, Range) const;
template std::optional<BytesPerSecond> FigureReader::maybe(std::string_view, Range) const;
template std::optional<FlopsPerSecond> FigureReader::maybe(std::string_view, Range) const;

}  // namespace tidemark
