// The figures of loading weights in a result document.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "policies/data/load.hpp"

namespace tidemark {

[[nodiscard]] nlohmann::ordered_json to_json(const LoadFigures& load);
// Returns the figures that to_json() made `json` of.
[[nodiscard]] LoadFigures load_from_json(const nlohmann::ordered_json& json);

}  // namespace tidemark
