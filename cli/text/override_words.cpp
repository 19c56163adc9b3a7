#include "cli/text/override_words.hpp"

#include <fmt/format.h>

namespace tidemark {

std::string last_word(std::string_view key) {
  return std::string(key.substr(key.rfind('.') + 1));
}

std::string changed_value(std::span<const Override> overrides, std::string_view key) {
  const Value* value = value_of(overrides, key);
  return value == nullptr ? "" : short_setting(*value);
}

std::string change_in_words(std::string_view key, std::string_view title,
                            const std::string& value) {
  return key == "policies" ? value : fmt::format("{} {}", title, value);
}

std::string changes_in_words(std::span<const Override> overrides, const ChangeWords& words) {
  std::string text;
  for (const auto& [key, value] : overrides) {
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
