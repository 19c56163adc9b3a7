// The points of a sweep:
//   sweep:
//     matrix: {training.micro_batch: [1, 2], training.precision: [bf16, fp32]}   4 points
//     exclude: [{training.micro_batch: 2, training.precision: fp32}]             less one
//     include: [{training.micro_batch: 64}]                                      and one more
//
// In place of a list the matrix takes a range of numbers:
//   training.micro_batch: {from: 1, to: 512}              1, 2, 3, ... 512
//   allocator.memory_fraction: {from: 0.5, to: 0.9, step: 0.1}
//   training.sequence: {from: 512, to: 8192, times: 2}    512, 1024, ... 8192
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/core/numbers.hpp"
#include "graph/core/scalars.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/other_names.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace sweep_points_detail {
namespace {

using Overrides = std::vector<Override>;

constexpr std::size_t kMaxSwept = 1'000'000;
constexpr double kExact = 9e15;  // integers below it have a double of their own
// The keys of a scenario that may differ from point to point.
constexpr std::array<std::string_view, 6> kSweepable{"name",     "model",     "hardware",
                                                     "training", "allocator", "policies"};

// Returns a text that two values have in common exactly if they mean the same to YAML: 4, 4.0 and
// 4_000e-3 are one number, but '4' is a text; the keys of a mapping have no order.
std::string canonical(const Value& value) {
  if (value.is_null()) return "~";
  if (value.is_scalar()) {
    const std::string_view text = value.scalar;
    const bool begins_as_number = text.find_first_of("0123456789") <= 2;
    if (!value.quoted && (text == "true" || text == "false")) return std::string(text);
    try {
      const double number = value.quoted || !begins_as_number ? kExact : read_real(value, "");
      if (std::abs(number) < kExact) return fmt::format("={}", number == 0 ? 0.0 : number);
    } catch (const std::invalid_argument&) {  // it is a text
    }
    return fmt::format("{}:{}", text.size(), text);
  }
  std::vector<std::string> parts;
  for (const Value& item : value.items)
    parts.push_back(canonical(item));
  for (const Value::Entry& entry : value.entries) {
    parts.push_back(fmt::format("{}:{}={}", entry.key.size(), entry.key, canonical(entry.value)));
  }
  if (value.is_mapping()) std::sort(parts.begin(), parts.end());
  return fmt::format("{}{}", value.is_mapping() ? '{' : '[', fmt::join(parts, ","));
}

// The path of an entry in an error: "sweep.matrix.training.micro_batch".
struct Place {
  std::string path;
  [[noreturn]] void fail(const Value::Entry& entry, const std::string& problem) const {
    throw UserError(entry.location, path + '.' + excerpt(entry.key), problem);
  }
  [[noreturn]] void fail(const Value& value, const std::string& problem) const {
    throw UserError(value.location, path, problem);
  }
};

// Throws when a key changes nothing of a point.
void check_key(const Value::Entry& entry, const Value& document, bool policies_differ,
               const Place& place) {
  const std::string& key = entry.key;
  const std::string first = key.substr(0, key.find('.'));
  if (std::find(kSweepable.begin(), kSweepable.end(), first) == kSweepable.end()) {
    const std::vector<std::string> words(kSweepable.begin(), kSweepable.end());
    const std::string hint = did_you_mean(first, words);
    place.fail(entry, fmt::format("{} cannot be swept{}", tidemark::quoted_excerpt(first),
                                  hint.empty() ? fmt::format("; keys that can begin with {}",
                                                             fmt::join(words, ", "))
                                               : hint));
  }
  if (first == "training" && key.size() > first.size()) {
    Value training = mapping_value(entry.location);
    set_entry(training, key.substr(first.size() + 1), entry.location, entry.value);
    Value alone = mapping_value(entry.location);
    set_entry(alone, first, entry.location, std::move(training));
    try {
      check_other_names(alone);
    } catch (const UserError& error) {
      place.fail(entry, error.problem());
    }
  }
  if (key.starts_with("training.")) {
    const std::vector<std::string> known = training_keys();
    const std::size_t begin = key.find('.') + 1;
    const std::string option = key.substr(begin, key.find('.', begin) - begin);
    if (std::find(known.begin(), known.end(), option) == known.end()) {
      place.fail(entry, "unknown key" + did_you_mean(option, known));
    }
  }
  // If the sweep changes the list, only a point knows whether a policy is listed.
  if (first == "policies" && policies_differ && key != first) return;
  const Override change{.key = key, .value = entry.value};
  try {
    static_cast<void>(point_document(document, std::span(&change, 1)));
  } catch (const UserError& error) {
    place.fail(entry, error.problem());
  }
}

bool is_key(const Value* mapping, std::string_view key) {
  return mapping != nullptr && mapping->find(key) != nullptr;
}

// Returns the numbers of a range in ascending order.
std::vector<Value> numbers_of(const Value& range, const std::string& path) {
  constexpr double kRounding = 1e-9;  // of a step: 0.5 + 4 * 0.1 reaches 0.9
  const Decoder d(range, path);
  const double from = d.required<double>("from");
  const double to = d.required<double>("to");
  const bool multiplies = d.has("times");
  if (multiplies && d.has("step")) d.fail("give step, which is added, or times, not both");
  if (to < from) d.fail_at("to", fmt::format("is below from, {}", from));
  const double step = d.optional<double>("step", 1);
  const double times = d.optional<double>("times", 2);
  if (step <= 0) d.fail_at("step", "must be above 0");
  if (multiplies && times <= 1) d.fail_at("times", "must be above 1");
  if (multiplies && from <= 0) d.fail_at("from", "must be above 0, as it is multiplied");
  d.finish();
  const double count = multiplies ? std::log(to / from) / std::log(times) : (to - from) / step;
  if (count > static_cast<double>(kMaxSwept))
    d.fail(fmt::format("has more than the {} values that can be swept", kMaxSwept));
  std::vector<Value> numbers;
  double number = from;
  while (multiplies ? number <= to * (1 + kRounding) : number <= to + step * kRounding) {
    Value& value = numbers.emplace_back();
    value.kind = Value::Kind::kScalar;
    value.scalar = std::abs(number) < kExact && number == std::floor(number)
                       ? fmt::format("{:.0f}", number)
                       : fmt::format("{:.12g}", number);
    value.location = range.location;
    if (numbers.size() > 1 && value.scalar == numbers[numbers.size() - 2].scalar)
      d.fail(fmt::format("has values that are too close to {} to be told apart", value.scalar));
    number = multiplies ? number * times : from + step * static_cast<double>(numbers.size());
  }
  return numbers;
}

// Returns the matrix with each range written as a list.
Value listed(Value matrix, const Place& place) {
  for (Value::Entry& axis : matrix.entries) {
    if (axis.value.find("from") == nullptr && axis.value.find("to") == nullptr) continue;
    axis.value.items = numbers_of(axis.value, place.path + '.' + excerpt(axis.key));
    axis.value.kind = Value::Kind::kSequence;
    axis.value.entries.clear();
  }
  return matrix;
}

// Returns the checked matrix, ranges as lists; nothing when there is none.
std::optional<Value> checked_matrix(const Value& document, const Decoder& sweep) {
  if (!sweep.has("matrix")) return std::nullopt;
  const Place place{"sweep.matrix"};
  Value matrix = listed(*sweep.value().find("matrix"), place);
  if (!matrix.is_mapping() || matrix.entries.empty()) {
    place.fail(matrix, "expected {key: [values], ...}, found " +
                           (matrix.is_mapping() ? "nothing" : found(matrix)));
  }
  std::size_t points = 1;
  for (const Value::Entry& axis : matrix.entries) {
    const Value& values = axis.value;
    if (!values.is_sequence()) {
      const std::string hint =
          values.is_scalar() ? fmt::format("; write [{}]", excerpt(values.scalar)) : "";
      throw UserError(values.location, place.path + '.' + excerpt(axis.key),
                      fmt::format("expected a list of values or {{from: 1, to: 64}}, found {}{}",
                                  found(values), hint));
    }
    if (values.items.empty()) place.fail(axis, "the list is empty, so there are no points");
    points *= values.items.size();  // neither is above four millions
    if (points > kMaxSwept) {
      place.fail(axis, fmt::format("the keys up to this one already make {} points; at most {} can "
                                   "be swept",
                                   points, kMaxSwept));
    }
    std::set<std::string> seen;
    for (std::size_t i = 0; i < values.items.size(); ++i) {
      if (seen.insert(canonical(values.items[i])).second) continue;
      throw UserError(values.items[i].location,
                      fmt::format("{}.{}[{}]", place.path, excerpt(axis.key), i),
                      "this value is listed twice");
    }
    check_key({.key = axis.key, .location = axis.location, .value = values.items.front()}, document,
              is_key(&matrix, "policies"), place);
  }
  return matrix;
}

// Returns the mappings of `include` or `exclude`, checked to be such.
std::vector<const Value*> mappings_of(const Decoder& sweep, std::string_view key) {
  std::vector<const Value*> mappings;
  if (!sweep.has(key)) return mappings;
  const Value& list = *sweep.value().find(key);
  const std::string path = fmt::format("sweep.{}", key);
  if (!list.is_sequence()) {
    throw UserError(
        list.location, path,
        fmt::format("expected a list of points, found {}; begin each with '- '", found(list)));
  }
  for (const Value& item : list.items) {
    if (!item.is_mapping()) {
      throw UserError(item.location, fmt::format("{}[{}]", path, mappings.size()),
                      fmt::format("expected {{key: value, ...}}, found {}", found(item)));
    }
    mappings.push_back(&item);
  }
  return mappings;
}

// Marks the values of each axis that an exclusion names: all when it does not name the axis.
using Excluded = std::vector<std::vector<char>>;

Excluded decode_exclusion(const Value& exclusion, const Value* matrix, const Place& place) {
  if (exclusion.entries.empty()) place.fail(exclusion, "this would exclude every point");
  std::vector<std::string> axes;
  Excluded excluded;
  if (matrix != nullptr) {
    for (const Value::Entry& axis : matrix->entries) {
      axes.push_back(axis.key);
      excluded.emplace_back(axis.value.items.size(), 1);
    }
  }
  for (const Value::Entry& entry : exclusion.entries) {
    const auto axis = std::find(axes.begin(), axes.end(), entry.key);
    if (axis == axes.end()) {
      place.fail(entry, "not a key of the matrix" + did_you_mean(entry.key, axes));
    }
    const std::vector<Value>& values = matrix->find(entry.key)->items;
    std::vector<char>& named = excluded[static_cast<std::size_t>(axis - axes.begin())];
    const std::string wanted = canonical(entry.value);
    std::transform(values.begin(), values.end(), named.begin(),
                   [&](const Value& value) { return canonical(value) == wanted ? 1 : 0; });
    if (std::find(named.begin(), named.end(), 1) == named.end()) {
      throw UserError(entry.value.location, place.path + '.' + excerpt(entry.key),
                      "the matrix does not have this value, so nothing would be excluded");
    }
  }
  return excluded;
}

// Returns the product, first key slowest, without excluded points.
std::vector<Overrides> product_of(const Value& matrix, const std::vector<Excluded>& exclusions) {
  const std::vector<Value::Entry>& axes = matrix.entries;
  std::vector<Overrides> points;
  std::vector<std::size_t> at(axes.size(), 0);
  const auto excludes = [&](const Excluded& excluded) {
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      if (excluded[axis][at[axis]] == 0) return false;
    }
    return true;
  };
  while (true) {
    if (std::none_of(exclusions.begin(), exclusions.end(), excludes)) {
      Overrides& point = points.emplace_back();
      for (std::size_t axis = 0; axis < at.size(); ++axis) {
        point.push_back({.key = axes[axis].key, .value = axes[axis].value.items[at[axis]]});
      }
    }
    std::size_t axis = at.size();
    while (axis > 0 && ++at[axis - 1] == axes[axis - 1].value.items.size())
      at[--axis] = 0;
    if (axis == 0) return points;
  }
}

}  // namespace
}  // namespace sweep_points_detail

std::vector<std::vector<Override>> sweep_points(const Value& document) {
  const Value* given = document.find("sweep");
  if (given == nullptr || given->is_null()) return {sweep_points_detail::Overrides{}};
  const Decoder sweep(*given, "sweep");
  const std::optional<Value> matrix = sweep_points_detail::checked_matrix(document, sweep);
  const std::vector<const Value*> without = sweep_points_detail::mappings_of(sweep, "exclude");
  const std::vector<const Value*> extra = sweep_points_detail::mappings_of(sweep, "include");
  for (const Value::Entry& entry : given->entries) {
    const std::string first = entry.key.substr(0, entry.key.find('.'));
    const auto keys = scenario_keys();
    if (std::find(keys.begin(), keys.end(), first) == keys.end()) continue;
    throw UserError(
        entry.location, "sweep." + excerpt(entry.key),
        fmt::format("unknown key; write sweep: {{matrix: {{{}: [...]}}}}", excerpt(entry.key)));
  }
  sweep.finish();
  if (!matrix && extra.empty()) {
    sweep.fail("expected matrix: {key: [values]} or include: [{key: value}]");
  }
  std::vector<sweep_points_detail::Excluded> exclusions;
  for (const Value* exclusion : without) {
    const sweep_points_detail::Place place{fmt::format("sweep.exclude[{}]", exclusions.size())};
    exclusions.push_back(
        sweep_points_detail::decode_exclusion(*exclusion, matrix ? &*matrix : nullptr, place));
  }
  std::vector<sweep_points_detail::Overrides> points;
  if (matrix) points = sweep_points_detail::product_of(*matrix, exclusions);
  for (std::size_t i = 0; i < extra.size(); ++i) {
    const sweep_points_detail::Place place{fmt::format("sweep.include[{}]", i)};
    sweep_points_detail::Overrides point;
    for (const Value::Entry& entry : extra[i]->entries) {
      sweep_points_detail::check_key(entry, document,
                                     sweep_points_detail::is_key(extra[i], "policies"), place);
      point.push_back({.key = entry.key, .value = entry.value});
    }
    points.push_back(std::move(point));
  }
  if (points.empty()) sweep.fail_at("exclude", "every point is excluded");
  if (points.size() > sweep_points_detail::kMaxSwept) {
    sweep.fail_at("include", fmt::format("{} points; at most {} can be swept", points.size(),
                                         sweep_points_detail::kMaxSwept));
  }
  return points;
}

}  // namespace tidemark
