// Finds what Tidemark ships.
#pragma once

#include <string>

#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Returns the policies that Tidemark ships and the folders of hardware profiles that exist, in the
// order of tidemark/paths.hpp: next to `executable`, in the checkout, under the prefix of the
// installation. `executable` is the program's path (argv[0] will do); if empty, the system is
// asked.
[[nodiscard]] Environment default_environment(const std::string& executable = {});

// Returns the names of all profiles of these folders, sorted.
[[nodiscard]] std::vector<std::string> gpu_names(const Environment& environment);

}  // namespace tidemark
