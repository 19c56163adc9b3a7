// Loads the plug-ins that a command line names.
#pragma once

#include <string>
#include <vector>

#include "policies/registry.hpp"

namespace tidemark {

// Throws UserError: missing, no plug-in, of another version, or one that throws or crashes while it
// is loaded. To be called before any thread starts.
void load_plugins(const std::vector<std::string>& paths, PolicyRegistry& policies);

}  // namespace tidemark
