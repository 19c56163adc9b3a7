// Packing problems and solutions as CSV: id,lower,upper,size, and a solution's offset behind them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/memory/packing/problem.hpp"

namespace tidemark {

struct NamedProblem {
  std::vector<std::string> ids;  // name of each buffer
  PackingProblem problem;
};

// The first line names the columns, in any order; others than these four are ignored. Throws
// UserError with line and column: missing columns or fields, no integer, negative, too large,
// upper <= lower, an id that occurs twice, no buffers.
[[nodiscard]] NamedProblem parse_buffers(std::string_view text, const std::string& file);

[[nodiscard]] std::string solution_csv(const NamedProblem& named, const Packing& packing);

}  // namespace tidemark
