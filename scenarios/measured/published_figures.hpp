// Figures that sources report for the points of a scenario (scenarios/read/published.hpp), held
// against what is simulated.
#pragma once

#include <string>

#include "hwprofiles/calibrate/validated.hpp"
#include "scenarios/read/environment.hpp"

namespace tidemark {

// Whether a file is a scenario rather than a table or a trace: by its name's ending, a pipe by what
// it holds.
[[nodiscard]] bool is_scenario_to_validate(const std::string& path);

// Simulates the points of a scenario on `threads` threads and adds a row for each value that is
// published of one. Points without one are not simulated; a figure that a point does not have, as
// a step that does not fit has no time, counts among the other rows. So does a file without
// published figures, unless it was `named`. Throws UserError: mistakes in the scenario; no figures
// in one that was named.
void validate_published(const std::string& file, bool named, const Environment& environment,
                        int threads, Validation& validation);

}  // namespace tidemark
