// Charts that compare policies: time over memory, and overhead over budgets.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "graph/core/units.hpp"
#include "plots/svg_chart.hpp"
#include "sim/result/pareto.hpp"

namespace tidemark {

// Returns time over memory with the front as a line, runs behind it hollow, runs that do not fit
// crossed out. `capacity` 0: no line. Runs without a time are left to the table.
[[nodiscard]] SvgChart pareto_chart(const std::string& title, const std::vector<TradeOff>& runs,
                                    Bytes capacity,
                                    const std::string& time_title = "time of a step");
// Writes the columns name, memory, seconds (empty where unknown), fits, on_front.
void write_pareto_csv(std::ostream& out, const std::vector<TradeOff>& runs);

// The outcome of one policy under one budget.
struct BudgetPoint {
  std::string policy;
  std::int64_t budget = 0;         // bytes
  std::optional<double> overhead;  // time beyond that without a budget, 0.1 is 10 %; none:
                                   // infeasible
};

// Returns overhead over budget, one line per policy in the order of first appearance. Budgets at
// which a policy has no schedule are hollow marks above the plot, each policy on a row of its own.
[[nodiscard]] SvgChart budget_chart(const std::string& title,
                                    const std::vector<BudgetPoint>& points);
// Writes the columns policy, budget, feasible, overhead (empty where infeasible).
void write_budget_csv(std::ostream& out, const std::vector<BudgetPoint>& points);

}  // namespace tidemark
