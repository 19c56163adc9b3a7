// Values of a scenario's settings, as a document would have them.
#pragma once

#include <cstdint>
#include <string>

#include "graph/core/value.hpp"

namespace tidemark {

// Returns one plain word.
[[nodiscard]] Value word_value(std::string text);

// Returns one policy of a list, with at most one parameter.
[[nodiscard]] Value policy_item(const std::string& name, const std::string& parameter = "",
                                const std::string& value = "");

// Returns percent as a share: 25 as "0.25".
[[nodiscard]] std::string share_text(std::int64_t percent);

}  // namespace tidemark
