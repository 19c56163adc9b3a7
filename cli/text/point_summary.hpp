// A summary of one point in a screenful: whether it fits, its peak by role, the time of a step.
#pragma once

#include <string>

#include "cli/text/wording.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Returns lines that end with '\n' and are wrapped to `width`, 0: not at all. The first is the
// scenario's name.
[[nodiscard]] std::string point_summary(const PointResult& point, const PointDetail& detail,
                                        const Scenario& scenario, bool colour, std::size_t width);

// Returns "gpt2-xl, 1.56 B parameters; a100-sxm-80gb; 4 x 1024 tokens; bf16_mixed, adamw; no
// policy".
[[nodiscard]] std::string setting_line(const PointResult& point, const Scenario& scenario,
                                       const TrainedModel& model);

}  // namespace tidemark
