// `tidemark run` for a scenario that lists memory_elastic.
#pragma once

#include "cli/commands/command.hpp"

namespace tidemark {

// Runs the study and shows it; returns the exit code.
[[nodiscard]] int run_elastic(const Value& document, const Environment& environment,
                              const RunCommand& command, const Console& console);

}  // namespace tidemark
