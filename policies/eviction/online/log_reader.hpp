// Logs as DTR's simulator simrd reads them: one JSON object per line (CONSTANT, MEMORY, CALL,
// ALIAS, MUTATE, COPY, COPY_FROM, RELEASE, ANNOTATE).
#pragma once

#include <string>
#include <string_view>

#include "policies/eviction/online/eviction_log.hpp"

namespace tidemark {

// Reads a log. Everything before {"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"} is skipped. Names
// that still hold a reference at the end are kept resident, in the order in which they were first
// defined. Throws UserError with the line of `file` that is wrong.
[[nodiscard]] EvictionLog read_eviction_log(const std::string& file);
[[nodiscard]] EvictionLog parse_eviction_log(std::string_view text, const std::string& file);

}  // namespace tidemark
