// Charts that compare policies: time over memory, and overhead over budgets.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/units.hpp"
#include "plots/svg_chart.hpp"
#include "sim/result/pareto.hpp"

namespace tidemark {

// Returns time over memory with the front as a line of steps, runs behind it hollow, runs that do
// not fit crossed out. `capacity` 0: no line. Runs without a time are left to the table.
[[nodiscard]] SvgChart pareto_chart(const std::string& title, const std::vector<TradeOff>& runs,
                                    Bytes capacity,
                                    const std::string& time_title = "time of a step");
// Writes the columns name, memory_bytes, then the time or cost (empty where unknown) under the name
// that says its unit, as "seconds_per_step", then fits, on_front.
void write_pareto_csv(std::ostream& out, const std::vector<TradeOff>& runs,
                      const std::string& time_column = "seconds_per_step");

// The outcome of one policy under one budget.
struct BudgetPoint {
  std::string policy;
  Bytes budget;
  std::optional<double> overhead;  // time beyond that without a budget, 0.1 is 10 %; none:
                                   // infeasible
};

// The least overheads that are proven for the schedules of a class.
struct ProvenLeast {
  std::string schedule_class;
  std::vector<std::pair<Bytes, double>> by_budget;  // budget and overhead, ascending
};

// Returns overhead over budget, one line per policy in the order of first appearance. Budgets at
// which a policy has no schedule are hollow marks above the plot, each policy on a row of its own.
// The proven least overhead is a bar under each budget; no policy of the class is below it.
[[nodiscard]] SvgChart budget_chart(const std::string& title,
                                    const std::vector<BudgetPoint>& points,
                                    const ProvenLeast& least = {});
// Writes the columns policy, budget_bytes, feasible, overhead (a share, 0.1 is 10 %; empty where
// infeasible); what is proven is the policy "proven least, class C".
void write_budget_csv(std::ostream& out, const std::vector<BudgetPoint>& points,
                      const ProvenLeast& least = {});

}  // namespace tidemark
