#include "scenarios/studies/measures/setting_values.hpp"

#include <utility>

#include <fmt/format.h>

namespace tidemark {

Value word_value(std::string text) {
  return text_value(std::move(text), {});
}

Value policy_item(const std::string& name, const std::string& parameter, const std::string& value) {
  Value parameters = mapping_value({});
  if (!parameter.empty()) set_entry(parameters, parameter, {}, word_value(value));
  Value item = mapping_value({});
  set_entry(item, name, {}, std::move(parameters));
  return item;
}

std::string share_text(std::int64_t percent) {
  return fmt::format("{:g}", static_cast<double>(percent) / 100);
}

}  // namespace tidemark
