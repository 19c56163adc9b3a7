// Numbers between commas, where one is expected.
#pragma once

#include <string>
#include <string_view>

#include "graph/core/value.hpp"

namespace tidemark {

// Returns the numbers of "4,8" as "4, 8"; empty where a text is no such list.
[[nodiscard]] std::string listed_numbers(const Value& value);

// Returns "1024" of "1, 024", thousands as people write them; empty where the groups make no
// number.
[[nodiscard]] std::string number_in_groups(std::string_view listed);

}  // namespace tidemark
