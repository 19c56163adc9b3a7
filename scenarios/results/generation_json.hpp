// The figures of generated text in a result document.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/result/generation.hpp"

namespace tidemark {

[[nodiscard]] nlohmann::ordered_json to_json(const GenerationFigures& generation);
// Returns the figures that to_json() made `json` of.
[[nodiscard]] GenerationFigures generation_from_json(const nlohmann::ordered_json& json);

}  // namespace tidemark
