// The part of the reports of calibrate and validate about rows that they leave out.
#pragma once

#include <map>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hwprofiles/calibrate/validated.hpp"

namespace tidemark {

// Returns lines that count the rows left out by reason and name the first of those that are wrong;
// empty where there are none.
[[nodiscard]] std::string left_out(std::span<const RefusedLine> refused,
                                   const std::map<std::string, std::size_t>& other);

// Returns {"count", "first": [{"file", "line", "problem"}]}.
[[nodiscard]] nlohmann::ordered_json refused_json(std::span<const RefusedLine> refused);

}  // namespace tidemark
