// Policies against each other: time over memory, and overhead over budgets.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "graph/core/units.hpp"
#include "plots/svg.hpp"

namespace tidemark {

// A run as a point of memory and time.
struct TradeOff {
  std::string name;
  std::int64_t memory = 0;  // bytes of the device
  double seconds = 0;       // of a step; 0: unknown, as of a run that does not fit
  bool fits = true;
};

// Indices of the runs that fit and that no other one beats in one of memory and time without being
// worse in the other; by memory. Equal runs are all there, or none.
[[nodiscard]] std::vector<std::size_t> pareto_front(const std::vector<TradeOff>& runs);

// Time over memory with the front as a line, runs behind it hollow, runs that do not fit crossed
// out. `capacity` 0: no line. Runs without a time are left to the table.
[[nodiscard]] SvgChart pareto_chart(const std::string& title, const std::vector<TradeOff>& runs,
                                    Bytes capacity,
                                    const std::string& time_title = "time of a step");
// Columns: name, memory, seconds (empty where unknown), fits, on_front.
void write_pareto_csv(std::ostream& out, const std::vector<TradeOff>& runs);

// One policy under one budget.
struct BudgetPoint {
  std::string policy;
  std::int64_t budget = 0;         // bytes
  std::optional<double> overhead;  // time beyond that without a budget, 0.1 is 10 %; none:
                                   // infeasible
};

// Overhead over budget, one line per policy in the order of first appearance. Budgets at which a
// policy has no schedule are hollow marks above the plot, each policy on a row of its own.
[[nodiscard]] SvgChart budget_chart(const std::string& title,
                                    const std::vector<BudgetPoint>& points);
// Columns: policy, budget, feasible, overhead (empty where infeasible).
void write_budget_csv(std::ostream& out, const std::vector<BudgetPoint>& points);

}  // namespace tidemark
