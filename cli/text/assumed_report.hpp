// Reports the figures that nobody has measured and on which a result hangs: one line for people,
// all of them as JSON.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "scenarios/studies/assumed_influence.hpp"

namespace tidemark {

// Returns "  assumed        step -8 to +14 %: host.dispatch, ..." with the figures that change
// most; empty where none matters.
[[nodiscard]] std::string assumed_line(const AssumedReport& report, bool colour);

// Returns {"step": {"less", "more"}, "memory": ..., "figures": [...]}; changes are shares.
[[nodiscard]] nlohmann::ordered_json assumed_json(const AssumedReport& report);

}  // namespace tidemark
