#include "policies/solver/plan_result.hpp"

#include <fmt/format.h>

namespace tidemark {

std::optional<std::string> footprint_fault(const RematProblem& problem, std::int64_t budget) {
  const NodeIndex node = problem.largest_footprint();
  if (problem.footprint(node) <= budget) return std::nullopt;
  return fmt::format(
      "computing node {} alone takes {} ({} bytes: fixed bytes, inputs, output and workspace), and "
      "the "
      "budget is {} ({} bytes)",
      node, format_bytes(Bytes(problem.footprint(node))), problem.footprint(node),
      format_bytes(Bytes(budget)), budget);
}

}  // namespace tidemark
