// Writes an imported scenario as YAML.
#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/printable.hpp"
#include "scenarios/import/import_settings.hpp"
#include "scenarios/results/document_json.hpp"

namespace tidemark {
namespace scenario_yaml_detail {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
// Words that YAML reads as something else than a text; written plainly all the same where the
// scenario means a number or true and false.
constexpr std::size_t kWidth = 100;

std::string scalar_text(const Value& value) {
  const bool plain = !value.scalar.empty() && !value.quoted &&
                     value.scalar.find_first_not_of(kPlain) == std::string::npos &&
                     value.scalar.front() != '-';
  return plain ? value.scalar : as_json(value);
}

// Returns a value on one line.
std::string flow(const Value& value) {
  if (value.is_scalar()) return scalar_text(value);
  std::string text;
  for (const Value& item : value.items)
    text += (text.empty() ? "" : ", ") + flow(item);
  for (const Value::Entry& entry : value.entries)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", entry.key, flow(entry.value));
  return value.is_sequence() ? '[' + text + ']' : '{' + text + '}';
}

// Returns a comment that may be longer than a line.
std::string comment(const std::string& sentence) {
  std::string text;
  std::string line = "#";
  std::size_t begin = 0;
  while (begin < sentence.size()) {
    const std::size_t end = std::min(sentence.find(' ', begin), sentence.size());
    if (line.size() > 1 && line.size() + 1 + end - begin > kWidth) {
      text += line + '\n';
      line = "#    ";
    }
    line += ' ' + sentence.substr(begin, end - begin);
    begin = end + 1;
  }
  return text + line + '\n';
}

// Returns a key of the scenario with its value.
std::string entry_text(const Value::Entry& entry) {
  const Value& value = entry.value;
  std::string text;
  if (value.is_sequence() && !value.items.empty()) {
    text += fmt::format("{}:\n", entry.key);
    for (const Value& item : value.items) {
      // A policy without parameters is written as its name.
      const Value::Entry& policy = item.entries.front();
      const bool bare = policy.value.is_mapping() && policy.value.entries.empty();
      text += bare ? fmt::format("  - {}\n", policy.key)
                   : fmt::format("  - {}: {}\n", policy.key, flow(policy.value));
    }
  } else if (value.is_mapping() && entry.key == "training") {
    text += fmt::format("{}:\n", entry.key);
    for (const Value::Entry& setting : value.entries)
      text += fmt::format("  {}: {}\n", setting.key, flow(setting.value));
  } else {
    text += fmt::format("{}: {}\n", entry.key, flow(value));
  }
  return text;
}

}  // namespace
}  // namespace scenario_yaml_detail

std::string scenario_yaml(const ImportedScenario& imported, const std::string& source) {
  using scenario_yaml_detail::comment;
  std::string text = comment(fmt::format("Imported from {}: {}.", source, imported.format));
  const auto setting_text = [](const ImportedSetting& setting) {
    return printable(setting.value.empty() ? setting.key
                                           : fmt::format("{}: {}", setting.key, setting.value));
  };
  for (const ImportedSetting& setting : imported.report.understood)
    text += comment(fmt::format("  {} -> {}", setting_text(setting), printable(setting.outcome)));
  if (!imported.report.not_understood.empty()) {
    text += comment("Not understood, or not simulated yet, so that nothing below follows from it:");
    for (const ImportedSetting& setting : imported.report.not_understood) {
      text += comment(fmt::format("  {}{}: {}",
                                  setting.location.line > 0
                                      ? fmt::format("line {}: ", setting.location.line)
                                      : std::string(),
                                  setting_text(setting), printable(setting.outcome)));
    }
  }
  for (const Value::Entry& entry : imported.scenario.entries)
    text += scenario_yaml_detail::entry_text(entry);
  return text;
}

}  // namespace tidemark
