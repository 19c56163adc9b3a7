#include "cli/text/override_words.hpp"

#include <fmt/format.h>

namespace tidemark {

std::string last_word(std::string_view key) {
  return std::string(key.substr(key.rfind('.') + 1));
}

std::string changed_value(const PointResult& point, std::string_view key) {
  for (const auto& [name, value] : point.overrides) {
    if (name == key) return short_setting(value);
  }
  return {};
}

std::string change_in_words(std::string_view key, std::string_view title,
                            const std::string& value) {
  return key == "policies" ? value : fmt::format("{} {}", title, value);
}

std::string changes_in_words(const PointResult& point, const ChangeWords& words) {
  std::string text;
  for (const auto& [key, value] : point.overrides) {
    if (key == "name" && !words.with_name) continue;
    const std::string setting = short_setting(value);
    if (!text.empty()) text += ", ";
    text += key == "hardware" && words.bare_hardware
                ? setting
                : change_in_words(key, words.whole_keys ? key : last_word(key), setting);
  }
  return text;
}

}  // namespace tidemark
