#include "cli/commands/option_values.hpp"

#include <vector>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"

namespace tidemark {

void refuse_option(std::string_view option, const std::string& problem) {
  throw UserError(fmt::format("--{}: {}", option, problem));
}

void refuse_value(std::string_view option, std::string_view expected, const std::string& text) {
  refuse_option(option,
                fmt::format("expected {}, found {}", expected, tidemark::quoted_excerpt(text)));
}

std::size_t place_of_name(std::string_view option, const std::string& name,
                          std::span<const std::string_view> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return i;
  }
  const std::vector<std::string> known(names.begin(), names.end());
  std::string hint = did_you_mean(name, known);
  if (hint.empty()) hint = fmt::format("; choose from {}", fmt::join(known, ", "));
  refuse_option(option,
                fmt::format("there is no {} {}{}", option, tidemark::quoted_excerpt(name), hint));
}

}  // namespace tidemark
