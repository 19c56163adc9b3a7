#include "scenarios/import/settings.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "graph/core/scalars.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/results/document_json.hpp"

namespace tidemark {
namespace settings_detail {
namespace {

constexpr double kLargestInteger = 9e15;  // whole numbers up to it are exact

const Value& no_settings() {
  static const Value none = mapping_value({});
  return none;
}

bool matches(std::string_view key, std::string_view pattern) {
  if (!pattern.ends_with('*')) return key == pattern;
  return key.starts_with(pattern.substr(0, pattern.size() - 1));
}

}  // namespace
}  // namespace settings_detail

Settings::Settings(const Value* mapping, std::string path, ImportReport& report)
    : mapping_(mapping == nullptr || mapping->is_null() ? &settings_detail::no_settings()
                                                        : mapping),
      path_(std::move(path)),
      report_(report) {
  if (!mapping_->is_mapping()) {
    throw UserError(mapping_->location, path_,
                    fmt::format("expected a mapping, found {}", tidemark::found(*mapping_)));
  }
}

std::string Settings::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Value* Settings::value(std::string_view key) const {
  const Value* found = mapping_->find(key);
  if (found == nullptr || found->is_null() || is_auto(key)) return nullptr;
  return found;
}

bool Settings::has(std::string_view key) const {
  return value(key) != nullptr;
}

bool Settings::is_auto(std::string_view key) const {
  const Value* found = mapping_->find(key);
  return found != nullptr && found->is_scalar() && found->scalar == "auto";
}

Location Settings::location(std::string_view key) const {
  return location_of_key(*mapping_, key);
}

std::optional<std::int64_t> Settings::integer(std::string_view key, Range range) const {
  const Value* found = value(key);
  if (found == nullptr) return std::nullopt;
  const bool exponent =
      found->is_scalar() && found->scalar.find_first_of("eE.") != std::string::npos;
  if (!exponent) return decoder().maybe<std::int64_t>(key, range);
  const double number = decoder().required<double>(key, range);
  if (number != std::floor(number) || std::abs(number) > settings_detail::kLargestInteger)
    decoder().fail_at(key, fmt::format("expected an integer, found {}", tidemark::found(*found)));
  return static_cast<std::int64_t>(number);
}

std::optional<double> Settings::number(std::string_view key, Range range) const {
  return has(key) ? decoder().maybe<double>(key, range) : std::nullopt;
}

std::optional<bool> Settings::flag(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  // The words of YAML 1.1, which Python's reader takes; a text in quotes is no flag there either,
  // but the tools read it as one.
  const std::string given = value(key)->is_scalar() ? word(key).value_or("") : "";
  if (given == "yes" || given == "on" || given == "true") return true;
  if (given == "no" || given == "off" || given == "false") return false;
  return decoder().maybe<bool>(key);
}

std::optional<std::string> Settings::word(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  auto text = decoder().required<std::string>(key);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Settings Settings::group(std::string_view key) {
  reported_.emplace(key);
  return {value(key), path_of(key), report_};
}

void Settings::add(std::vector<ImportedSetting>& list, std::string_view key,
                   const std::string& outcome) {
  const Value* found = mapping_->find(key);
  if (found == nullptr || !reported_.emplace(key).second) return;
  list.push_back({.key = path_of(key),
                  .value = as_json(*found),
                  .location = location(key),
                  .outcome = outcome});
}

void Settings::becomes(std::string_view key, const std::string& outcome) {
  add(report_.understood, key, outcome);
}

void Settings::without_effect(std::string_view key, const std::string& reason) {
  add(report_.without_effect, key, reason);
}

void Settings::not_understood(std::string_view key, const std::string& reason) {
  add(report_.not_understood, key, reason);
}

void Settings::without_effect(std::span<const std::string_view> keys) {
  for (const Value::Entry& entry : mapping_->entries) {
    const bool listed = std::any_of(keys.begin(), keys.end(), [&](std::string_view pattern) {
      return settings_detail::matches(entry.key, pattern);
    });
    if (listed) without_effect(entry.key);
  }
}

void Settings::finish() {
  for (const Value::Entry& entry : mapping_->entries) {
    if (entry.value.is_null()) {
      without_effect(entry.key);
    } else if (is_auto(entry.key)) {
      without_effect(entry.key, "left to the Trainer");
    } else {
      not_understood(entry.key, "not known here");
    }
  }
}

}  // namespace tidemark
